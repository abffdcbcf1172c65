//! What must not be seen: secrets, where they are to be found, and keys.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Value};

use super::section::{Given, Setting};

/// Text that must not be seen: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself: for the wire, never for a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret is to be found. Resolved by the process that needs it, so
/// that the others start without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// Here.
    Value(Secret),
    /// In this variable of the process that needs it.
    Variable(String),
}

/// A secret that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set, or empty.
    #[error("the variable {0} is not set")]
    NotSet(String),
}

impl SecretSource {
    /// The secret.
    ///
    /// # Errors
    ///
    /// When it is said to be in a variable that is not set.
    pub fn resolve(&self) -> Result<Secret, SecretError> {
        match self {
            SecretSource::Value(secret) => Ok(secret.clone()),
            SecretSource::Variable(name) => match std::env::var(name) {
                Ok(value) if !value.is_empty() => Ok(Secret::new(value)),
                Ok(_) | Err(_) => Err(SecretError::NotSet(name.clone())),
            },
        }
    }
}

/// A key of 32 bytes, written as 64 hex digits. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("the key file {0} cannot be read")]
    Read(PathBuf, #[source] std::io::Error),
    /// It cannot be made.
    #[error("the key file {0} cannot be made")]
    Create(PathBuf, #[source] std::io::Error),
    /// It holds something else.
    #[error("the key file {0} must hold 32 bytes as 64 hex digits")]
    Content(PathBuf),
}

/// A command that gives no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyCommandError {
    /// It cannot be started.
    #[error("`{0}` cannot be run")]
    Run(String, #[source] std::io::Error),
    /// It ended with a failure.
    #[error("`{0}` ended with {1}")]
    Failed(String, std::process::ExitStatus),
    /// It printed something else.
    #[error("`{0}` must print 32 bytes as 64 hex digits")]
    Content(String),
}

impl Key {
    /// The key that a command prints: 64 hex digits, white space around them ignored. What it says
    /// on standard error goes to ours.
    ///
    /// # Errors
    ///
    /// When it cannot be run, fails, or prints something else.
    pub fn printed_by(command: &[String]) -> Result<Key, KeyCommandError> {
        let (program, arguments) = command.split_first().expect("a list names at least one");
        let output = std::process::Command::new(program)
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| KeyCommandError::Run(program.clone(), error))?;
        if !output.status.success() {
            return Err(KeyCommandError::Failed(program.clone(), output.status));
        }
        let printed = std::str::from_utf8(&output.stdout).ok();
        let key = printed.and_then(Key::from_hex);
        key.ok_or_else(|| KeyCommandError::Content(program.clone()))
    }

    /// A key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// A fresh random key.
    pub fn generate() -> Key {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Key(bytes)
    }

    /// The key itself: for signing, never for a log.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key in a file: 64 hex digits, white space around them ignored.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Key, KeyFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| KeyFileError::Read(path.to_owned(), error))?;
        Key::from_hex(&text).ok_or_else(|| KeyFileError::Content(path.to_owned()))
    }

    /// The key in a file, which is made with a fresh key if it does not exist,
    /// readable by its owner alone. The folder must be the caller's own: two
    /// processes that make the same file at once are not told apart.
    ///
    /// # Errors
    ///
    /// When the file can neither be read nor made, or holds something else.
    pub fn load_or_create(path: &Path) -> Result<Key, KeyFileError> {
        if path.exists() {
            return Key::load(path);
        }
        let key = Key::generate();
        // Written beside and moved into place: a crash leaves no half a key.
        let draft = path.with_extension("new");
        let create = |error| KeyFileError::Create(path.to_owned(), error);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&draft).map_err(create)?;
        writeln!(file, "{}", hex::encode(key.0)).map_err(create)?;
        file.sync_all().map_err(create)?;
        std::fs::rename(&draft, path).map_err(create)?;
        Ok(key)
    }

    fn from_hex(text: &str) -> Option<Key> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).ok()?;
        Some(Key(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Setting for Secret {
    fn parse(given: &Given<'_>) -> Result<Secret, String> {
        match given.value {
            // Not described: a password of digits alone is still a password.
            Value::Num(..) => Err("must be text, found a number: put it in quotes".to_owned()),
            _ => String::parse(given).map(Secret),
        }
    }

    fn placeholder() -> Secret {
        Secret::new("")
    }
}

impl Setting for SecretSource {
    fn parse(given: &Given<'_>) -> Result<SecretSource, String> {
        const WANTED: &str = "must be the secret, or {env: NAME}";
        let from_dict = |dict: &Dict| match (dict.get("env"), dict.len()) {
            (Some(Value::String(_, name)), 1) if !name.trim().is_empty() => {
                Ok(SecretSource::Variable(name.clone()))
            }
            _ => Err(WANTED.to_owned()),
        };
        match given.value {
            Value::Dict(_, dict) => from_dict(dict),
            _ => Secret::parse(given).map(SecretSource::Value),
        }
    }

    fn placeholder() -> SecretSource {
        SecretSource::Value(Secret::placeholder())
    }
}

impl Setting for Key {
    fn parse(given: &Given<'_>) -> Result<Key, String> {
        const WANTED: &str = "must be 32 bytes as 64 hex digits (openssl rand -hex 32), as text";
        match given.value {
            Value::String(_, text) => Key::from_hex(text).ok_or_else(|| WANTED.to_owned()),
            _ => Err(WANTED.to_owned()),
        }
    }

    fn placeholder() -> Key {
        Key([0; 32])
    }
}
