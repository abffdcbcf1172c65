//! The text of the one statement, for each combination of tables that a group touches.
//!
//! Conflicts are rows that `started` and `moved` do not give back; everything else is written for
//! the members in `good` only. `moved` visits its rows in the order of the arrays, which are sorted
//! by run, so that two groups never wait for each other in a circle.
//!
//! A deadline is checked twice: in the update's condition, and in what it gives back. Between the
//! two the statement may have waited for the row; a condition is evaluated again only if the row
//! changed meanwhile. What is given back is computed after the wait, and divides by zero if it was
//! too long, which undoes the whole group; its members are then tried one by one.

use std::fmt::Write;

use super::bind::Place;
use crate::database::Kind;

/// Which tables a group touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Shape {
    pub(super) ticks: bool,
    pub(super) talks: bool,
    pub(super) starts: bool,
    pub(super) moves: bool,
    pub(super) steps: bool,
    pub(super) actions: bool,
    pub(super) approvals: bool,
    pub(super) feedback: bool,
    pub(super) deliveries: bool,
    pub(super) usage: bool,
    pub(super) messages: bool,
    pub(super) children: bool,
    pub(super) nexts: bool,
    pub(super) ends: bool,
    pub(super) taken: bool,
}

impl Shape {
    pub(super) fn of(places: &[Place<'_>]) -> Self {
        let mut shape = Self::default();
        for Place { append, .. } in places {
            shape.ticks |= append.tick.is_some();
            shape.talks |= append.talk.is_some();
            shape.starts |= append.expected == 0;
            shape.moves |= append.expected > 0;
            shape.steps |= !append.steps.is_empty();
            shape.actions |= !append.actions.is_empty();
            shape.approvals |= !append.approvals.is_empty();
            shape.feedback |= !append.feedback.is_empty();
            shape.deliveries |= !append.deliveries.is_empty();
            shape.usage |= !append.usage.is_empty();
            shape.messages |= !append.messages.is_empty();
            shape.children |= !append.tree.children.is_empty();
            let mut begun = append.tree.children.iter();
            shape.nexts |= begun.any(|begun| begun.row.conversation.is_some());
            shape.ends |= append.tree.ends_child_of.is_some();
            shape.taken |= !append.tree.taken.is_empty();
        }
        shape
    }
}

/// Columns of one `UNNEST`, in the order in which `bind` binds them.
type Columns = [(&'static str, &'static str)];

const INT: &str = "bigint[]";
const TEXT: &str = "text[]";
const BYTES: &str = "bytea[]";

const STARTS: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("task", TEXT),
    ("namespace", TEXT),
    ("agent", TEXT),
    ("revision", TEXT),
    ("principal", TEXT),
    ("trust", TEXT),
    ("status", TEXT),
    ("seq", INT),
    ("ended_by", TEXT),
    ("output", TEXT),
    ("error_code", TEXT),
    ("error_message", TEXT),
    ("cycles", INT),
    ("retries", INT),
    ("tokens_input", INT),
    ("tokens_cached", INT),
    ("tokens_output", INT),
    ("created_at", INT),
    ("updated_at", INT),
    ("ended_at", INT),
    ("expires_at", INT),
    ("open_calls", INT),
    ("epoch", INT),
    ("worker", TEXT),
    ("lease_append", BYTES),
    ("ready_at", INT),
    ("published", INT),
    ("conversation", TEXT),
    ("source", TEXT),
    ("input", TEXT),
    ("task_trust", TEXT),
    ("start_key", TEXT),
    ("start_request", TEXT),
    ("traceparent", TEXT),
    ("trigger_name", TEXT),
    ("not_after", INT),
];

const TICKS: &Columns = &[
    ("member", INT),
    ("schedule", TEXT),
    ("due_at", INT),
    ("next_at", INT),
    ("skipped", INT),
];

const TALKS: &Columns = &[
    ("member", INT),
    ("conversation", TEXT),
    ("run", TEXT),
    ("last", TEXT),
    ("moves", INT),
];

const MOVES: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("expected", INT),
    ("trust", TEXT),
    ("status", TEXT),
    ("seq", INT),
    ("ended_by", TEXT),
    ("output", TEXT),
    ("error_code", TEXT),
    ("error_message", TEXT),
    ("cycles", INT),
    ("retries", INT),
    ("tokens_input", INT),
    ("tokens_cached", INT),
    ("tokens_output", INT),
    ("updated_at", INT),
    ("ended_at", INT),
    ("expires_at", INT),
    ("open_calls", INT),
    ("lease", INT),
    ("epoch", INT),
    ("worker", TEXT),
    ("append", BYTES),
    ("ready_at", INT),
    ("keeps_ready", INT),
    ("published", INT),
    ("not_after", INT),
    ("cost", INT),
    ("currency", TEXT),
];

