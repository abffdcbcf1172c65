//! What the test binaries said, added up.

use std::fmt;

/// Counts and names over all test binaries of one run.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    skipped: Vec<String>,
}

impl Summary {
    /// Takes in a line of cargo's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, outcome)) = test.rsplit_once(" ... ") {
                if outcome == "FAILED" {
                    self.failures.push(name.to_owned());
                } else if outcome.starts_with("ignored") {
                    self.skipped.push(name.to_owned());
                }
                return;
            }
            if let Some(counts) = test.strip_prefix("result: ") {
                self.count(counts);
            }
        }
    }

    fn count(&mut self, counts: &str) {
        for part in counts.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(word), None) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for test in &self.skipped {
            writeln!(f, "skipped: {test}")?;
        }
        for test in &self.failures {
            writeln!(f, "FAILED: {test}")?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn binaries_are_added_up_and_what_did_not_pass_is_named() {
        let mut summary = Summary::default();
        for line in [
            "running 3 tests",
            "test one ... ok",
            "test two::three ... FAILED",
            "test four ... ignored, needs a moon",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; \
             finished in 0.10s",
            "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 12.34s",
        ] {
            summary.read(line);
        }
        assert_eq!(
            summary.to_string(),
            "skipped: four\nFAILED: two::three\n41 passed, 1 failed, 1 skipped"
        );
    }
}
