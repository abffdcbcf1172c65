//! The verdict on one call.
//!
//! Four voices speak, and the strictest is heard (S5.1):
//!
//! | voice | says |
//! |---|---|
//! | the grant | deny, unless the bundle grants the tool |
//! | the rules | all deny rules, then all ask rules, then all allow rules; the first that matches, else the default (S5.3) |
//! | the review | ask where a bundle or the review table requires it (S5.5) |
//! | the floor | ask for the tools that act on the world outside, always |
//!
//! Where two are equally strict the upper one is named as the reason. A bundle
//! without a `permissions` block has no rules and no default: MCP tools are
//! asked for, and for all others the review decides alone (S5.4). An agent that
//! another may start counts among these others: what it does is judged by its
//! own rules, call by call.
//!
//! No voice can loosen what another says: `review: not_required` does not
//! let a call through that a rule or the default holds.
//!
//! Control tools act on nothing. They are never held, and no rule takes them
//! away (S3.4): an agent that may do nothing can still ask a person.
//!
//! A compiled [`Rules`] is read-only; share it behind an `Arc`. Judging
//! allocates nothing, except for the few tools whose names clash.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::bundle::{Action, Builtin, Bundle, Effect, Review, ToolMarks};
use crate::glob::Glob;
use crate::patterns::Patterns;

/// How long a call may take where a bundle says nothing (S3.8).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How many bytes of a result are kept where a bundle says nothing (S3.8).
pub const DEFAULT_MAX_RESULT_BYTES: u64 = 256 * 1024;

/// The tools that act on nothing: they are never judged by rules (S3.4).
pub const CONTROL_TOOLS: [&str; 2] = ["ask_person", "search_api_tools"];

/// What a tool is, as far as permissions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Comes with sayso and acts (S3.1).
    Builtin,
    /// Comes with sayso and acts on nothing: [`CONTROL_TOOLS`] (S3.4).
    Control,
    /// Offered by an MCP server (S3.5).
    Mcp,
    /// An operation of an imported API (S3.2).
    Endpoint,
    /// Starts another agent (S3.6).
    Agent,
}

/// One call as the judge sees it.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'c> {
    /// The tool's registered name.
    pub registered: &'c str,
    /// Its name in requests to the model.
    pub model_name: &'c str,
    /// What the tool is.
    pub kind: ToolKind,
    /// Whether the run's revision grants it.
    pub granted: bool,
}

/// What decided: a stable word that steps, approvals and pages show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleId {
    /// `grant`: the tool was not granted.
    Grant,
    /// `rules#N`: the rule at index N of the file.
    Rule(usize),
    /// `default`: no rule matched.
    Default,
    /// `review`: the bundle's mark or the review table.
    Review,
    /// `floor`: what nothing clears.
    Floor,
}

/// What happens to a call, and why (S5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'r> {
    /// What happens.
    pub action: Action,
    /// What decided.
    pub rule: RuleId,
    /// The same in one sentence.
    pub reason: &'r str,
}

/// How a tool is treated apart from permissions; resolved, with the defaults
/// of S3.8 filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSettings {
    /// How long a call may take.
    pub timeout: Duration,
    /// The most bytes of a result that are kept.
    pub max_result_bytes: u64,
    /// Whether the bundle says that running a call twice is as good as once.
    pub idempotent: Option<bool>,
    /// What the bundle says that the tool does to the world.
    pub effect: Option<Effect>,
    /// What the bundle says of its review.
    pub review: Option<Review>,
}

/// A bundle's permissions, ready to judge with.
#[derive(Debug, Clone)]
pub struct Rules {
    patterns: Patterns,
    /// In the order in which they are judged, as `patterns` is.
    rules: Vec<Judged>,
    /// `None` without a `permissions` block.
    default: Option<Action>,
    keys: Patterns,
    /// In the order in which they are looked up, as `keys` is.
    marks: Vec<ToolMarks>,
}

