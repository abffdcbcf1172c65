//! The one line.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::house::{Counts, House};
use super::inbox::Inbox;
use super::kills::Kills;
use super::machine;
use super::paused::Paused;
use super::phases::{Measured, Phase};
use super::read::{Read, Reads};
use super::tool::GatedTool;
use super::{MANY, quantile::Latencies};

/// What one measurement is about.
pub(super) enum Found<'a> {
    /// Gated runs, and what waits.
    All(&'a Measured),
    /// What waits.
    Paused(&'a Paused),
    /// A full inbox.
    Inbox(&'a Inbox),
    /// What was killed.
    Kills(&'a Kills),
}

/// Everything that was measured, as one line of JSON. Times are in milliseconds and memory in MiB
/// unless a key says otherwise.
pub(super) fn line(
    house: &House,
    found: Found<'_>,
    tool: GatedTool,
    quick: bool,
    date: &str,
) -> Result<String> {
    let mut line = Map::new();
    let mut tell = |key: &str, value: Value| line.insert(key.to_owned(), value);
    tell("bench", found.word().into());
    tell("date", date.into());
    let measures = match (quick, &found) {
        (false, _) => "speed",
        (true, Found::All(_)) => "nothing: --quick",
        (true, Found::Paused(_) | Found::Inbox(_) | Found::Kills(_)) => {
            "ratios and recovery, by an unoptimised driver: --quick"
        }
    };
    tell("measures", measures.into());
    tell("machine", machine::described());
    tell(
        "processes",
        if house.is_embedded() { "one" } else { "six" }.into(),
    );
    tell("database", house.database()?.into());
    tell("tool", tool.described().into());
    match found {
        Found::All(measured) => line.extend(gated(measured)),
        Found::Paused(waiting) => {
            tell("paused", paused(waiting));
        }
        Found::Inbox(full) => {
            tell("inbox", inbox(full));
        }
        Found::Kills(killed) => {
            tell("killed", kills(killed));
        }
    }
    Ok(Value::Object(line).to_string())
}

impl Found<'_> {
    fn word(&self) -> &'static str {
        match self {
            Found::All(_) => "gated runs",
            Found::Paused(_) => "paused runs",
            Found::Inbox(_) => "inbox",
            Found::Kills(_) => "killed executors",
        }
    }
}

fn gated(measured: &Measured) -> Map<String, Value> {
    let floor = &measured.floor;
    let commit = floor.commit.quantile(0.5);
    let mut many = phase(&measured.many);
    many.insert(
        "floor_commits_per_run".to_owned(),
        rounded(floor.together / rate(&measured.many)),
    );
    let mut one = phase(&measured.one);
    one.insert(
        "floor_commits_per_approve_to_done".to_owned(),
        rounded(measured.one.approved_to_done.quantile(0.5) / commit),
    );
    let told = json!({
        "floor": {
            "commits_per_s_1": rounded(floor.alone),
            "commits_per_s_64": rounded(floor.together),
            "commit_ms": quantiles(&floor.commit),
        },
        format!("in_flight_{MANY}"): many,
        "in_flight_1": one,
        "counted_per_run": measured.counted.as_ref().map(|counted| json!({
            "statements": per_run(counted.statements.all as f64, counted.runs),
            "appends": per_run(counted.statements.appends as f64, counted.runs),
        })),
        "get_run": get_run(&measured.reads),
        "resident_mib_idle": rounded(measured.idle_mib),
        "paused": measured.paused.as_ref().map(paused),
    });
    match told {
        Value::Object(told) => told,
        _ => Map::new(),
    }
}

fn phase(phase: &Phase) -> Map<String, Value> {
    let by: Map<String, Value> = phase
        .cpu
        .iter()
        .map(|(who, seconds)| ((*who).to_owned(), per_run(seconds * 1000.0, phase.runs)))
        .collect();
    let all: f64 = phase.cpu.iter().map(|(_, seconds)| seconds).sum();
    let mut told = Map::new();
    told.insert("runs".to_owned(), phase.runs.into());
    told.insert("runs_per_s".to_owned(), rounded(rate(phase)));
    told.insert(
        "approve_to_done_ms".to_owned(),
        quantiles(&phase.approved_to_done),
    );
    let stages: Map<String, Value> = phase
        .stages
        .iter()
        .map(|(stage, latencies)| ((*stage).to_owned(), rounded(latencies.quantile(0.5))))
        .collect();
    told.insert("approve_to_seen_ms_p50".to_owned(), stages.into());
    told.insert(
        "cpu_ms_per_run".to_owned(),
        per_run(all * 1000.0, phase.runs),
    );
    told.insert("cpu_ms_per_run_by".to_owned(), by.into());
    if let Some((before, after)) = &phase.counts {
        told.insert("per_run".to_owned(), counts(before, after, phase.runs));
    }
    told
}

fn counts(before: &Counts, after: &Counts, runs: usize) -> Value {
    let each = |before: u64, after: u64| per_run(after.saturating_sub(before) as f64, runs);
    let kib = after.written.log.saturating_sub(before.written.log) as f64 / 1024.0;
    json!({
        "commits": each(before.written.commits, after.written.commits),
        "log_kib": per_run(kib, runs),
        "messages_sent": each(before.messages.sent, after.messages.sent),
        "messages_delivered": each(before.messages.delivered, after.messages.delivered),
        "messages_stored": each(before.messages.stored, after.messages.stored),
    })
}

fn get_run(reads: &Reads) -> Value {
    let way = |read: &Read| {
        json!({
            "ms": quantiles(&read.latencies),
            "cpu_us": rounded(read.cpu * 1e6 / read.reads as f64),
        })
    };
    let (grpc, http) = (&reads.grpc, &reads.http);
    let latency = http.latencies.quantile(0.5) / grpc.latencies.quantile(0.5);
    json!({
        "reads": grpc.reads,
        "grpc": way(grpc),
        "http_json": way(http),
        "http_json_to_grpc": {
            "ms_p50": rounded(latency),
            "cpu": rounded(http.cpu / grpc.cpu),
        },
    })
}

fn paused(paused: &Paused) -> Value {
    let memory: Map<String, Value> = paused
        .before
        .iter()
        .zip(&paused.after)
        .map(|((who, before), (_, after))| {
            let told = json!({
                "before": rounded(*before),
                "after": rounded(*after),
                "ratio": rounded(after / before),
            });
            ((*who).to_owned(), told)
        })
        .collect();
    let p50 = |latencies: &Latencies| latencies.quantile(0.5);
    json!({
        "runs": paused.runs,
        "took_s": rounded(paused.took.as_secs_f64()),
        "resident_mib": memory,
        "resume_ms_before": quantiles(&paused.resume_before),
        "resume_ms_after": quantiles(&paused.resume_after),
        "resume_p50_ratio": rounded(p50(&paused.resume_after) / p50(&paused.resume_before)),
    })
}

fn inbox(inbox: &Inbox) -> Value {
    let p50 = |latencies: &Latencies| latencies.quantile(0.5);
    let decided = p50(&inbox.decide_among_many) / p50(&inbox.decide_among_few);
    json!({
        "waiting": inbox.waiting,
        "floor_commit_ms": quantiles(&inbox.floor.commit),
        "approve_to_done_p99_to_p50": rounded(inbox.spread),
        "decide_ms_among_few": quantiles(&inbox.decide_among_few),
        "decide_ms_among_many": quantiles(&inbox.decide_among_many),
        "decide_p50_ratio": rounded(decided),
        "page_ms": quantiles(&inbox.page),
        "floor_commits_per_page": rounded(p50(&inbox.page) / p50(&inbox.floor.commit)),
    })
}

fn kills(kills: &Kills) -> Value {
    json!({
        "kills": kills.kills,
        "runs_a_kill": kills.runs_a_kill,
        "elsewhere_ms": quantiles(&kills.elsewhere),
        "restarted_ms": quantiles(&kills.restarted),
    })
}

fn quantiles(latencies: &Latencies) -> Value {
    json!({
        "p50": rounded(latencies.quantile(0.5)),
        "p99": rounded(latencies.quantile(0.99)),
    })
}

fn rate(phase: &Phase) -> f64 {
    phase.runs as f64 / phase.took.as_secs_f64()
}

fn per_run(all: f64, runs: usize) -> Value {
    rounded(all / runs as f64)
}

/// Three digits are more than the machine's drift leaves standing.
fn rounded(value: f64) -> Value {
    let digits = if value.abs() >= 100.0 {
        1.0
    } else if value.abs() >= 10.0 {
        10.0
    } else if value.abs() >= 1.0 {
        100.0
    } else {
        1000.0
    };
    json!((value * digits).round() / digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits() {
        assert_eq!(rounded(1683.4), json!(1683.0));
        assert_eq!(rounded(18.34), json!(18.3));
        assert_eq!(rounded(2.345), json!(2.35));
        assert_eq!(rounded(0.1349), json!(0.135));
    }
}
