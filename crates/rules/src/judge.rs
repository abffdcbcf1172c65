//! The verdict on one call.
//!
//! Four voices speak, and the strictest is heard (S5.1):
//!
//! | voice | says |
//! |---|---|
//! | the grant | deny, unless the bundle grants the tool |
//! | the rules | all deny rules, then all ask rules, then all allow rules; the first that matches, else the default (S5.3). A preset's rules stand first in each class (S5.9) |
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
//! What a rule's conditions need to know of a run is its [`Standing`], small and copied for the
//! calls of one turn, and its [`Index`] of values. Both grow with the run.
//!
//! A compiled [`Rules`] is read-only; share it behind an `Arc`. A run's tools are resolved once
//! ([`Rules::resolve`]), marks and all, with the rules that speak of them: so the number of rules
//! and tools costs nothing when a call is judged. Judging by rules without conditions on arguments
//! allocates nothing.

mod explain;
mod standing;
mod tool;
mod unless;
mod when;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use explain::{AlternativeExplained, Explanation, RuleExplained};
pub use standing::Standing;
pub use tool::{Hints, Method, Tool, ToolKind, ToolView, kind_by_name};

use crate::bundle::{Action, Builtin, Bundle, Effect, Preset, Review, Rule, ToolMarks};
use crate::glob::Glob;
use crate::json::Json;
use crate::patterns::Patterns;
use crate::preset;
use crate::provenance::Index;

/// How long a call may take where a bundle says nothing (S3.8).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How many bytes of a result are kept where a bundle says nothing (S3.8).
pub const DEFAULT_MAX_RESULT_BYTES: u64 = 256 * 1024;

/// The tools that act on nothing: they are never judged by rules (S3.4).
pub const CONTROL_TOOLS: [&str; 2] = ["ask_person", "search_api_tools"];

/// The tool that starts another agent (S3.6).
pub const START_AGENT: &str = "start_agent";

/// One call as the judge sees it.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'c> {
    /// The call's id; who made what is asked of an [`Index`] by it.
    pub id: &'c str,
    /// The tool, resolved by the same rules.
    pub tool: &'c Tool,
    /// The exact arguments, JSON.
    pub args: &'c str,
}

/// What the judge knows of the run that a call belongs to.
#[derive(Debug, Clone, Copy)]
pub struct RunView<'r> {
    /// Its trust, and what its calls have done to it.
    pub standing: &'r Standing,
    /// Where its values come from.
    pub index: &'r Index,
}

/// What decided: a stable word that steps, approvals and pages show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleId {
    /// `grant`: the tool was not granted.
    Grant,
    /// `preset:NAME#N`: the rule at index N of the preset.
    Preset(Preset, usize),
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict<'r> {
    /// What happens.
    pub action: Action,
    /// What decided.
    pub rule: RuleId,
    /// The same in one sentence. It names arguments, never their values.
    pub reason: Cow<'r, str>,
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
    /// The MCP servers whose annotations the bundle trusts.
    trusted_servers: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Judged {
    id: RuleId,
    rule: Rule,
    reason: Box<str>,
}

/// A call and its run, with the arguments read at most once.
struct Facts<'c, 'r> {
    tool: &'c Tool,
    text: &'c str,
    args: OnceCell<Option<Json<'c>>>,
    run: &'r RunView<'r>,
}

impl<'c, 'r> Facts<'c, 'r> {
    fn of(call: &CallView<'c>, run: &'r RunView<'r>) -> Self {
        Facts {
            tool: call.tool,
            text: call.args,
            args: OnceCell::new(),
            run,
        }
    }

    /// The arguments; `None` if they are not JSON.
    fn args(&self) -> Option<&Json<'c>> {
        self.args.get_or_init(|| Json::read(self.text)).as_ref()
    }
}