const STEPS: &Columns = &[
    ("member", INT),
    ("run", TEXT),
    ("seq", INT),
    ("at", INT),
    ("actor", TEXT),
    ("kind", TEXT),
    ("version", INT),
    ("content", TEXT),
    ("view", TEXT),
    ("content_sha256", BYTES),
    ("hash", BYTES),
    ("seal_key", TEXT),
    ("seal", BYTES),
    ("append", BYTES),
];

const ACTIONS: &Columns = &[
    ("member", INT),
    ("run", TEXT),
    ("call", TEXT),
    ("tool", TEXT),
    ("status", TEXT),
    ("args", TEXT),
    ("digest", BYTES),
    ("cleared_by", TEXT),
    ("result", TEXT),
    ("denied", TEXT),
    ("created_at", INT),
    ("updated_at", INT),
];

const APPROVALS: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("namespace", TEXT),
    ("run", TEXT),
    ("call", TEXT),
    ("agent", TEXT),
    ("requester", TEXT),
    ("tool", TEXT),
    ("args", TEXT),
    ("digest", BYTES),
    ("definition", BYTES),
    ("task_input", TEXT),
    ("trust", TEXT),
    ("rule", TEXT),
    ("reason", TEXT),
    ("summary", TEXT),
    ("seq", INT),
    ("status", TEXT),
    ("requested_at", INT),
    ("expires_at", INT),
    ("decided_by", TEXT),
    ("decided_at", INT),
    ("decision_reason", TEXT),
    ("closed_cause", TEXT),
    ("action_status", TEXT),
    ("deciders", TEXT),
    ("groups", TEXT),
    ("escalates_at", INT),
    ("origins", TEXT),
    ("edited_by", TEXT),
    ("written", TEXT),
];

const FEEDBACK: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("task", TEXT),
    ("namespace", TEXT),
    ("agent", TEXT),
    ("run", TEXT),
    ("approval", TEXT),
    ("given_by", TEXT),
    ("score", INT),
    ("note", TEXT),
    ("at", INT),
];

const DELIVERIES: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("namespace", TEXT),
    ("agent", TEXT),
    ("run", TEXT),
    ("approval", TEXT),
    ("notice", TEXT),
    ("url", TEXT),
    ("secret", TEXT),
    ("target", TEXT),
    ("due_at", INT),
    ("updated_at", INT),
];

const USAGE: &Columns = &[
    ("member", INT),
    ("namespace", TEXT),
    ("month", TEXT),
    ("worker", TEXT),
    ("currency", TEXT),
    ("spent", INT),
    ("tokens_input", INT),
    ("tokens_cached", INT),
    ("tokens_output", INT),
];

const MESSAGES: &Columns = &[
    ("member", INT),
    ("conversation", TEXT),
    ("run", TEXT),
    ("seq", INT),
    ("at", INT),
    ("speaker", TEXT),
    ("name", TEXT),
    ("sender", TEXT),
    ("kind", TEXT),
    ("text", TEXT),
    ("trust", TEXT),
    ("secret_read", INT),
    ("message_key", TEXT),
    ("request", TEXT),
];

/// Tasks of runs that begin with the append of another one.
const CHILD_TASKS: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("run", TEXT),
    ("namespace", TEXT),
    ("agent", TEXT),
    ("source", TEXT),
    ("input", TEXT),
    ("principal", TEXT),
    ("trust", TEXT),
    ("traceparent", TEXT),
    ("created_at", INT),
    ("parent", TEXT),
    ("root", TEXT),
];

/// Those runs.
const CHILD_RUNS: &Columns = &[
    ("member", INT),
    ("id", TEXT),
    ("task", TEXT),
    ("namespace", TEXT),
    ("agent", TEXT),
    ("revision", TEXT),
    ("principal", TEXT),
    ("trust", TEXT),
    ("status", TEXT),
    ("created_at", INT),
    ("updated_at", INT),
    ("ready_at", INT),
    ("parent", TEXT),
    ("root", TEXT),
    ("conversation", TEXT),
];

/// Of those, the ones that go on with the conversation of the run that they begin with.
const NEXTS: &Columns = &[("member", INT), ("conversation", TEXT), ("run", TEXT)];

/// What a run that nobody has touched yet has in the other columns.
const UNTOUCHED: &Columns = &[
    ("seq", "1"),
    ("cycles", "0"),
    ("retries", "0"),
    ("tokens_input", "0"),
    ("tokens_cached", "0"),
    ("tokens_output", "0"),
    ("open_calls", "0"),
    ("epoch", "0"),
    ("published", "0"),
];

