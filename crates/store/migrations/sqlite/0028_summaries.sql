-- What a model wrote of a held call for the reviewer (S6.2): one JSON object.
ALTER TABLE approvals ADD COLUMN written TEXT;
