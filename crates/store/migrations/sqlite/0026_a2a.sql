-- The tasks of A2A clients. Their context is the trigger's name.
CREATE INDEX tasks_of_a2a ON tasks (namespace, agent, trigger_name) WHERE source = 'a2a';

-- Where A2A clients want to be told of their tasks. `sealed` holds URL, token and credentials, sealed
-- like a secret and bound to the row's key. `told_seq` and `told_status` say where the run stood when
-- it was told last: what a run has done since is owed, so nothing is lost with a message or a process.
CREATE TABLE a2a_pushes (
    run         TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    namespace   TEXT   NOT NULL,
    agent       TEXT   NOT NULL,
    principal   TEXT   NOT NULL,
    key_id      TEXT   NOT NULL,
    sealed      BLOB   NOT NULL,
    state       TEXT   NOT NULL,
    told_seq    BIGINT NOT NULL,
    told_status TEXT   NOT NULL,
    attempts    BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    holder      TEXT,
    last_error  TEXT,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (run, id)
);
CREATE INDEX a2a_pushes_open ON a2a_pushes (due_at) WHERE state = 'open';