const CHILD_ENDS: &Columns = &[("member", INT), ("child", TEXT), ("parent", TEXT)];

const TAKEN: &Columns = &[("member", INT), ("child", TEXT)];

/// Moves published marks up.
pub(super) const MARK: &str = "UPDATE runs r SET published = LEAST(u.seq, r.seq) \
     FROM UNNEST($1::text[], $2::bigint[]) AS u(id, seq) \
     WHERE r.id = u.id AND r.published < LEAST(u.seq, r.seq)";

/// Numbers the parameters as the text grows.
struct Text {
    sql: String,
    next: usize,
}

impl Text {
    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// `UNNEST($7::text[], …) AS u(run, …)`
    fn unnest(&mut self, columns: &Columns) {
        self.push("UNNEST(");
        for (at, (_, kind)) in columns.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(self.sql, "{comma}${}::{kind}", self.next).expect("strings grow");
            self.next += 1;
        }
        self.push(") AS u(");
        self.push(&names(columns, ""));
        self.push(")");
    }

    /// A table that is written for the good members, after the columns' own name `member`.
    /// `fixed` are columns that are the same in every row, and their SQL.
    fn insert(&mut self, table: &str, columns: &Columns, fixed: &Columns, on_conflict: &str) {
        self.insert_as(&format!("new_{table}"), table, columns, fixed, on_conflict);
    }

    /// The same under another name, for a table that is written twice.
    fn insert_as(
        &mut self,
        name: &str,
        table: &str,
        columns: &Columns,
        fixed: &Columns,
        on_conflict: &str,
    ) {
        let stored = &columns[1..];
        let (mut into, mut from) = (names(stored, ""), names(stored, "u."));
        for (column, value) in fixed {
            write!(into, ", {column}").expect("strings grow");
            write!(from, ", {value}").expect("strings grow");
        }
        write!(
            self.sql,
            ", {name} AS (INSERT INTO {table} ({into}) SELECT {from} FROM "
        )
        .expect("strings grow");
        self.unnest(columns);
        self.push(" WHERE u.member = ANY(ARRAY(SELECT member FROM good))");
        self.push(on_conflict);
        self.push(")");
    }
}

fn names(columns: &Columns, prefix: &str) -> String {
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("{prefix}{name}"))
        .collect();
    names.join(", ")
}

