-- Conversations (S9.1): what people, agents and those outside say to each other. A conversation has one
-- live run at most (S1.9); its messages are what its runs' timelines hold.
CREATE TABLE conversations (
    id             TEXT   NOT NULL PRIMARY KEY,
    namespace      TEXT   NOT NULL,
    agent          TEXT   NOT NULL,
    channel        TEXT   NOT NULL,
    title          TEXT   NOT NULL,
    created_by     TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    -- Its last run; none before the first message.
    last_run       TEXT,
    -- How often a run of it has begun or been retried: whoever begins or retries one names this.
    moves          BIGINT NOT NULL,
    create_key     TEXT,
    create_request TEXT
);
CREATE INDEX conversations_listed ON conversations (namespace, created_at, id);
CREATE UNIQUE INDEX conversations_created ON conversations (namespace, created_by, create_key)
    WHERE create_key IS NOT NULL;

CREATE TABLE messages (
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT   NOT NULL,
    run          TEXT   NOT NULL,
    seq          BIGINT NOT NULL,
    at           BIGINT NOT NULL,
    -- Who said it: person, agent or outside, and their name.
    speaker      TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    -- The principal that sent it; none of what an agent said.
    sender       TEXT,
    kind         TEXT   NOT NULL,
    text         TEXT   NOT NULL,
    trust        TEXT   NOT NULL,
    secret_read  BIGINT NOT NULL,
    message_key  TEXT,
    request      TEXT
);
CREATE INDEX messages_of ON messages (conversation, position);
CREATE UNIQUE INDEX messages_of_run ON messages (run, seq);
CREATE INDEX messages_keyed ON messages (conversation, sender, message_key)
    WHERE message_key IS NOT NULL;

ALTER TABLE runs ADD COLUMN conversation TEXT;
CREATE UNIQUE INDEX runs_live_of_conversation ON runs (conversation)
    WHERE conversation IS NOT NULL AND ended_at IS NULL;