#[derive(Debug, Clone)]
struct Judged {
    index: usize,
    action: Action,
    reason: Box<str>,
}

impl Rules {
    /// Prepares a bundle's rules and marks for judging.
    #[must_use]
    pub fn compile(bundle: &Bundle) -> Self {
        let permissions = bundle.permissions.as_ref();
        let mut rules: Vec<_> = permissions
            .map_or(&[][..], |p| &p.rules)
            .iter()
            .enumerate()
            .collect();
        rules.sort_by_key(|(index, rule)| (std::cmp::Reverse(rule.action), *index));
        let mut keys: Vec<&(Glob, ToolMarks)> = bundle.tools.iter().collect();
        keys.sort_by_key(|(glob, _)| lookup_order(glob));
        Self {
            patterns: rules.iter().map(|(_, rule)| &rule.tool).collect(),
            rules: rules
                .iter()
                .map(|(index, rule)| Judged {
                    index: *index,
                    action: rule.action,
                    reason: rule_reason(*index, &rule.tool, rule.action).into(),
                })
                .collect(),
            default: permissions.map(|p| p.default),
            keys: keys.iter().map(|(glob, _)| glob).collect(),
            marks: keys.iter().map(|(_, marks)| marks.clone()).collect(),
        }
    }

    /// The verdict on a call (S5.1).
    #[must_use]
    pub fn judge(&self, call: &CallView<'_>) -> Verdict<'_> {
        let voices = self.voices(call).into_iter().flatten();
        voices
            .reduce(|heard, next| {
                if next.action > heard.action {
                    next
                } else {
                    heard
                }
            })
            .expect("the review or the floor speaks on every call")
    }

    /// Every voice that speaks on a call, in the order of the table above; the
    /// first of the strictest is the verdict (S5.12).
    #[must_use]
    pub fn explain(&self, call: &CallView<'_>) -> Vec<Verdict<'_>> {
        self.voices(call).into_iter().flatten().collect()
    }

    /// Whether the tool is kept from the model: it is not granted, or denied
    /// whatever the call (S5.6).
    #[must_use]
    pub fn hidden(&self, call: &CallView<'_>) -> bool {
        self.judge(call).action == Action::Deny
    }

    /// How a tool is treated.
    ///
    /// Each mark is looked up by itself among the keys of `tools` that match:
    /// first exact names, the registered spelling before the model's, then globs
    /// in file order; the first key that sets the mark decides. So a narrow key
    /// that sets a timeout does not undo the review that a wide one requires.
    #[must_use]
    pub fn tool(&self, registered: &str, model_name: &str) -> ToolSettings {
        ToolSettings {
            timeout: self
                .mark(registered, model_name, |m| m.timeout)
                .unwrap_or(DEFAULT_TIMEOUT),
            max_result_bytes: self
                .mark(registered, model_name, |m| m.max_result_bytes)
                .unwrap_or(DEFAULT_MAX_RESULT_BYTES),
            idempotent: self.mark(registered, model_name, |m| m.idempotent),
            effect: self.mark(registered, model_name, |m| m.effect),
            review: self.mark(registered, model_name, |m| m.review),
        }
    }

    fn mark<T>(
        &self,
        registered: &str,
        model_name: &str,
        read: impl Fn(&ToolMarks) -> Option<T>,
    ) -> Option<T> {
        let set = |position: usize| read(&self.marks[position]).is_some();
        let position = self.keys.first_where(registered, model_name, set)?;
        read(&self.marks[position])
    }

    fn voices(&self, call: &CallView<'_>) -> [Option<Verdict<'_>>; 4] {
        let grant = (!call.granted).then_some(Verdict {
            action: Action::Deny,
            rule: RuleId::Grant,
            reason: "The bundle does not grant this tool.",
        });
        if call.kind == ToolKind::Control {
            let review = Verdict {
                action: Action::Allow,
                rule: RuleId::Review,
                reason: "The tool acts on nothing and is never held.",
            };
            return [grant, None, Some(review), None];
        }
        let floor = floor(call);
        // A floor says all that a review could say.
        let review = floor.is_none().then(|| self.review(call));
        [grant, self.rule(call), review, floor]
    }

    fn rule(&self, call: &CallView<'_>) -> Option<Verdict<'_>> {
        if let Some(position) = self.patterns.first(call.registered, call.model_name) {
            let Judged {
                index,
                action,
                reason,
            } = &self.rules[position];
            return Some(Verdict {
                action: *action,
                rule: RuleId::Rule(*index),
                reason,
            });
        }
        let (action, reason) = match (self.default, call.kind) {
            (Some(Action::Allow), _) => (Action::Allow, "No rule matches; the default allows."),
            (Some(Action::Ask), _) => (
                Action::Ask,
                "No rule matches; the default asks for a person's approval.",
            ),
            (Some(Action::Deny), _) => (Action::Deny, "No rule matches; the default denies."),
            (None, ToolKind::Mcp) => (
                Action::Ask,
                "The bundle has no permissions, and tools of MCP servers then need a person's approval.",
            ),
            (
                None,
                ToolKind::Builtin | ToolKind::Control | ToolKind::Endpoint | ToolKind::Agent,
            ) => {
                return None;
            }
        };
        Some(Verdict {
            action,
            rule: RuleId::Default,
            reason,
        })
    }

    fn review(&self, call: &CallView<'_>) -> Verdict<'static> {
        let marked = self.mark(call.registered, call.model_name, |marks| marks.review);
        let (action, reason) = match (marked, default_review(call)) {
            (Some(Review::Required), _) => (
                Action::Ask,
                "The bundle requires a review of each call of this tool.",
            ),
            (Some(Review::NotRequired), _) => {
                (Action::Allow, "The bundle requires no review of this tool.")
            }
            (None, Review::Required) => (
                Action::Ask,
                "Each call of this tool is reviewed unless the bundle says otherwise.",
            ),
            (None, Review::NotRequired) => (
                Action::Allow,
                "The tool needs no review unless the bundle requires one.",
            ),
        };
        Verdict {
            action,
            rule: RuleId::Review,
            reason,
        }
    }
}

/// Exact names first, the spelling with the most dots, which is the registered
/// one, before others; then globs. The sort is stable: file order decides the
/// rest.
fn lookup_order(glob: &Glob) -> (bool, std::cmp::Reverse<usize>) {
    let dots = glob.as_str().matches('.').count();
    (
        !glob.is_exact(),
        std::cmp::Reverse(if glob.is_exact() { dots } else { 0 }),
    )
}

/// What the review table says where a bundle says nothing (S5.5).
fn default_review(call: &CallView<'_>) -> Review {
    match call.kind {
        ToolKind::Builtin => {
            Builtin::from_name(call.registered).map_or(Review::Required, Builtin::default_review)
        }
        ToolKind::Control | ToolKind::Mcp | ToolKind::Endpoint | ToolKind::Agent => {
            Review::NotRequired
        }
    }
}

fn floor(call: &CallView<'_>) -> Option<Verdict<'static>> {
    let builtin = Builtin::from_name(call.registered).filter(|_| call.kind == ToolKind::Builtin)?;
    builtin.has_floor().then_some(Verdict {
        action: Action::Ask,
        rule: RuleId::Floor,
        reason: "The tool acts on the world outside and is always reviewed.",
    })
}

fn rule_reason(index: usize, tool: &Glob, action: Action) -> String {
    let says = match action {
        Action::Allow => "allows this tool",
        Action::Ask => "asks for a person's approval",
        Action::Deny => "denies this tool",
    };
    format!("Rule {index} of the bundle, for `{tool}`, {says}.")
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant => f.write_str("grant"),
            Self::Rule(index) => write!(f, "rules#{index}"),
            Self::Default => f.write_str("default"),
            Self::Review => f.write_str("review"),
            Self::Floor => f.write_str("floor"),
        }
    }
}

impl Serialize for RuleId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
