//! What a Dockerfile must and must not say.

use std::path::Path;

use super::DOCKERFILE;

/// What is wrong with the Dockerfile, whose context is `root`.
pub(super) fn faults(root: &Path, text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let instructions: Vec<Vec<&str>> = joined
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.first().is_some_and(|word| !word.starts_with('#')))
        .collect();
    let mut faults = Vec::new();
    let mut last_user = None;
    for words in &instructions {
        match words[0] {
            "COPY" if !words[1..].iter().any(|word| word.starts_with("--from")) => {
                let sources = &words[1..words.len().saturating_sub(1)];
                for source in sources.iter().filter(|word| !word.starts_with("--")) {
                    if !root.join(source).exists() {
                        faults.push(format!(
                            "{DOCKERFILE}: COPY {source}: there is no such file"
                        ));
                    }
                }
            }
            "FROM" => last_user = None,
            "USER" => last_user = words.get(1).copied(),
            _ => {}
        }
    }
    if last_user.is_none_or(|user| user.starts_with("root") || user.starts_with("0")) {
        faults.push(format!("{DOCKERFILE}: the image runs as root"));
    }
    let builds = instructions
        .iter()
        .filter(|words| words.windows(2).any(|pair| pair == ["cargo", "build"]));
    for build in builds {
        if !["--release", "--locked"]
            .iter()
            .all(|flag| build.contains(flag))
        {
            faults.push(format!(
                "{DOCKERFILE}: cargo build without --release --locked"
            ));
        }
        if build
            .iter()
            .any(|word| word.starts_with("--features") || *word == "--all-features")
        {
            faults.push(format!(
                "{DOCKERFILE}: a release has no features of its own"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_file_has_no_faults_and_each_bad_line_is_named() {
        let good = "FROM a AS build\nCOPY . .\nRUN cargo build --release \\\n --locked\n\
                    FROM b\nCOPY --from=build /out/x /x\nUSER 10:10\n";
        assert_eq!(faults(Path::new("."), good), Vec::<String>::new());
        let bad = "FROM a\nUSER 10\nCOPY no-such-file /x\n\
                   RUN cargo build --all-features\nFROM b\n";
        assert_eq!(faults(Path::new("."), bad).len(), 4);
    }
}
