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
