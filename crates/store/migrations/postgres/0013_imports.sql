-- Read-only copies of runs that were exported: the run that each is a copy of.
ALTER TABLE runs ADD COLUMN imported_from TEXT;
