//! `sayso init`: a first bundle, with comments, and cases beside it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use sayso_sdk::{Coded, Kind};

use super::Context;
use crate::args::InitArgs;
use crate::outcome::{Exit, Failure};
use crate::output::visible;

/// What is written, by file name.
const FILES: [(&str, &str); 2] = [
    ("agent.yaml", include_str!("../init/agent.yaml")),
    ("agent.cases.yaml", include_str!("../init/agent.cases.yaml")),
];

pub(crate) fn run(context: &Context, args: &InitArgs) -> Result<Exit, Failure> {
    let folder = &args.folder;
    for (name, _) in FILES {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(exists(&path));
        }
    }
    let made = std::fs::create_dir_all(folder);
    made.with_context(|| format!("{} cannot be made", folder.display()))?;
    for (name, text) in FILES {
        let path = folder.join(name);
        write_new(&path, text)?;
        let shown = visible::line(&path.display().to_string());
        context.output.line(format!("wrote {shown}"))?;
    }
    let bundle = folder.join(FILES[0].0);
    context.output.aside(format!(
        "try it: sayso policy test {0}, then sayso deploy --validate {0}",
        visible::line(&bundle.display().to_string())
    ))?;
    Ok(Exit::Done)
}

/// Writes a file that is not there: somebody else may have made it since it was looked for.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("{} cannot be written", path.display()))
            .into()),
    }
}

fn exists(path: &Path) -> Failure {
    let message = format!(
        "{} is there already, and nothing is overwritten; name another folder",
        path.display()
    );
    Failure::Given(Coded::new(Kind::Exists, "init.exists", message))
}

#[cfg(test)]
mod tests {
    use sayso_policy::cases::Cases;
    use sayso_rules::bundle::Preset;
    use sayso_rules::{Bundle, warnings};

    use super::*;

    /// S5.11: what `init` writes is sound, says `preset: balanced`, is warned of nowhere, and passes
    /// its own cases.
    #[test]
    fn s5_11_s5_12_what_init_writes_is_sound() {
        let bundle = Bundle::parse(FILES[0].1).unwrap();
        let permissions = bundle.permissions.as_ref().unwrap();
        assert_eq!(permissions.preset, Some(Preset::Balanced));
        assert_eq!(warnings(&bundle), []);
        let tested = Cases::parse(FILES[1].1).unwrap().run(&bundle);
        assert_eq!(tested.failed, 0, "{tested:#?}");
        assert!(tested.cases.len() >= 3);
    }
}
