-- What the model proposed, where a person has edited it, and who edited it last.
ALTER TABLE approvals ADD COLUMN original TEXT;
ALTER TABLE approvals ADD COLUMN edited_by TEXT;
