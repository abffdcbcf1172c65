-- For people who query by hand: times as timestamptz, contents as jsonb. A content that holds an
-- escaped NUL has no jsonb form and shows as NULL there; its text is in the table.

CREATE FUNCTION sayso_time(micros BIGINT) RETURNS TIMESTAMPTZ
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT TIMESTAMPTZ 'epoch' + micros * INTERVAL '1 microsecond' $$;

CREATE FUNCTION sayso_json(content TEXT) RETURNS JSONB
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT CASE WHEN POSITION('\u0000' IN content) = 0 THEN content::jsonb END $$;

CREATE VIEW runs_view AS
SELECT r.id, r.namespace, r.agent, r.revision, r.principal, r.trust, r.status, r.seq, r.ended_by,
       t.input, r.output, r.error_code, r.error_message, r.cycles, r.retries,
       r.tokens_input, r.tokens_cached, r.tokens_output, r.open_calls > 0 AS open_calls,
       r.epoch, r.worker, r.published,
       sayso_time(r.created_at) AS created_at, sayso_time(r.updated_at) AS updated_at,
       sayso_time(r.ended_at) AS ended_at, sayso_time(r.expires_at) AS expires_at,
       sayso_time(r.ready_at) AS ready_at
FROM runs r JOIN tasks t ON t.id = r.task;

CREATE VIEW steps_view AS
SELECT run, seq, sayso_time(at) AS at, actor, kind, version,
       sayso_json(COALESCE(view, content)) AS content,
       ENCODE(hash, 'hex') AS hash, seal_key
FROM steps;

CREATE VIEW actions_view AS
SELECT run, call, tool, status, args, cleared_by, result, denied,
       sayso_time(created_at) AS created_at, sayso_time(updated_at) AS updated_at
FROM actions;

CREATE VIEW approvals_view AS
SELECT id, namespace, run, call, agent, requester, tool, args, summary, rule, reason, trust, status,
       action_status, decided_by, decision_reason, closed_cause,
       sayso_time(requested_at) AS requested_at, sayso_time(expires_at) AS expires_at,
       sayso_time(decided_at) AS decided_at
FROM approvals;

CREATE VIEW feedback_view AS
SELECT id, namespace, agent, task, run, approval, source, given_by,
       score::NUMERIC / 1000000 AS score, note, sayso_time(at) AS at
FROM feedback;

CREATE VIEW audit_view AS
SELECT namespace, seq, sayso_time(at) AS at, actor, kind, sayso_json(content) AS content
FROM audit;
