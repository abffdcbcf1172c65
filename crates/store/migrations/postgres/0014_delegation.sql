-- Runs that agents start (S3.6): whose child a run is, and ends of children that wait to be taken.
ALTER TABLE runs ADD COLUMN parent TEXT;
ALTER TABLE runs ADD COLUMN root TEXT;
ALTER TABLE tasks ADD COLUMN parent TEXT;
ALTER TABLE tasks ADD COLUMN root TEXT;
CREATE INDEX runs_children ON runs (parent, created_at, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_live_children ON runs (parent) WHERE parent IS NOT NULL AND ended_at IS NULL;

CREATE TABLE child_ends (
    child  TEXT NOT NULL PRIMARY KEY,
    parent TEXT NOT NULL
);
CREATE INDEX child_ends_of ON child_ends (parent);

CREATE OR REPLACE VIEW runs_view AS
SELECT r.id, r.namespace, r.agent, r.revision, r.principal, r.trust, r.status, r.seq, r.ended_by,
       t.input, r.output, r.error_code, r.error_message, r.cycles, r.retries,
       r.tokens_input, r.tokens_cached, r.tokens_output, r.open_calls > 0 AS open_calls,
       r.epoch, r.worker, r.published,
       sayso_time(r.created_at) AS created_at, sayso_time(r.updated_at) AS updated_at,
       sayso_time(r.ended_at) AS ended_at, sayso_time(r.expires_at) AS expires_at,
       sayso_time(r.ready_at) AS ready_at,
       t.source, t.trigger_name, r.imported_from, r.parent, r.root,
       r.cost::NUMERIC / 1000000 AS cost, r.currency
FROM runs r JOIN tasks t ON t.id = r.task;
