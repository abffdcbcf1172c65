use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use sayso_service::config::{Config, Database};
use sayso_store::{OpenError, Store, StoreConfig};

use super::{Finding, Report};
use crate::outcome::Failure;
use crate::wiring;

/// Clocks that differ by more than this make times on pages and in logs hard to read; nothing that
/// sayso decides depends on it, as it goes by the database's clock.
const APART_MILLIS: u128 = 2000;

/// The database, and this machine's clock against it.
pub(super) async fn check(config: &Config, report: &mut Report<'_>) -> Result<(), Failure> {
    match &config.database {
        None => {
            report.note(
                "database",
                &Finding::Skipped("no database is configured".to_owned()),
            )?;
            report.note(
                "clock",
                &Finding::Skipped("no database to compare with".to_owned()),
            )
        }
        Some(Database::Sqlite(path)) => {
            report.note("database", &sqlite(path))?;
            let same = "the database goes by this machine's clock".to_owned();
            report.note("clock", &Finding::Well(same))
        }
        Some(Database::Postgres(_)) => postgres(config, report).await,
    }
}

/// Looks at the file alone: it belongs to the process that has it open.
fn sqlite(path: &Path) -> Finding {
    let mut head = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) if head == *b"SQLite format 3\0" => {
            Finding::Well(format!("SQLite in {}", path.display()))
        }
        Ok(()) => Finding::wrong(
            format!("{} is no SQLite database", path.display()),
            "move it away, or name another folder",
        ),
        Err(error) => Finding::wrong(
            format!("{} cannot be read: {error}", path.display()),
            "run as the user who runs `sayso up`, or start it once to make the file",
        ),
    }
}

async fn postgres(config: &Config, report: &mut Report<'_>) -> Result<(), Failure> {
    let settings = StoreConfig {
        application: "sayso-doctor".to_owned(),
        connections: 1,
        ..StoreConfig::default()
    };
    let store = match Store::open(&wiring::database_url(config)?, settings).await {
        Ok(store) => store,
        Err(error) => {
            report.note("database", &not_opened(&error))?;
            return report.note(
                "clock",
                &Finding::Skipped("no database to compare with".to_owned()),
            );
        }
    };
    report.note(
        "database",
        &Finding::Well("Postgres answers and has this version's schema".to_owned()),
    )?;
    let finding = match store.sync_clock().await {
        Ok(now) => difference(now.micros()),
        Err(error) => Finding::wrong(
            format!("the database does not tell the time: {error}"),
            "try again",
        ),
    };
    store.close().await;
    report.note("clock", &finding)
}

fn difference(database_micros: i64) -> Finding {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let here = since.map_or(0, |since| since.as_micros());
    let there = u128::try_from(database_micros).unwrap_or(0);
    let millis = here.abs_diff(there) / 1000;
    if millis <= APART_MILLIS {
        return Finding::Well(format!("{millis} ms from the database's"));
    }
    Finding::wrong(
        format!("this machine's clock and the database's are {millis} ms apart"),
        "let both follow a time server (NTP)",
    )
}

fn not_opened(error: &OpenError) -> Finding {
    let cause = std::error::Error::source(error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    let advice = match error {
        OpenError::BadUrl(_) => "correct database.url",
        OpenError::Unavailable(_) => "start the database, or correct host and port in database.url",
        OpenError::Refused(_) => {
            "correct user, password and name in database.url; the user must own the schema"
        }
        OpenError::Schema(_) => {
            "use the database of this installation alone, or restore its schema"
        }
    };
    Finding::wrong(format!("{error}{cause} [{}]", error.code()), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sayso.db");
        assert!(matches!(sqlite(&path), Finding::Wrong { .. }));
        std::fs::write(&path, "just some text that is long enough").unwrap();
        assert!(matches!(sqlite(&path), Finding::Wrong { .. }));
        std::fs::write(&path, b"SQLite format 3\0 and more").unwrap();
        assert!(matches!(sqlite(&path), Finding::Well(_)));
    }

    #[test]
    fn clocks_that_are_apart_are_told() {
        assert!(matches!(difference(0), Finding::Wrong { .. }));
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_micros()).unwrap();
        assert!(matches!(difference(now), Finding::Well(_)));
    }
}
