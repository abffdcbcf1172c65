-- Where each value of an approval's arguments came from: one JSON list.
ALTER TABLE approvals ADD COLUMN origins TEXT;
-- The calls of a tool of an agent that were approved, the newest first.
CREATE INDEX approvals_approved ON approvals (namespace, agent, tool, decided_at)
    WHERE status = 'approved';
