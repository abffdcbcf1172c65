use sayso_wire::v1::RunStep;
use serde_json::Value;

/// A run's steps.
#[derive(Debug, Clone, Default)]
pub struct Timeline(pub Vec<Step>);

/// One step, with its content read.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its number.
    pub sequence: u64,
    /// Its type.
    pub kind: String,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Whose doing it was.
    pub actor: String,
    /// The code of what went wrong, if it tells of that.
    pub code: String,
    /// What to do about it.
    pub advice: String,
    /// What it holds.
    pub content: Value,
}

impl Step {
    /// The call that it is about; empty if none.
    pub fn call(&self) -> &str {
        self.content["call"].as_str().unwrap_or_default()
    }
}

impl From<RunStep> for Step {
    fn from(step: RunStep) -> Self {
        Self {
            sequence: step.sequence,
            kind: step.r#type,
            at: step
                .at
                .map_or(0, |at| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000),
            actor: step.actor,
            code: step.code,
            advice: step.advice,
            content: serde_json::from_str(&step.content_json).expect("content is JSON"),
        }
    }
}

impl Timeline {
    /// The steps of a type.
    pub fn of(&self, kind: &str) -> Vec<&Step> {
        self.0.iter().filter(|step| step.kind == kind).collect()
    }

    /// How many steps of a type there are.
    pub fn count(&self, kind: &str) -> usize {
        self.of(kind).len()
    }

    /// The one step of a type that is about a call.
    ///
    /// # Panics
    ///
    /// If there is none, or more than one.
    pub fn one(&self, kind: &str, call: &str) -> &Step {
        let mut steps = self.of(kind);
        steps.retain(|step| step.call() == call);
        assert_eq!(steps.len(), 1, "one `{kind}` of {call} in {self:#?}");
        steps[0]
    }

    /// Whether a type stands in it for a call.
    pub fn has(&self, kind: &str, call: &str) -> bool {
        self.of(kind).iter().any(|step| step.call() == call)
    }
}
