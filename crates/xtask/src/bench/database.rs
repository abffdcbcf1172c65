//! What Postgres counts, asked through its own `psql`.
//!
//! Transactions are counted by the ids that they take: only those that write take one, which makes
//! it the number of commits that have to reach the disk. Statements are counted by the extension
//! `pg_stat_statements`, which costs something: it counts in a phase of its own and is off while
//! speed is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::postgres::Postgres;
use crate::process::{Processes, is_program};

/// The database of the services.
pub(super) const NAME: &str = "sayso";

/// How many of the costliest statements are shown.
const SHOWN: usize = 12;

/// Written so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Transactions that wrote.
    pub(super) commits: u64,
    /// Bytes of the write-ahead log.
    pub(super) log: u64,
}

/// Statements of one phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statements {
    /// All, those that begin and end transactions included.
    pub(super) all: u64,
    /// Appends: the rows that the journal's one statement gave back.
    pub(super) appends: u64,
}

/// Asks a server.
pub(super) struct Bookkeeper {
    psql: PathBuf,
    environment: Vec<(&'static str, String)>,
    processes: Processes,
    counts_statements: bool,
}

impl Bookkeeper {
    /// The extra arguments of a server whose statements can be counted, if its programs have the
    /// extension.
    pub(super) fn arguments(programs: &Path) -> &'static [&'static str] {
        if has_extension(programs) {
            &["--shared_preload_libraries=pg_stat_statements"]
        } else {
            &[]
        }
    }

    /// Makes the database of the services.
    pub(super) fn open(
        processes: &Processes,
        programs: &Path,
        postgres: &Postgres,
    ) -> Result<Self> {
        let psql = programs.join("psql");
        ensure!(is_program(&psql), "there is no {}", psql.display());
        let bookkeeper = Self {
            psql,
            environment: postgres.environment().into(),
            processes: processes.clone(),
            counts_statements: has_extension(programs),
        };
        bookkeeper.ask(&format!("CREATE DATABASE {NAME}"))?;
        if bookkeeper.counts_statements {
            bookkeeper.ask("CREATE EXTENSION pg_stat_statements")?;
            bookkeeper.track("none")?;
        }
        Ok(bookkeeper)
    }

    /// The server's version.
    pub(super) fn version(&self) -> Result<String> {
        self.ask("SHOW server_version")
    }

    /// What was written so far.
    pub(super) fn written(&self) -> Result<Written> {
        let said = self.ask(
            "SELECT pg_snapshot_xmax(pg_current_snapshot()), \
             pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint",
        )?;
        let (commits, log) = said.split_once('|').context("psql says two columns")?;
        Ok(Written {
            commits: commits.parse().context("a transaction id is a number")?,
            log: log.parse().context("a position in the log is a number")?,
        })
    }

    /// Begins to count statements. False if this server cannot.
    pub(super) fn count_statements(&self) -> Result<bool> {
        if self.counts_statements {
            self.track("top")?;
            self.ask("SELECT pg_stat_statements_reset()")?;
        }
        Ok(self.counts_statements)
    }

    /// Ends counting, and shows which statements cost most.
    pub(super) fn statements(&self) -> Result<Statements> {
        self.track("none")?;
        let of_services = format!(
            "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
             WHERE d.datname = '{NAME}'"
        );
        let said = self.ask(&format!(
            "SELECT COALESCE(sum(calls), 0)::bigint, COALESCE(sum(rows) FILTER \
             (WHERE query LIKE '%SELECT member, epoch FROM good'), 0)::bigint {of_services}"
        ))?;
        let (all, appends) = said.split_once('|').context("psql says two columns")?;
        eprintln!("bench: the costliest statements: calls | ms in all | rows | text");
        eprintln!(
            "{}",
            self.ask(&format!(
                "SELECT calls, round(total_exec_time::numeric, 1), rows, \
                 left(regexp_replace(query, '\\s+', ' ', 'g'), 110) {of_services} \
                 ORDER BY total_exec_time DESC LIMIT {SHOWN}"
            ))?
        );
        Ok(Statements {
            all: all.parse().context("a count is a number")?,
            appends: appends.parse().context("a count is a number")?,
        })
    }

    fn track(&self, which: &str) -> Result<()> {
        self.ask(&format!(
            "ALTER SYSTEM SET pg_stat_statements.track = {which}"
        ))?;
        self.ask("SELECT pg_reload_conf()")?;
        Ok(())
    }

    fn ask(&self, sql: &str) -> Result<String> {
        let mut psql = Command::new(&self.psql);
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            "postgres",
        ])
        .args(["-c", sql])
        .envs(self.environment.iter().map(|(key, value)| (*key, value)));
        let said = self.processes.capture(&mut psql)?;
        ensure!(
            said.status.success(),
            "psql failed at {sql}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }
}

/// Debian keeps it beside the programs, in a folder per version.
fn has_extension(programs: &Path) -> bool {
    ["../lib", "../lib/postgresql"]
        .iter()
        .any(|folder| programs.join(folder).join("pg_stat_statements.so").exists())
}
