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
-- target of the namespace.
ALTER TABLE deliveries ADD COLUMN notice TEXT NOT NULL DEFAULT 'approval.pending';
ALTER TABLE deliveries ADD COLUMN target TEXT;
ALTER TABLE deliveries ALTER COLUMN approval DROP NOT NULL;
ALTER TABLE deliveries ALTER COLUMN url DROP NOT NULL;
CREATE INDEX deliveries_of_target ON deliveries (namespace, target) WHERE state = 'due';