/// What a rule says of a call; nothing if it does not hold for it, or is lifted.
fn speaks<'j>(judged: &'j Judged, facts: &Facts<'_, '_>) -> Option<Verdict<'j>> {
    if when::missed(&judged.rule, facts).is_some() {
        return None;
    }
    let mut first_reason = None;
    for alternative in &judged.rule.unless {
        match unless::lifts(alternative, facts) {
            Ok(()) => return None,
            Err(why) => {
                first_reason.get_or_insert(why);
            }
        }
    }
    let reason = match first_reason {
        None => Cow::Borrowed(&*judged.reason),
        Some(why) => {
            let says = judged.reason.trim_end_matches('.');
            Cow::Owned(format!("{says}, since {why}."))
        }
    };
    Some(Verdict {
        action: judged.rule.action,
        rule: judged.id,
        reason,
    })
}

impl Rules {
    /// Prepares a bundle's rules and marks for judging.
    #[must_use]
    pub fn compile(bundle: &Bundle) -> Self {
        let permissions = bundle.permissions.as_ref();
        let preset = permissions.and_then(|p| p.preset);
        let shipped = preset.into_iter().flat_map(|preset| {
            let rules = preset::rules(preset).iter().cloned().enumerate();
            rules.map(move |(index, rule)| (RuleId::Preset(preset, index), rule))
        });
        let own = permissions.map_or(&[][..], |p| &p.rules);
        let own = own.iter().cloned().enumerate();
        let mut rules: Vec<Judged> = shipped
            .chain(own.map(|(index, rule)| (RuleId::Rule(index), rule)))
            .map(|(id, rule)| Judged {
                id,
                reason: rule_reason(id, &rule).into(),
                rule,
            })
            .collect();
        // The sort is stable: within a class the preset's rules stay first, then file order.
        rules.sort_by_key(|judged| std::cmp::Reverse(judged.rule.action));
        let mut keys: Vec<&(Glob, ToolMarks)> = bundle.tools.iter().collect();
        keys.sort_by_key(|(glob, _)| lookup_order(glob));
        Self {
            patterns: rules.iter().map(|judged| &judged.rule.tool).collect(),
            rules,
            default: permissions.map(|p| p.default),
            keys: keys.iter().map(|(glob, _)| glob).collect(),
            marks: keys.iter().map(|(_, marks)| marks.clone()).collect(),
            trusted_servers: bundle
                .servers
                .iter()
                .filter(|(_, server)| server.trust_annotations)
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }

    /// The verdict on a call (S5.1).
    #[must_use]
    pub fn judge(&self, call: &CallView<'_>, run: &RunView<'_>) -> Verdict<'_> {
        let voices = self.voices(call, run).into_iter().flatten();
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

    /// Whether a tool is kept from the model: it is not granted, or denied whatever the call and
    /// the run (S5.6).
    #[must_use]
    pub fn hidden(&self, tool: &Tool) -> bool {
        if !tool.granted {
            return true;
        }
        if tool.is_control() {
            return false;
        }
        let rules = || {
            tool.rules
                .iter()
                .map(|position| &self.rules[*position].rule)
        };
        let outright = |rule: &Rule| rule.unless.is_empty() && rule.when.is_outright(tool.effect);
        if rules().any(|rule| rule.action == Action::Deny && outright(rule)) {
            return true;
        }
        self.default == Some(Action::Deny)
            && !rules().any(|rule| {
                rule.action != Action::Deny
                    && rule
                        .when
                        .effect
                        .as_ref()
                        .is_none_or(|effects| effects.contains(&tool.effect))
            })
    }

    /// How a tool is treated.
    ///
    /// Each mark is looked up by itself among the keys of `tools` that match:
    /// first exact names, the registered spelling before the model's, then globs
    /// in file order; the first key that sets the mark decides. So a narrow key
    /// that sets a timeout does not undo the review that a wide one requires.
    #[must_use]
    pub fn tool(&self, registered: &str, model_name: &str) -> ToolSettings {
        let positions = self.keys.all(registered, model_name);
        let marks = || positions.iter().map(|position| &self.marks[*position]);
        ToolSettings {
            timeout: marks().find_map(|m| m.timeout).unwrap_or(DEFAULT_TIMEOUT),
            max_result_bytes: marks()
                .find_map(|m| m.max_result_bytes)
                .unwrap_or(DEFAULT_MAX_RESULT_BYTES),
            idempotent: marks().find_map(|m| m.idempotent),
            effect: marks().find_map(|m| m.effect),
            review: marks().find_map(|m| m.review),
        }
    }

    fn voices(&self, call: &CallView<'_>, run: &RunView<'_>) -> [Option<Verdict<'_>>; 4] {
        let tool = call.tool;
        let grant = (!tool.granted).then_some(Verdict {
            action: Action::Deny,
            rule: RuleId::Grant,
            reason: "The bundle does not grant this tool.".into(),
        });
        if tool.is_control() {
            let review = Verdict {
                action: Action::Allow,
                rule: RuleId::Review,
                reason: "The tool acts on nothing and is never held.".into(),
            };
            return [grant, None, Some(review), None];
        }
        let floor = floor(tool);
        // A floor says all that a review could say.
        let review = floor.is_none().then(|| review(tool));
        [grant, self.rule(call, run), review, floor]
    }

    fn rule(&self, call: &CallView<'_>, run: &RunView<'_>) -> Option<Verdict<'_>> {
        let facts = Facts::of(call, run);
        let mut rules = self.rules_of(call.tool);
        rules
            .find_map(|judged| speaks(judged, &facts))
            .or_else(|| self.default_verdict(call.tool.kind))
    }

