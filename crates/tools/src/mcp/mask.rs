//! Keeps secrets out of what is said about failures.

/// Values shorter than this are ordinary words too often to take out.
const SHORTEST: usize = 4;

/// What stands in for a value.
const HIDDEN: &str = sayso_rules::redact::MASK;

/// The values that a bundle gives to a server: its environment and its headers.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// Longest first, so that a value inside another does not leave a rest.
    values: Vec<String>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.values.len())
    }
}

impl Mask {
    /// Hides these values and each of their words: the token of `Bearer token` too.
    pub(crate) fn of<'v>(values: impl IntoIterator<Item = &'v String>) -> Self {
        let mut all: Vec<String> = values
            .into_iter()
            .flat_map(|value| {
                std::iter::once(value.as_str()).chain(value.split_whitespace().skip(1))
            })
            .filter(|value| value.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        all.dedup();
        Self { values: all }
    }

    /// The text without them.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.values
            .iter()
            .fold(text.to_owned(), |text, value| text.replace(value, HIDDEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_the_token_in_them_are_hidden() {
        let values = ["Bearer s3cr3t-token".to_owned(), "1".to_owned()];
        let mask = Mask::of(&values);
        assert_eq!(
            mask.hide("got `Bearer s3cr3t-token` and s3cr3t-token, 1 time"),
            "got `[redacted]` and [redacted], 1 time"
        );
    }
}
