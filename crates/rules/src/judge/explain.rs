//! Why a call is judged as it is (S5.12).

use std::borrow::Cow;
use std::cell::OnceCell;

use serde::Serialize;

use super::{CallView, Facts, RuleId, Rules, RunView, Verdict, unless, when};
use crate::bundle::Action;

/// Everything that was said on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'r> {
    /// Every voice that speaks, in the order of the table of [`crate::judge`]; the first of the
    /// strictest is the verdict.
    pub voices: Vec<Verdict<'r>>,
    /// Every rule that speaks of the tool, in the order in which they are judged, and whether it
    /// holds for this call. The first that does decides among the rules.
    pub rules: Vec<RuleExplained>,
}

/// What one rule says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleExplained {
    /// The rule.
    pub rule: RuleId,
    /// What it says of calls for which it holds.
    pub action: Action,
    /// Whether it holds for this one.
    pub holds: bool,
    /// Why, in a few words.
    pub why: String,
    /// What would lift it, and whether that does; only for a rule whose conditions hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<AlternativeExplained>,
}

/// What one alternative of a rule's `unless` says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlternativeExplained {
    /// Whether it lifts the rule.
    pub lifts: bool,
    /// Why, in a few words; it names arguments, never their values.
    pub why: String,
}

impl Rules {
    /// Every voice that speaks on a call, and every rule that could (S5.12).
    #[must_use]
    pub fn explain(&self, call: &CallView<'_>, run: &RunView<'_>) -> Explanation<'_> {
        let voices = self.voices(call, run).into_iter().flatten().collect();
        if call.tool.is_control() {
            return Explanation {
                voices,
                rules: Vec::new(),
            };
        }
        let facts = Facts {
            tool: call.tool,
            text: call.args,
            args: OnceCell::new(),
            run,
        };
        let rules = call.tool.rules.iter().map(|position| {
            let judged = &self.rules[*position];
            let rule = &judged.rule;
            let missed = when::missed(rule, &facts);
            let alternatives: Vec<AlternativeExplained> = rule
                .unless
                .iter()
                .filter(|_| missed.is_none())
                .map(|alternative| match unless::lifts(alternative, &facts) {
                    Ok(()) => AlternativeExplained {
                        lifts: true,
                        why: "every argument that it looks at is vouched for".to_owned(),
                    },
                    Err(why) => AlternativeExplained {
                        lifts: false,
                        why: why.to_string(),
                    },
                })
                .collect();
            let lifted = alternatives.iter().any(|alternative| alternative.lifts);
            let why: Cow<'_, str> = match missed {
                Some(missed) => missed.to_string().into(),
                None if lifted => "one of its alternatives lifts it".into(),
                None if rule.unless.is_empty() => "its conditions hold".into(),
                None => "its conditions hold, and nothing lifts it".into(),
            };
            RuleExplained {
                rule: judged.id,
                action: rule.action,
                holds: missed.is_none() && !lifted,
                why: why.into_owned(),
                alternatives,
            }
        });
        Explanation {
            rules: rules.collect(),
            voices,
        }
    }
}