    /// The rules that name a tool, in the order in which they are judged.
    fn rules_of<'s, 't>(
        &'s self,
        tool: &'t Tool,
    ) -> impl Iterator<Item = &'s Judged> + use<'s, 't> {
        tool.rules.iter().map(|position| &self.rules[*position])
    }

    /// Who may decide a call that is asked for: what the first rule says that asks for it and says
    /// anything of that. A preset's rules, or another rule before it, ask for a person and never
    /// take away what a later one demands of them (S6.12).
    #[must_use]
    pub fn deciders(&self, call: &CallView<'_>, run: &RunView<'_>) -> Option<&Rule> {
        let facts = Facts::of(call, run);
        self.rules_of(call.tool)
            .filter(|judged| judged.rule.approvers.is_some() || !judged.rule.escalate.is_empty())
            .find(|judged| speaks(judged, &facts).is_some())
            .map(|judged| &judged.rule)
    }

    fn default_verdict(&self, kind: ToolKind) -> Option<Verdict<'_>> {
        let (action, reason) = match (self.default, kind) {
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
                ToolKind::Builtin | ToolKind::Control | ToolKind::Endpoint(_) | ToolKind::Agent,
            ) => {
                return None;
            }
        };
        Some(Verdict {
            action,
            rule: RuleId::Default,
            reason: reason.into(),
        })
    }
}

fn review(tool: &Tool) -> Verdict<'static> {
    let (action, reason) = match (tool.review, default_review(tool)) {
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
        reason: reason.into(),
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
fn default_review(tool: &Tool) -> Review {
    match tool.kind {
        ToolKind::Builtin => {
            Builtin::from_name(&tool.registered).map_or(Review::Required, Builtin::default_review)
        }
        ToolKind::Control | ToolKind::Mcp | ToolKind::Endpoint(_) | ToolKind::Agent => {
            Review::NotRequired
        }
    }
}

fn floor(tool: &Tool) -> Option<Verdict<'static>> {
    let builtin =
        Builtin::from_name(&tool.registered).filter(|_| tool.kind == ToolKind::Builtin)?;
    builtin.has_floor().then_some(Verdict {
        action: Action::Ask,
        rule: RuleId::Floor,
        reason: "The tool acts on the world outside and is always reviewed.".into(),
    })
}

fn rule_reason(id: RuleId, rule: &Rule) -> String {
    let says = match rule.action {
        Action::Allow => "allows this tool",
        Action::Ask => "asks for a person's approval",
        Action::Deny => "denies this tool",
    };
    let tool = &rule.tool;
    let when = rule.when.in_words();
    match id {
        RuleId::Preset(preset, index) => {
            format!("Rule {index} of the preset `{preset}`, for `{tool}`{when}, {says}.")
        }
        RuleId::Rule(index) => format!("Rule {index} of the bundle, for `{tool}`{when}, {says}."),
        RuleId::Grant | RuleId::Default | RuleId::Review | RuleId::Floor => String::new(),
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant => f.write_str("grant"),
            Self::Preset(preset, index) => write!(f, "preset:{preset}#{index}"),
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
#[cfg(test)]
mod tool_tests;