/// The statement for groups of this shape.
pub(super) fn text(shape: Shape) -> String {
    let mut text = Text {
        sql: "WITH ".into(),
        next: 1,
    };
    if shape.ticks {
        ticks(&mut text);
    }
    if shape.talks {
        talks(&mut text);
    }
    if shape.starts {
        starts(&mut text, shape);
    }
    if shape.moves {
        moves(&mut text, shape);
    }
    text.push(match (shape.starts, shape.moves) {
        (true, true) => {
            "good AS (SELECT member, epoch FROM started UNION ALL \
             SELECT member, epoch FROM moved WHERE in_time = 1)"
        }
        (true, false) => "good AS (SELECT member, epoch FROM started)",
        (false, _) => "good AS (SELECT member, epoch FROM moved WHERE in_time = 1)",
    });
    if shape.starts {
        let runs = &STARTS[1..30];
        write!(
            text.sql,
            ", new_runs AS (INSERT INTO runs ({}) SELECT {} FROM started u)",
            names(runs, ""),
            names(runs, "u.")
        )
        .expect("strings grow");
    }
    if shape.steps {
        text.insert("steps", STEPS, &[], "");
    }
    if shape.actions {
        let update = " ON CONFLICT (run, call) DO UPDATE SET status = EXCLUDED.status, \
             cleared_by = EXCLUDED.cleared_by, result = EXCLUDED.result, \
             denied = EXCLUDED.denied, updated_at = EXCLUDED.updated_at, \
             args = CASE WHEN EXCLUDED.digest <> actions.digest THEN EXCLUDED.args \
             ELSE actions.args END, digest = EXCLUDED.digest";
        text.insert("actions", ACTIONS, &[], update);
    }
    if shape.approvals {
        let update = " ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status, \
             decided_by = EXCLUDED.decided_by, decided_at = EXCLUDED.decided_at, \
             decision_reason = EXCLUDED.decision_reason, closed_cause = EXCLUDED.closed_cause, \
             action_status = EXCLUDED.action_status, deciders = EXCLUDED.deciders, \
             groups = EXCLUDED.groups, escalates_at = EXCLUDED.escalates_at, \
             seq = EXCLUDED.seq, edited_by = EXCLUDED.edited_by, origins = EXCLUDED.origins, \
             args = CASE WHEN EXCLUDED.digest <> approvals.digest THEN EXCLUDED.args \
             ELSE approvals.args END, \
             summary = CASE WHEN EXCLUDED.digest <> approvals.digest THEN EXCLUDED.summary \
             ELSE approvals.summary END, \
             written = CASE WHEN EXCLUDED.digest <> approvals.digest THEN EXCLUDED.written \
             ELSE COALESCE(approvals.written, EXCLUDED.written) END, \
             original = CASE WHEN EXCLUDED.digest <> approvals.digest \
             THEN COALESCE(approvals.original, approvals.args) ELSE approvals.original END, \
             digest = EXCLUDED.digest";
        text.insert("approvals", APPROVALS, &[], update);
    }
    if shape.feedback {
        let fixed = [("source", "'approval'")];
        text.insert("feedback", FEEDBACK, &fixed, "");
    }
    if shape.deliveries {
        let once = " ON CONFLICT (id) DO NOTHING";
        let fixed = [("state", "'due'"), ("attempts", "0")];
        text.insert("deliveries", DELIVERIES, &fixed, once);
    }
    if shape.usage {
        usage(&mut text);
    }
    if shape.messages {
        text.insert("messages", MESSAGES, &[], "");
    }
    if shape.children {
        text.insert_as("child_tasks", "tasks", CHILD_TASKS, &[], "");
        text.insert_as("child_runs", "runs", CHILD_RUNS, UNTOUCHED, "");
    }
    if shape.nexts {
        text.push(
            ", nexts AS (UPDATE conversations c SET last_run = u.run, moves = c.moves + 1 \
             FROM (SELECT * FROM ",
        );
        text.unnest(NEXTS);
        text.push(
            ") u WHERE c.id = u.conversation \
             AND u.member = ANY(ARRAY(SELECT member FROM good)))",
        );
    }
    if shape.ends {
        text.insert(
            "child_ends",
            CHILD_ENDS,
            &[],
            " ON CONFLICT (child) DO NOTHING",
        );
    }
    if shape.taken {
        text.push(", gone AS (DELETE FROM child_ends c USING (SELECT * FROM ");
        text.unnest(TAKEN);
        text.push(
            ") u WHERE c.child = u.child AND u.member = ANY(ARRAY(SELECT member FROM good)))",
        );
    }
    text.push(" SELECT member, epoch FROM good");
    text.sql
}

/// Moves schedules on. A tick that another group has taken, or a deploy has moved, gives no row
/// back, and its start is none.
fn ticks(text: &mut Text) {
    text.push("ticks AS (SELECT * FROM ");
    text.unnest(TICKS);
    text.push(
        "), taken AS (UPDATE schedules s SET next_at = u.next_at, last_at = u.due_at, \
         skipped = s.skipped + u.skipped FROM ticks u \
         WHERE s.id = u.schedule AND s.next_at = u.due_at RETURNING u.member), ",
    );
}

/// Moves conversations on. Where one does not stand as its writer saw it, that writer's append is none.
/// Nothing else of a start in a conversation can conflict. A retry may: its conversation has then been
/// moved for nothing, and whoever else moves it looks once more.
fn talks(text: &mut Text) {
    text.push("talks AS (SELECT * FROM ");
    text.unnest(TALKS);
    text.push(
        "), talked AS (UPDATE conversations c SET last_run = u.run, moves = c.moves + 1 \
         FROM talks u WHERE c.id = u.conversation AND c.moves = u.moves \
         AND c.last_run IS NOT DISTINCT FROM u.last RETURNING u.member), ",
    );
}

/// The condition that a tick or a conversation was moved on, of those members that move one.
fn only_if(shape: Shape, of_starts: bool) -> String {
    let mut sql = String::new();
    for (is, asked, got) in [
        (shape.ticks && of_starts, "ticks", "taken"),
        (shape.talks, "talks", "talked"),
    ] {
        if is {
            write!(
                sql,
                " AND (u.member <> ALL(ARRAY(SELECT member FROM {asked})) \
                 OR u.member = ANY(ARRAY(SELECT member FROM {got})))"
            )
            .expect("strings grow");
        }
    }
    sql
}

