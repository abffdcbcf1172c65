//! Where an embedded agent's timelines live: the store that the services use, on a SQLite file of its
//! own. A file belongs to one process, which holds a lock beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sayso_run::{ChainKey, Digest};
use sayso_store::{Store, StoreConfig};
use tempfile::TempDir;

use super::error::BuildError;

/// Where runs live.
#[derive(Debug, Clone)]
pub struct Journal {
    /// The file; none for one that goes with the agent.
    path: Option<PathBuf>,
    key: Option<[u8; 32]>,
}

impl Journal {
    /// Runs end with the process: the file is in a temporary folder, in memory where the system has
    /// `/dev/shm`, and goes with the agent.
    pub fn memory() -> Self {
        Self {
            path: None,
            key: None,
        }
    }

    /// A SQLite file, made if it is missing. Beside it stand `<path>.key`, the key that seals timelines
    /// (S2.3), made with the file; and `<path>.lock`. Keep the key apart from copies of the file:
    /// whoever has the file alone can make a new chain, but not its seals.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            key: None,
        }
    }

    /// The key that seals timelines, kept elsewhere: no key file is made or read.
    #[must_use]
    pub fn chain_key(mut self, secret: [u8; 32]) -> Self {
        self.key = Some(secret);
        self
    }
}

/// A journal that is open.
#[derive(Debug)]
pub(crate) struct OpenJournal {
    pub(crate) store: Store,
    pub(crate) key: ChainKey,
    pub(crate) holds: Holds,
}

/// What has to live as long as the journal is used.
#[derive(Debug)]
pub(crate) struct Holds {
    _lock: File,
    _folder: Option<TempDir>,
}

impl Journal {
    pub(crate) async fn open(self) -> Result<OpenJournal, BuildError> {
        let (path, folder) = match self.path {
            Some(path) => (path, None),
            None => {
                let folder = folder().map_err(|error| BuildError::journal("a folder", error))?;
                (folder.path().join("agent.db"), Some(folder))
            }
        };
        let lock = lock(&beside(&path, "lock"))?;
        let secret = match self.key {
            Some(secret) => secret,
            None => secret(&path, &beside(&path, "key"))?,
        };
        let config = StoreConfig {
            application: "sayso-sdk".into(),
            ..StoreConfig::default()
        };
        let store = Store::open(&format!("sqlite://{}", path.display()), config).await?;
        Ok(OpenJournal {
            store,
            // Named by itself, so that a seal by another key is told apart from a broken one.
            key: ChainKey::new(&Digest::of(&secret).to_hex()[..16], secret),
            holds: Holds {
                _lock: lock,
                _folder: folder,
            },
        })
    }
}

fn folder() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("sayso-");
    match builder.tempdir_in(memory) {
        Ok(folder) => Ok(folder),
        Err(_) => builder.tempdir(),
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Two processes with one file would be two writers of one timeline.
fn lock(path: &Path) -> Result<File, BuildError> {
    let failed = |error| BuildError::journal(path.display(), error);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BuildError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The key beside a journal. One is made only together with the journal: a journal whose key is gone
/// would be sealed by another one from now on, and nothing before would verify.
fn secret(journal: &Path, path: &Path) -> Result<[u8; 32], BuildError> {
    let failed = |error| BuildError::journal(path.display(), error);
    let mut secret = [0; 32];
    match File::open(path) {
        Ok(mut file) => {
            file.read_exact(&mut secret).map_err(failed)?;
            return Ok(secret);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    if journal.exists() {
        return Err(BuildError::KeyMissing(path.to_owned()));
    }
    getrandom::fill(&mut secret).map_err(|error| failed(std::io::Error::other(error)))?;
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Whole or not there: a process that dies in between leaves no half of a key.
    let unfinished = beside(path, "new");
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(failed)?;
    }
    let mut file = options.open(&unfinished).map_err(failed)?;
    file.write_all(&secret)
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    std::fs::rename(&unfinished, path).map_err(failed)?;
    Ok(secret)
}
