-- Where a namespace is told of approvals and failures.
CREATE TABLE targets (
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    -- webhook, email or slack.
    kind       TEXT   NOT NULL,
    -- The URL, or the mailbox.
    address    TEXT   NOT NULL,
    -- The name of the secret that signs what a webhook gets.
    secret     TEXT,
    -- Whether it gets every pending approval, and every failed run: 1 or 0.
    approvals  BIGINT NOT NULL,
    failures   BIGINT NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- What a delivery tells of; without an approval it is the run's failure. It goes to the URL, or to a
-- target of the namespace. SQLite cannot let a column be empty later: the table is made anew.
CREATE TABLE deliveries_anew (
    id         TEXT   NOT NULL PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    agent      TEXT   NOT NULL,
    run        TEXT   NOT NULL,
    approval   TEXT,
    url        TEXT,
    secret     TEXT,
    state      TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    -- The bytes that were sent first: every retry sends the same.
    body       BLOB,
    holder     TEXT,
    last_error TEXT,
    updated_at BIGINT NOT NULL,
    notice     TEXT   NOT NULL DEFAULT 'approval.pending',
    target     TEXT
);
INSERT INTO deliveries_anew (id, namespace, agent, run, approval, url, secret, state, attempts,
    due_at, body, holder, last_error, updated_at)
SELECT id, namespace, agent, run, approval, url, secret, state, attempts, due_at, body, holder,
    last_error, updated_at FROM deliveries;
DROP TABLE deliveries;
ALTER TABLE deliveries_anew RENAME TO deliveries;
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'due';
CREATE INDEX deliveries_of_target ON deliveries (namespace, target) WHERE state = 'due';
