-- Groups of people who decide, and what was said with votes that are sealed on the timeline.
CREATE TABLE groups (
    namespace TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    principal TEXT   NOT NULL,
    added_by  TEXT   NOT NULL,
    added_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, name, principal)
);
CREATE INDEX groups_of_principal ON groups (namespace, principal);

-- A vote counts only if its step is on the timeline, with the hash of these words.
CREATE TABLE votes (
    approval TEXT   NOT NULL,
    voter    TEXT   NOT NULL,
    salt     TEXT   NOT NULL,
    reason   TEXT,
    at       BIGINT NOT NULL,
    PRIMARY KEY (approval, voter, salt)
);

-- Who may decide, where that is not anybody who may, and who has voted: one JSON object.
ALTER TABLE approvals ADD COLUMN deciders TEXT;
-- The groups that may decide, each with a blank before and after it.
ALTER TABLE approvals ADD COLUMN groups TEXT;
-- When the next group is let in.
ALTER TABLE approvals ADD COLUMN escalates_at BIGINT;
CREATE INDEX approvals_escalating ON approvals (escalates_at)
    WHERE status = 'pending' AND escalates_at IS NOT NULL;
