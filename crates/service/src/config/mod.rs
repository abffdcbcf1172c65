//! Configuration: one documented defaults file compiled in
//! (`src/defaults.yaml`, also [`DEFAULTS`]), then the user's YAML file, then
//! `SAYSO_…` variables, each overriding the one before key by key (`S10.4`).
//!
//! Reading is strict, and **every** mistake is reported at once with its key:
//! unknown keys (with the nearest known one), wrong types, bad values, keys that
//! contradict each other. That rules out serde's derive, which stops at the
//! first mistake; instead each section asks a `Section` for
//! its keys, which notes what is wrong and goes on with a placeholder. A
//! placeholder never leaves this module: one noted mistake makes the whole load
//! fail.
//!
//! Not every process needs every key, so what is needed by some alone is
//! optional here and demanded with [`Config::require`], again all at once.
//! Values that hold secrets never show in `Debug` output.

mod check;
mod layers;
mod mail;
mod read;
mod secret;
mod section;
mod shape;
mod values;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use mail::MailAddress;
pub use secret::{Key, KeyFileError, Secret, SecretError, SecretSource};
pub use section::{ConfigErrors, ConfigProblem};
pub use shape::{
    Chain, Cluster, Config, Database, Endpoints, Executor, Http, Limits, LogFormat, Mcp, Model,
    Nats, NatsLogin, Need, Notify, Provider, Secrets, Services, Smtp, SmtpSecurity, Telemetry,
};
pub use values::{Address, ByteSize, HostName, Origin};

/// The text of the defaults file: every key, its meaning, unit and default.
pub const DEFAULTS: &str = include_str!("../defaults.yaml");

/// Variables that begin with `SAYSO_` and are not configuration: the command
/// line and the tests read them. So are all that begin with `SAYSO_TEST_`.
pub const RESERVED: &[&str] = &[
    "SAYSO_BIN",
    "SAYSO_CONFIG",
    "SAYSO_DATA",
    "SAYSO_DEMO_SHOP_STATE",
    "SAYSO_HOOKS",
    "SAYSO_NAMESPACE",
    "SAYSO_NATS_SERVER",
    "SAYSO_SERVER",
    "SAYSO_THREADS",
    "SAYSO_TOKEN",
];

impl Config {
    /// The configuration from the defaults, the file at `path` if one is given,
    /// and this process's `SAYSO_…` variables.
    ///
    /// # Errors
    ///
    /// Every mistake found, by key (`S10.4`).
    pub fn load(path: Option<&Path>) -> Result<Config, ConfigErrors> {
        read::config(layers::Layers {
            embedded: None,
            file: path,
            variables: layers::process_variables(),
        })
    }

    /// The configuration of everything in one process with its data under
    /// `data_dir` (`S10.1`): like [`Config::load`], with a SQLite database in
    /// that folder, a cluster key that lives as long as the process and, in
    /// `data_dir/chain.key` and `data_dir/secrets.key`, a chain key and a key of
    /// stored secrets (made at the first start, mode 0600), unless the file or
    /// the variables say otherwise. The folder must exist.
    ///
    /// # Errors
    ///
    /// Every mistake found, by key; a key file that cannot be read or made.
    pub fn embedded(data_dir: &Path, path: Option<&Path>) -> Result<Config, ConfigErrors> {
        Config::embedded_with(data_dir, path, layers::process_variables())
    }

    fn embedded_with(
        data_dir: &Path,
        path: Option<&Path>,
        variables: Vec<(String, String)>,
    ) -> Result<Config, ConfigErrors> {
        let mut config = read::config(layers::Layers {
            embedded: Some(data_dir),
            file: path,
            variables,
        })?;
        config.cluster.key.get_or_insert_with(Key::generate);
        let kept = |key: &mut Option<Key>, name: &str, file: &str| {
            if key.is_none() {
                let made = Key::load_or_create(&data_dir.join(file));
                *key = Some(made.map_err(|error| ConfigErrors::one(name, error.to_string()))?);
            }
            Ok(())
        };
        kept(&mut config.chain.key, "chain.key_file", "chain.key")?;
        kept(&mut config.secrets.key, "secrets.key_file", "secrets.key")?;
        Ok(config)
    }
}
