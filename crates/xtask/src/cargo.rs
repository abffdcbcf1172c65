//! The workspace as cargo sees it, and cargo itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Message, Metadata, MetadataCommand};

use crate::process::Processes;

/// The feature that opens crash and race windows to tests. Never in a release build.
const HOOKS: &str = "hooks";

/// The workspace.
pub(crate) struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    /// Asks cargo about the workspace of the current folder.
    pub(crate) fn read() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cannot read the workspace")?;
        Ok(Self { metadata })
    }

    /// The folder of the checkout.
    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// `cargo <subcommand>` in the checkout, with the cargo that runs this program.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.arg(subcommand).current_dir(self.root());
        command
    }

    /// The names of all packages.
    pub(crate) fn packages(&self) -> BTreeSet<&str> {
        self.metadata
            .packages
            .iter()
            .map(|package| package.name.as_str())
            .collect()
    }

    /// An error that names the packages of the workspace if one of `names` is none of them.
    pub(crate) fn require(&self, names: &[String]) -> Result<()> {
        let packages = self.packages();
        for name in names {
            ensure!(
                packages.contains(name.as_str()),
                "there is no package `{name}`; there are: {}",
                packages.iter().copied().collect::<Vec<_>>().join(", ")
            );
        }
        Ok(())
    }

    /// The packages that have test hooks, as arguments for cargo: `--features a/hooks,b/hooks`.
    /// Only those of `selected`, unless it is empty.
    pub(crate) fn hooks(&self, selected: &[String]) -> Vec<String> {
        let features: Vec<String> = self
            .metadata
            .packages
            .iter()
            .filter(|package| package.features.contains_key(HOOKS))
            .filter(|package| {
                selected.is_empty() || selected.iter().any(|name| **name == *package.name)
            })
            .map(|package| format!("{}/{HOOKS}", package.name))
            .collect();
        if features.is_empty() {
            return Vec::new();
        }
        vec!["--features".to_owned(), features.join(",")]
    }

    /// Packages of the workspace whose test hooks a release build of `package` would contain.
    pub(crate) fn hooks_in_release(
        &self,
        processes: &Processes,
        package: &str,
    ) -> Result<Vec<String>> {
        let mut tree = self.cargo("tree");
        tree.args(["--locked", "--package", package, "--prefix", "none"])
            .args(["--edges", "normal,build", "--format", "{p}|{f}"]);
        let output = processes.capture(&mut tree)?;
        ensure!(
            output.status.success(),
            "cargo tree failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let tree = String::from_utf8_lossy(&output.stdout);
        Ok(with_hooks(&tree, &self.packages()))
    }

    /// Builds, and says where the program `name` lies if it was among what was built.
    pub(crate) fn build(
        &self,
        processes: &Processes,
        arguments: &[String],
        name: &str,
    ) -> Result<Option<PathBuf>> {
        let mut program = None;
        let mut build = self.cargo("build");
        build
            .arg("--message-format=json-render-diagnostics")
            .args(arguments);
        let (status, _) = processes.run_by_line(&mut build, |line| {
            if let Ok(Message::CompilerArtifact(artifact)) = serde_json::from_str(line)
                && artifact.target.name == name
                && artifact.target.is_bin()
                && !artifact.profile.test
            {
                program = artifact.executable.map(PathBuf::from);
            }
        })?;
        ensure!(status.success(), "the build failed");
        Ok(program)
    }
}

/// The packages among `ours` that have their test hooks in a tree of lines `package|features`.
fn with_hooks(tree: &str, ours: &BTreeSet<&str>) -> Vec<String> {
    let found: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_once('|'))
        .filter(|(_, features)| {
            // A package that was shown before is marked.
            let features = features.trim_end_matches("(*)").trim();
            features.split(',').any(|feature| feature == HOOKS)
        })
        .filter_map(|(package, _)| package.split_whitespace().next())
        .filter(|name| ours.contains(name))
        .collect();
    found.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_our_packages_are_seen_in_a_tree() {
        let tree = "sayso v0.1.0 (/x)|default\nsayso-driver v0.1.0 (/y)|default,hooks\n\
                    stranger v1.0.0|hooks\nsayso-run v0.1.0 (/z)|\n\
                    sayso-driver v0.1.0 (/y)|default,hooks (*)\n\
                    sayso-store v0.1.0 (/w)|hooks (*)\n";
        let ours = BTreeSet::from(["sayso", "sayso-driver", "sayso-run", "sayso-store"]);
        assert_eq!(with_hooks(tree, &ours), ["sayso-driver", "sayso-store"]);
    }
}
