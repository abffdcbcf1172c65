-- Secrets, sealed under a key that is kept outside the database. `agent` is empty for those of the
-- whole namespace. `sealed` is a nonce of 12 bytes and the ciphertext, which is bound to the row's
-- key: moved to another row it does not open.
CREATE TABLE secrets (
    namespace  TEXT   NOT NULL,
    agent      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    key_id     TEXT   NOT NULL,
    sealed     BLOB   NOT NULL,
    set_by     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, agent, name)
);
