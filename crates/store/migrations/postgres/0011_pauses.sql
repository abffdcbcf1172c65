-- Agents and namespaces that start nothing and do nothing for now (S10.6).
CREATE TABLE pauses (
    namespace  TEXT   NOT NULL,
    -- The agent; empty for the whole namespace.
    agent      TEXT   NOT NULL,
    reason     TEXT,
    paused_by  TEXT   NOT NULL,
    paused_at  BIGINT NOT NULL,
    -- When it ended. The row stays: the reaper counts from there.
    resumed_at BIGINT,
    PRIMARY KEY (namespace, agent)
);
