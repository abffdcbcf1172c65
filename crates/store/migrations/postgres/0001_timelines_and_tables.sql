-- Timelines and what is projected from them, and the tables of the services.
-- Times are microseconds since 1970 in UTC, by the database's clock; scores are millionths.
-- The views in 0002 show them as timestamptz and jsonb.

-- Facts about the installation: the offset that tests put on the clock, version counters.
CREATE TABLE meta (
    key   TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO meta (key, value) VALUES ('clock_offset', 0), ('policy_version', 0), ('token_version', 0);

CREATE TABLE namespaces (
    name       TEXT   NOT NULL PRIMARY KEY,
    audit_seq  BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);

-- What was asked: written once, with the first step of its run.
CREATE TABLE tasks (
    id            TEXT   NOT NULL PRIMARY KEY,
    run           TEXT   NOT NULL UNIQUE,
    namespace     TEXT   NOT NULL,
    agent         TEXT   NOT NULL,
    source        TEXT   NOT NULL,
    input         TEXT   NOT NULL,
    principal     TEXT   NOT NULL,
    trust         TEXT   NOT NULL,
    start_key     TEXT,
    start_request TEXT,
    traceparent   TEXT,
    created_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX tasks_started ON tasks (namespace, principal, start_key) WHERE start_key IS NOT NULL;

CREATE TABLE runs (
    id            TEXT   NOT NULL PRIMARY KEY,
    task          TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    agent         TEXT   NOT NULL,
    revision      TEXT   NOT NULL,
    principal     TEXT   NOT NULL,
    trust         TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    seq           BIGINT NOT NULL,
    ended_by      TEXT,
    output        TEXT,
    error_code    TEXT,
    error_message TEXT,
    cycles        BIGINT NOT NULL,
    retries       BIGINT NOT NULL,
    tokens_input  BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    tokens_output BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    expires_at    BIGINT,
    open_calls    BIGINT NOT NULL,
    -- The lease: raised by every claim; the holder; the last append that changed it.
    epoch         BIGINT NOT NULL,
    worker        TEXT,
    lease_append  BYTEA,
    -- Since when work is owed and nobody was seen to do it.
    ready_at      BIGINT,
    -- The last step whose event the broker acknowledged.
    published     BIGINT NOT NULL
);
CREATE INDEX runs_listed ON runs (namespace, created_at, id);
CREATE INDEX runs_ready ON runs (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX runs_leased ON runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX runs_unpublished ON runs (updated_at) WHERE published < seq;
CREATE INDEX runs_live ON runs (namespace, status) WHERE ended_at IS NULL;

-- One start of an executor process. Dead once ended_at is set; a claim looks at this mark.
CREATE TABLE workers (
    id         TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    counter    BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    renewed_at BIGINT NOT NULL,
    ended_at   BIGINT
);
CREATE UNIQUE INDEX workers_alive ON workers (name) WHERE ended_at IS NULL;

-- The timelines. Only ever inserted.
CREATE TABLE steps (
    run            TEXT   NOT NULL,
    seq            BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    actor          TEXT   NOT NULL,
    kind           TEXT   NOT NULL,
    version        BIGINT NOT NULL,
    content        TEXT   NOT NULL,
    -- The content with secrets masked, where that differs.
    view           TEXT,
    content_sha256 BYTEA  NOT NULL,
    hash           BYTEA  NOT NULL,
    seal_key       TEXT,
    seal           BYTEA,
    append         BYTEA  NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE actions (
    run        TEXT   NOT NULL,
    call       TEXT   NOT NULL,
    tool       TEXT   NOT NULL,
    status     TEXT   NOT NULL,
    args       TEXT   NOT NULL,
    digest     BYTEA  NOT NULL,
    cleared_by TEXT,
    result     TEXT,
    denied     TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (run, call)
);

CREATE TABLE approvals (
    id              TEXT   NOT NULL PRIMARY KEY,
    namespace       TEXT   NOT NULL,
    run             TEXT   NOT NULL,
    call            TEXT   NOT NULL,
    agent           TEXT   NOT NULL,
    requester       TEXT   NOT NULL,
    tool            TEXT   NOT NULL,
    args            TEXT   NOT NULL,
    digest          BYTEA  NOT NULL,
    definition      BYTEA  NOT NULL,
    task_input      TEXT   NOT NULL,
    trust           TEXT   NOT NULL,
    rule            TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    summary         TEXT   NOT NULL,
    seq             BIGINT NOT NULL,
    status          TEXT   NOT NULL,
    requested_at    BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    decided_by      TEXT,
    decided_at      BIGINT,
    decision_reason TEXT,
    closed_cause    TEXT,
    action_status   TEXT   NOT NULL
);
CREATE INDEX approvals_listed ON approvals (namespace, requested_at, id);
CREATE INDEX approvals_pending ON approvals (namespace, requested_at, id) WHERE status = 'pending';
CREATE INDEX approvals_expiring ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_of_run ON approvals (run);

CREATE TABLE feedback (
    id        TEXT   NOT NULL PRIMARY KEY,
    task      TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    agent     TEXT   NOT NULL,
    run       TEXT   NOT NULL,
    approval  TEXT,
    source    TEXT   NOT NULL,
    given_by  TEXT   NOT NULL,
    score     BIGINT NOT NULL,
    note      TEXT,
    at        BIGINT NOT NULL
);
CREATE INDEX feedback_listed ON feedback (namespace, agent, at, id);

CREATE TABLE deliveries (
    id         TEXT   NOT NULL PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    agent      TEXT   NOT NULL,
    run        TEXT   NOT NULL,
    approval   TEXT   NOT NULL,
    url        TEXT   NOT NULL,
    secret     TEXT,
    state      TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    -- The bytes that were sent first: every retry sends the same.
    body       BYTEA,
    holder     TEXT,
    last_error TEXT,
    updated_at BIGINT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'due';

CREATE TABLE agents (
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    revision   TEXT   NOT NULL,
    role       TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE revisions (
    namespace   TEXT   NOT NULL,
    agent       TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    bundle      TEXT   NOT NULL,
    deployed_by TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, agent, id)
);

CREATE TABLE roles (
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    permits    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE principals (
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE tokens (
    id         TEXT   NOT NULL PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    principal  TEXT   NOT NULL,
    hash       BYTEA  NOT NULL UNIQUE,
    scopes     TEXT   NOT NULL,
    trust      TEXT   NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX tokens_listed ON tokens (namespace, created_at, id);

-- The tools that a run offered, under the digest of their definitions.
CREATE TABLE tool_sets (
    id         TEXT   NOT NULL PRIMARY KEY,
    tools      TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE artifacts (
    id         TEXT   NOT NULL PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    run        TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    mime       TEXT   NOT NULL,
    size       BIGINT NOT NULL,
    sha256     BYTEA  NOT NULL,
    content    BYTEA  NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX artifacts_of_run ON artifacts (run, created_at, id);

CREATE TABLE agent_logs (
    id        TEXT   NOT NULL PRIMARY KEY,
    namespace TEXT   NOT NULL,
    agent     TEXT   NOT NULL,
    run       TEXT,
    level     TEXT   NOT NULL,
    code      TEXT   NOT NULL,
    message   TEXT   NOT NULL,
    at        BIGINT NOT NULL
);
CREATE INDEX agent_logs_listed ON agent_logs (namespace, agent, at, id);

-- Hash-chained per namespace like a timeline; every entry is sealed.
CREATE TABLE audit (
    namespace      TEXT   NOT NULL,
    seq            BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    actor          TEXT   NOT NULL,
    kind           TEXT   NOT NULL,
    version        BIGINT NOT NULL,
    content        TEXT   NOT NULL,
    content_sha256 BYTEA  NOT NULL,
    hash           BYTEA  NOT NULL,
    seal_key       TEXT   NOT NULL,
    seal           BYTEA  NOT NULL,
    PRIMARY KEY (namespace, seq)
);
