-- What starts agents by itself (S8.5): schedules and webhooks, as the current revision of each agent
-- has them.
ALTER TABLE tasks ADD COLUMN trigger_name TEXT;

CREATE TABLE schedules (
    id         TEXT   NOT NULL PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    agent      TEXT   NOT NULL,
    cron       TEXT   NOT NULL,
    timezone   TEXT   NOT NULL,
    input      TEXT   NOT NULL,
    -- Who stands behind its runs.
    changed_by TEXT   NOT NULL,
    -- The tick that is due next; moved on in the transaction that starts its run.
    next_at    BIGINT NOT NULL,
    last_at    BIGINT,
    -- Ticks that no run was started for, since they were noticed too late.
    skipped    BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_at);
CREATE INDEX schedules_of_agent ON schedules (namespace, agent);

CREATE TABLE triggers (
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    agent      TEXT   NOT NULL,
    -- The name of the secret that signs its calls.
    secret     TEXT   NOT NULL,
    trust      TEXT   NOT NULL,
    -- Who stands behind its runs.
    changed_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX triggers_of_agent ON triggers (namespace, agent);
