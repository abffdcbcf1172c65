-- What models cost, and the most that they may (S4.6).
ALTER TABLE runs ADD COLUMN cost BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN currency TEXT;

-- One row a namespace, month, worker and currency: only its worker adds to it, in the append that
-- records the answer. Amounts are millionths; of answers without a price the currency is empty.
CREATE TABLE usage (
    namespace     TEXT   NOT NULL,
    month         TEXT   NOT NULL,
    worker        TEXT   NOT NULL,
    currency      TEXT   NOT NULL,
    spent         BIGINT NOT NULL,
    answers       BIGINT NOT NULL,
    tokens_input  BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    tokens_output BIGINT NOT NULL,
    PRIMARY KEY (namespace, month, worker, currency)
);

CREATE TABLE budgets (
    namespace TEXT   NOT NULL PRIMARY KEY,
    cap       BIGINT NOT NULL,
    currency  TEXT   NOT NULL,
    set_by    TEXT   NOT NULL,
    set_at    BIGINT NOT NULL,
    -- The month in which it was last told that most of it is spent.
    announced TEXT   NOT NULL
);
