//! The floor: what the machine's disk and database allow, whoever asks.
//!
//! One row, one durable commit, again and again, with one client and with 64, on the very server
//! that the runs are measured on: through `pgbench` on Postgres; on SQLite through Python's own
//! module, with the settings that sayso has (WAL, `synchronous=FULL`). SQLite lets one writer in
//! at a time, so there 64 connections wait for each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::MANY;
use super::quantile::Latencies;
use crate::postgres::Postgres;
use crate::process::{Processes, is_program, shown};

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Floor {
    /// Commits a second of one client.
    pub(super) alone: f64,
    /// Commits a second of 64 clients together.
    pub(super) together: f64,
    /// Latencies of one client's commits.
    pub(super) commit: Latencies,
}

/// Postgres, by `pgbench`.
pub(super) fn postgres(
    processes: &Processes,
    programs: &Path,
    server: &Postgres,
    folder: &Path,
    seconds: u32,
) -> Result<Floor> {
    let pgbench = programs.join("pgbench");
    ensure!(is_program(&pgbench), "there is no {}", pgbench.display());
    let (table, row) = (folder.join("floor-table.sql"), folder.join("floor-row.sql"));
    fs::write(
        &table,
        "CREATE TABLE floor (id bigserial PRIMARY KEY, body text NOT NULL);\n",
    )?;
    fs::write(
        &row,
        "INSERT INTO floor (body) VALUES (repeat('x', 100));\n",
    )?;
    let run = |script: &Path, arguments: &[&str]| {
        let mut command = Command::new(&pgbench);
        command
            .args(["-n", "-M", "prepared", "-f"])
            .arg(script)
            .args(arguments)
            .arg("postgres")
            .envs(server.environment())
            .current_dir(folder);
        said(processes, &mut command)
    };
    run(&table, &["-t", "1"])?;
    let seconds = seconds.to_string();
    let alone = run(
        &row,
        &["-c", "1", "-T", &seconds, "-l", "--log-prefix=floor"],
    )?;
    let many = MANY.to_string();
    let together = run(&row, &["-c", &many, "-j", "2", "-T", &seconds])?;
    Ok(Floor {
        alone: rate(&alone)?,
        together: rate(&together)?,
        commit: Latencies::of(logged(folder)?),
    })
}

/// The rate that `pgbench` reports.
fn rate(said: &str) -> Result<f64> {
    let rate = said.lines().find_map(|line| {
        let value = line.trim().strip_prefix("tps = ")?;
        value.split_whitespace().next()?.parse().ok()
    });
    rate.with_context(|| format!("pgbench reports no rate:\n{said}"))
}

/// What `pgbench` logged: a line a transaction, its third field the latency in microseconds.
fn logged(folder: &Path) -> Result<Vec<Duration>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy());
        if !name.is_some_and(|name| name.starts_with("floor.")) {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let micros = line.split_whitespace().nth(2).and_then(|f| f.parse().ok());
            let micros = micros.with_context(|| format!("pgbench logs no latency: {line}"))?;
            all.push(Duration::from_micros(micros));
        }
    }
    ensure!(!all.is_empty(), "pgbench logged nothing");
    Ok(all)
}

/// Commits for some seconds on as many connections as there are to be, each on a thread; prints how
/// many in all, then the latencies of the first one in microseconds.
const SQLITE: &str = "
import sqlite3, sys, threading, time
path, clients, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def connect():
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute('PRAGMA journal_mode=WAL')
    db.execute('PRAGMA synchronous=FULL')
    return db
connect().execute('CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
taken = [[] for _ in range(clients)]
def work(mine):
    db, body, end = connect(), 'x' * 100, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter_ns()
        db.execute('INSERT INTO floor (body) VALUES (?)', (body,))
        mine.append((time.perf_counter_ns() - began) // 1000)
threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(len(mine) for mine in taken))
print(*taken[0])
";

/// SQLite, on a file of its own in `folder`.
pub(super) fn sqlite(
    processes: &Processes,
    python: &Path,
    folder: &Path,
    seconds: u32,
) -> Result<Floor> {
    let run = |clients: usize| -> Result<(f64, Vec<Duration>)> {
        let mut command = Command::new(python);
        command
            .args(["-c", SQLITE])
            .arg(folder.join("floor.db"))
            .args([clients.to_string(), seconds.to_string()]);
        let said = said(processes, &mut command)?;
        let mut numbers = said.split_whitespace().map(str::parse::<u64>);
        let all = numbers
            .next()
            .context("the floor's script says nothing")??;
        let latencies = numbers
            .map(|micros| Ok(Duration::from_micros(micros?)))
            .collect::<Result<_>>()?;
        Ok((all as f64 / f64::from(seconds), latencies))
    };
    let (alone, latencies) = run(1)?;
    let (together, _) = run(MANY)?;
    Ok(Floor {
        alone,
        together,
        commit: Latencies::of(latencies),
    })
}

fn said(processes: &Processes, command: &mut Command) -> Result<String> {
    let output = processes.capture(command)?;
    ensure!(
        output.status.success(),
        "`{}` failed: {}",
        shown(command),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_what_pgbench_says() {
        let said = "latency average = 0.135 ms\ntps = 7398.437 (without initial connection time)\n";
        assert_eq!(rate(said).expect("a rate"), 7398.437);
        assert!(rate("nothing").is_err());
    }
}
