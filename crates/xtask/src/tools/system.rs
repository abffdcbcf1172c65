//! Programs that belong to the system: looked for, else installed by its package manager.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{Processes, is_program, on_path};

/// A program of the system.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Program {
    /// `postgres`, with `initdb` beside it.
    Postgres,
    /// A Python that can make virtual environments.
    Python,
    /// A browser that runs headless.
    Chromium,
    /// What drives the browser.
    Chromedriver,
    /// git.
    Git,
}

/// Where a program is, and its version as far as it is of interest.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl Program {
    /// What a person calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Python => "Python",
            Self::Chromium => "Chromium",
            Self::Chromedriver => "ChromeDriver",
            Self::Git => "git",
        }
    }

    /// Its packages in Debian and the systems that come from it.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgresql"],
            Self::Python => &["python3", "python3-venv"],
            Self::Chromium => &["chromium"],
            Self::Chromedriver => &["chromium-driver"],
            Self::Git => &["git"],
        }
    }

    /// The oldest version that will do.
    fn oldest(self) -> (u32, u32) {
        match self {
            Self::Postgres => (14, 0),
            Self::Python => (3, 10),
            Self::Chromium | Self::Chromedriver => (110, 0),
            Self::Git => (2, 28),
        }
    }

    /// Looks for it where systems put it.
    pub(crate) fn find(self, processes: &Processes) -> Result<Option<Found>> {
        for path in self.candidates() {
            if self == Self::Python && !makes_environments(&path, processes)? {
                continue;
            }
            let Some(version) = version_of(&path, processes)? else {
                continue;
            };
            if numbers(&version) >= Some(self.oldest()) {
                return Ok(Some(Found { path, version }));
            }
        }
        Ok(None)
    }

    fn candidates(self) -> Vec<PathBuf> {
        let from_path = |names: &[&str]| names.iter().filter_map(|name| on_path(name)).collect();
        match self {
            Self::Postgres => postgres_servers(),
            Self::Python => {
                let mut found: Vec<PathBuf> = from_path(&["python3", "python"]);
                found.extend(
                    Some(PathBuf::from("/usr/bin/python3")).filter(|path| is_program(path)),
                );
                found
            }
            Self::Chromium => from_path(&[
                "chromium",
                "chromium-browser",
                "google-chrome",
                "google-chrome-stable",
            ]),
            Self::Chromedriver => from_path(&["chromedriver"]),
            Self::Git => from_path(&["git"]),
        }
    }
}

/// PostgreSQL's servers that have `initdb` beside them: the one on the `PATH`, then the newest.
/// Debian keeps them off the `PATH`, in a folder per version.
fn postgres_servers() -> Vec<PathBuf> {
    let mut versioned: Vec<(u32, PathBuf)> = Vec::new();
    for base in ["/usr/lib/postgresql", "/usr/local/lib/postgresql"] {
        let Ok(versions) = std::fs::read_dir(base) else {
            continue;
        };
        for version in versions.flatten() {
            if let Some(number) = version.file_name().to_str().and_then(|n| n.parse().ok()) {
                versioned.push((number, version.path().join("bin/postgres")));
            }
        }
    }
    versioned.sort_by(|a, b| b.cmp(a));
    on_path("postgres")
        .into_iter()
        .chain(versioned.into_iter().map(|(_, path)| path))
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| is_program(path) && is_program(&path.with_file_name("initdb")))
        .collect()
}

/// Debian ships Python without the module that puts pip into a new environment.
fn makes_environments(python: &Path, processes: &Processes) -> Result<bool> {
    let tried = processes.capture(Command::new(python).args(["-c", "import venv, ensurepip"]))?;
    Ok(tried.status.success())
}

/// The first word of `--version` that begins with a number. `None` if the program does not start.
pub(crate) fn version_of(path: &Path, processes: &Processes) -> Result<Option<String>> {
    let said = processes.capture(Command::new(path).arg("--version"))?;
    if !said.status.success() {
        return Ok(None);
    }
    Ok(String::from_utf8_lossy(&said.stdout)
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .map(str::to_owned))
}

/// Major and minor of a version; a missing minor is 0.
pub(crate) fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|separator: char| !separator.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((major, minor))
}

/// Installs what is missing of `wanted`, in one call, and says so. An error that names what a
/// person has to install if there is no way to do it.
pub(crate) fn require(processes: &Processes, wanted: &BTreeSet<Program>) -> Result<()> {
    let missing = missing(processes, wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|program| program.packages())
        .copied()
        .collect();
    let Some(mut apt) = apt_get() else {
        bail!(
            "missing: {}. Install the system's packages for it (in Debian: {}) and run this again",
            names(&missing),
            packages.join(" ")
        );
    };
    eprintln!(
        "tools: {} missing; installing with apt-get: {}",
        names(&missing),
        packages.join(" ")
    );
    if missing.contains(&Program::Postgres) {
        eprintln!("tools: the package may start a PostgreSQL of its own; the tests do not use it");
    }
    processes.succeed(apt().args(["-q", "update"]))?;
    processes.succeed(
        apt()
            .args(["-q", "-y", "--no-install-recommends", "install"])
            .args(&packages),
    )?;
    let still = self::missing(processes, wanted)?;
    if !still.is_empty() {
        bail!(
            "missing even after installing {}: {} (of a version that will do)",
            packages.join(" "),
            names(&still)
        );
    }
    Ok(())
}

fn missing(processes: &Processes, wanted: &BTreeSet<Program>) -> Result<Vec<Program>> {
    let mut missing = Vec::new();
    for program in wanted {
        if program.find(processes)?.is_none() {
            missing.push(*program);
        }
    }
    Ok(missing)
}

fn names(programs: &[Program]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name()).collect();
    names.join(", ")
}

/// Makes commands of apt-get: as root, else through sudo if it asks for no password.
fn apt_get() -> Option<impl FnMut() -> Command> {
    let apt_get = on_path("apt-get")?;
    let sudo = if rustix::process::geteuid().is_root() {
        None
    } else {
        let sudo = on_path("sudo")?;
        let allowed = Command::new(&sudo).args(["-n", "true"]).output().ok()?;
        if !allowed.status.success() {
            return None;
        }
        Some(sudo)
    };
    Some(move || {
        let mut command = match &sudo {
            None => Command::new("env"),
            Some(sudo) => {
                let mut command = Command::new(sudo);
                command.args(["-n", "env"]);
                command
            }
        };
        command.arg("DEBIAN_FRONTEND=noninteractive").arg(&apt_get);
        command
    })
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(numbers("15.18"), Some((15, 18)));
        assert_eq!(numbers("2.9.10"), Some((2, 9)));
        assert_eq!(numbers("17beta1"), Some((17, 0)));
        assert_eq!(numbers("main"), None);
        assert!(numbers("2.9.10") < Some((2, 10)));
    }
}
