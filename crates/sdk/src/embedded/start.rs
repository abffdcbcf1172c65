use sayso_run::Trust;

/// Who stands behind a start that names nobody.
const SOMEBODY: &str = "app";

/// What is asked of an agent, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub(crate) input: String,
    pub(crate) by: String,
    pub(crate) trust: Trust,
    pub(crate) key: Option<String>,
}

impl Start {
    /// A task in its principal's own words, which vouch for what they name (S5.9). The principal is
    /// `app` unless [`Start::by`] says who.
    pub fn new(input: impl Into<String>) -> Self {
        Self {
            input: input.into(),
            by: SOMEBODY.to_owned(),
            trust: Trust::Trusted,
            key: None,
        }
    }

    /// Who asks. They cannot decide what the run holds for approval (S6.10).
    #[must_use]
    pub fn by(mut self, principal: impl Into<String>) -> Self {
        self.by = principal.into();
        self
    }

    /// How far the origin is trusted: `trusted` unless this says otherwise (S5.7). What outsiders wrote
    /// is `untrusted`.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// A key that makes it safe to start again: the same key, principal and task get the same run.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl From<&str> for Start {
    fn from(input: &str) -> Self {
        Start::new(input)
    }
}

impl From<String> for Start {
    fn from(input: String) -> Self {
        Start::new(input)
    }
}