/// Adds what answers cost to the worker's rows: one row for all members that add to it, since a
/// statement may change a row only once.
fn usage(text: &mut Text) {
    text.push(
        ", new_usage AS (INSERT INTO usage AS t (namespace, month, worker, currency, spent, \
         answers, tokens_input, tokens_cached, tokens_output) \
         SELECT u.namespace, u.month, u.worker, u.currency, SUM(u.spent)::bigint, COUNT(*), \
         SUM(u.tokens_input)::bigint, SUM(u.tokens_cached)::bigint, \
         SUM(u.tokens_output)::bigint FROM ",
    );
    text.unnest(USAGE);
    text.push(
        " WHERE u.member = ANY(ARRAY(SELECT member FROM good)) \
         GROUP BY u.namespace, u.month, u.worker, u.currency \
         ORDER BY u.namespace, u.month, u.worker, u.currency \
         ON CONFLICT (namespace, month, worker, currency) DO UPDATE SET \
         spent = t.spent + EXCLUDED.spent, answers = t.answers + EXCLUDED.answers, \
         tokens_input = t.tokens_input + EXCLUDED.tokens_input, \
         tokens_cached = t.tokens_cached + EXCLUDED.tokens_cached, \
         tokens_output = t.tokens_output + EXCLUDED.tokens_output)",
    );
}

/// The task decides whether a start is new: its run and its key are unique there.
fn starts(text: &mut Text, shape: Shape) {
    text.push("starts AS (SELECT * FROM ");
    text.unnest(STARTS);
    let only_if = only_if(shape, true);
    write!(
        text.sql,
        " WHERE (u.not_after IS NULL OR u.not_after > {now}){only_if}), \
         new_tasks AS (INSERT INTO tasks (id, run, namespace, agent, source, input, principal, \
         trust, start_key, start_request, traceparent, created_at, trigger_name) \
         SELECT u.task, u.id, u.namespace, u.agent, u.source, u.input, u.principal, u.task_trust, \
         u.start_key, u.start_request, u.traceparent, u.created_at, u.trigger_name \
         FROM starts u \
         ON CONFLICT DO NOTHING RETURNING run), \
         started AS (SELECT u.* FROM starts u WHERE u.id = ANY(ARRAY(SELECT run FROM new_tasks))), ",
        now = Kind::Postgres.now()
    )
    .expect("strings grow");
}

fn moves(text: &mut Text, shape: Shape) {
    let only_if = only_if(shape, false);
    text.push(
        "moved AS (UPDATE runs r SET trust = u.trust, status = u.status, seq = u.seq, \
         ended_by = u.ended_by, output = u.output, error_code = u.error_code, \
         error_message = u.error_message, cycles = u.cycles, retries = u.retries, \
         tokens_input = u.tokens_input, tokens_cached = u.tokens_cached, \
         tokens_output = u.tokens_output, updated_at = u.updated_at, ended_at = u.ended_at, \
         expires_at = u.expires_at, open_calls = u.open_calls, \
         epoch = r.epoch + CASE WHEN u.lease IN (1, 4) THEN 1 ELSE 0 END, \
         worker = CASE WHEN u.lease = 1 THEN u.worker WHEN u.lease IN (3, 4) THEN NULL \
         ELSE r.worker END, \
         lease_append = CASE WHEN u.lease = 0 THEN r.lease_append ELSE u.append END, \
         ready_at = CASE WHEN u.keeps_ready = 1 THEN r.ready_at ELSE u.ready_at END, \
         published = GREATEST(r.published, u.published), cost = u.cost, \
         currency = u.currency FROM ",
    );
    text.unnest(MOVES);
    write!(
        text.sql,
        " WHERE r.id = u.id AND r.seq = u.expected \
         AND (u.lease = 0 OR (r.epoch = u.epoch AND CASE WHEN u.lease IN (1, 4) \
         THEN r.worker IS NULL OR NOT EXISTS \
         (SELECT 1 FROM workers w WHERE w.id = r.worker AND w.ended_at IS NULL) \
         ELSE r.worker IS NOT NULL END)) \
         AND (u.not_after IS NULL OR u.not_after > {now}){only_if} \
         RETURNING u.member, r.epoch, CASE WHEN u.not_after IS NULL THEN 1 \
         ELSE 1 / CASE WHEN u.not_after > {now} THEN 1 ELSE 0 END END AS in_time), ",
        now = Kind::Postgres.now()
    )
    .expect("strings grow");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_leaves_out_what_it_does_not_touch_and_numbers_its_parameters_without_gaps() {
        let shape = Shape {
            moves: true,
            steps: true,
            ..Shape::default()
        };
        let sql = text(shape);
        assert!(
            !sql.contains("approvals") && !sql.contains("tasks"),
            "{sql}"
        );
        let last = MOVES.len() + STEPS.len();
        assert!(sql.contains(&format!("${last}::")) && !sql.contains(&format!("${}::", last + 1)));
    }
}
