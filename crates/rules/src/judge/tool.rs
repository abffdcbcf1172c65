//! A tool as the judge sees it: every mark, hint and built-in fact resolved (S5.8, S5.9).
//!
//! What the bundle says of a tool comes first, exact names before globs. After that built-ins know
//! what they do, an endpoint tool does what its method says, and an MCP tool may change anything
//! and returns what outsiders wrote. A server's own hints are only heard where the bundle trusts
//! its annotations: they choose the effect, and may take back that outsiders have a say. They
//! never touch a rule (B41). A read that has an argument with the role `destination` sends something
//! to where its caller says: it is `outward` unless the bundle calls it otherwise.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{CONTROL_TOOLS, Rules};
use crate::bundle::{ArgRole, Builtin, Effect, Pointer, Review, RoleMark, Step, ToolMarks};
use crate::provenance::asked::AskedKind;
use crate::provenance::kinds::{self, Named};

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
    Endpoint(Method),
    /// Starts another agent (S3.6).
    Agent,
}

/// How an endpoint tool is called, which tells its effect (S5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET or HEAD: reads.
    Read,
    /// POST, PUT, PATCH and whatever else there is: writes.
    Write,
    /// DELETE: destroys.
    Delete,
}

impl Method {
    /// The method of that name, as HTTP writes it.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name.to_ascii_uppercase().as_str() {
            "GET" | "HEAD" => Self::Read,
            "DELETE" => Self::Delete,
            _ => Self::Write,
        }
    }
}

/// What an MCP server says of its tool; absent where it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// Only reads.
    pub read_only: Option<bool>,
    /// May destroy.
    pub destructive: Option<bool>,
    /// Touches the world outside.
    pub open_world: Option<bool>,
}

/// One tool of a run, before anything is known of it.
#[derive(Debug, Clone, Copy)]
pub struct ToolView<'t> {
    /// The tool's registered name.
    pub registered: &'t str,
    /// Its name in requests to the model.
    pub model_name: &'t str,
    /// What the tool is.
    pub kind: ToolKind,
    /// Whether the run's revision grants it.
    pub granted: bool,
    /// What its server says of it.
    pub hints: Hints,
}

/// One tool of a run, with all that its revision says of it. Made by [`Rules::resolve`], and to be
/// kept with these rules for as long as the run uses the tool.
#[derive(Debug, Clone)]
pub struct Tool {
    pub(super) registered: Box<str>,
    pub(super) kind: ToolKind,
    pub(super) granted: bool,
    pub(super) effect: Effect,
    effect_known: bool,
    pub(super) untrusted_output: bool,
    pub(super) sensitive_output: bool,
    pub(super) review: Option<Review>,
    roles: Vec<(Pointer, RoleMark)>,
    returns: BTreeMap<Pointer, String>,
    subject: String,
    /// Positions of the rules that speak of it, in the order in which they are judged.
    pub(super) rules: Vec<usize>,
}

impl Tool {
    /// The tool's registered name.
    #[must_use]
    pub fn registered(&self) -> &str {
        &self.registered
    }

    /// What it does to the world (S5.9).
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether somebody said what it does, or that is only what is assumed of any tool.
    pub(crate) fn effect_is_known(&self) -> bool {
        self.effect_known
    }

    /// Whether calling it lowers a run to untrusted (S5.8).
    #[must_use]
    pub fn untrusted_output(&self) -> bool {
        self.untrusted_output
    }

    /// Whether what it returns is a secret (S5.9).
    #[must_use]
    pub fn sensitive_output(&self) -> bool {
        self.sensitive_output
    }

    /// Whether it acts on nothing and is never held (S3.4).
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.kind == ToolKind::Control
    }

    /// What its arguments are for, as far as that is known.
    pub fn roles(&self) -> impl Iterator<Item = (&Pointer, &RoleMark)> {
        self.roles.iter().map(|(place, mark)| (place, mark))
    }

    pub(crate) fn returns(&self) -> &BTreeMap<Pointer, String> {
        &self.returns
    }

    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// The mark that an argument stands under: the narrowest that covers it.
    pub(crate) fn mark(&self, path: &[Step<'_>]) -> Option<&(Pointer, RoleMark)> {
        self.roles
            .iter()
            .rev()
            .filter(|(place, _)| place.covers(path))
            .max_by_key(|(place, _)| place.depth())
    }

    /// Whether the bundle names an argument by a place that goes through this key.
    pub(crate) fn names_key(&self, path: &[Step<'_>]) -> bool {
        self.roles
            .iter()
            .any(|(place, _)| place.leads_through(path))
    }

    /// The kind of thing that an argument names.
    pub(crate) fn kind_of<'t>(&'t self, path: &[Step<'_>]) -> AskedKind<'t> {
        if let Some((_, mark)) = self.mark(path)
            && let Some(kind) = &mark.kind
        {
            return AskedKind::Known(Cow::Borrowed(kind));
        }
        let mut keys = path.iter().rev().filter_map(|step| match step {
            Step::Key(key) => Some(*key),
            Step::Index(_) => None,
        });
        match keys.next().map(kinds::named) {
            Some(Named::Id(kind)) => AskedKind::Known(Cow::Owned(kind)),
            // `{"file": {"id": …}}` names a file, `{"id": …}` what the tool is about.
            Some(Named::BareId) => match keys.next().map(kinds::named) {
                Some(Named::Id(kind) | Named::Other(kind)) => AskedKind::Known(Cow::Owned(kind)),
                Some(Named::BareId) | None => AskedKind::Known(Cow::Borrowed(&self.subject)),
            },
            Some(Named::Other(kind)) => AskedKind::Likely(kind),
            None => AskedKind::Likely(String::new()),
        }
    }
}

impl Rules {
    /// Resolves a tool: what it does, what its arguments are for, which rules speak of it.
    #[must_use]
    pub fn resolve(&self, view: &ToolView<'_>) -> Tool {
        let marks: Vec<&ToolMarks> = self
            .keys
            .all(view.registered, view.model_name)
            .into_iter()
            .map(|position| &self.marks[position])
            .collect();
        let trusted = view.kind == ToolKind::Mcp && self.trusts_server_of(view.registered);
        let builtin =
            Builtin::from_name(view.registered).filter(|_| view.kind == ToolKind::Builtin);
        let roles = roles(&marks, view.kind, builtin);
        let known = known_effect(view, builtin, trusted).map(|effect| {
            let sends = roles
                .iter()
                .any(|(_, mark)| mark.role == ArgRole::Destination);
            match effect {
                // A read that sends something to where the caller says.
                Effect::Read if sends && builtin.is_none() => Effect::Outward,
                effect => effect,
            }
        });
        let effect = marks.iter().find_map(|mark| mark.effect).or(known);
        let untrusted = marks.iter().find_map(|mark| mark.untrusted_output);
        Tool {
            registered: view.registered.into(),
            kind: view.kind,
            granted: view.granted,
            effect: effect.unwrap_or(Effect::Write),
            effect_known: effect.is_some(),
            untrusted_output: untrusted.unwrap_or_else(|| known_untrusted(view, builtin, trusted)),
            sensitive_output: marks
                .iter()
                .find_map(|mark| mark.sensitive_output)
                .unwrap_or(false),
            review: marks.iter().find_map(|mark| mark.review),
            roles,
            returns: returns(&marks),
            subject: kinds::subject(view.registered),
            rules: self.patterns.all(view.registered, view.model_name),
        }
    }

    fn trusts_server_of(&self, registered: &str) -> bool {
        registered
            .split_once('.')
            .is_some_and(|(server, _)| self.trusted_servers.contains(server))
    }
}

/// What a tool is known to do where the bundle does not say.
fn known_effect(view: &ToolView<'_>, builtin: Option<Builtin>, trusted: bool) -> Option<Effect> {
    match view.kind {
        ToolKind::Control => Some(Effect::Read),
        ToolKind::Agent => Some(Effect::Write),
        ToolKind::Builtin => builtin.map(Builtin::effect),
        ToolKind::Endpoint(Method::Read) => Some(Effect::Read),
        ToolKind::Endpoint(Method::Write) => Some(Effect::Write),
        ToolKind::Endpoint(Method::Delete) => Some(Effect::Destructive),
        ToolKind::Mcp if !trusted => None,
        ToolKind::Mcp => match (view.hints.read_only, view.hints.destructive) {
            (Some(true), _) => Some(Effect::Read),
            (_, Some(true)) => Some(Effect::Destructive),
            (Some(false), _) | (_, Some(false)) => Some(Effect::Write),
            (None, None) => None,
        },
    }
}

fn known_untrusted(view: &ToolView<'_>, builtin: Option<Builtin>, trusted: bool) -> bool {
    match view.kind {
        ToolKind::Control | ToolKind::Endpoint(_) | ToolKind::Agent => false,
        ToolKind::Builtin => builtin.is_none_or(Builtin::untrusted_output),
        // A hint that is not there means true, as in MCP (B40).
        ToolKind::Mcp => !(trusted && view.hints.open_world == Some(false)),
    }
}

/// The roles of a tool's arguments, each from the first of the marks that speaks of it.
fn roles(
    marks: &[&ToolMarks],
    kind: ToolKind,
    builtin: Option<Builtin>,
) -> Vec<(Pointer, RoleMark)> {
    let mut roles: Vec<(Pointer, RoleMark)> = Vec::new();
    let own = match (kind, builtin) {
        (ToolKind::Agent, _) => AGENT_ROLES,
        (_, Some(builtin)) => builtin.roles(),
        (_, None) => &[],
    };
    let own = own.iter().filter_map(|&(name, role)| {
        Some((Pointer::new(name).ok()?, RoleMark { role, kind: None }))
    });
    let marked = marks
        .iter()
        .flat_map(|mark| &mark.roles)
        .map(|(place, mark)| (place.clone(), mark.clone()));
    for (place, mark) in marked.chain(own) {
        if !roles.iter().any(|(known, _)| known.same(&place)) {
            roles.push((place, mark));
        }
    }
    roles
}

/// What `start_agent` is told (S3.6).
const AGENT_ROLES: &[(&str, ArgRole)] =
    &[("agent", ArgRole::Destination), ("input", ArgRole::Content)];

fn returns(marks: &[&ToolMarks]) -> BTreeMap<Pointer, String> {
    let mut returns: BTreeMap<Pointer, String> = BTreeMap::new();
    for (place, kind) in marks.iter().flat_map(|mark| &mark.returns) {
        if !returns.keys().any(|known| known.same(place)) {
            returns.insert(place.clone(), kind.clone());
        }
    }
    returns
}

/// What a tool of that name is, where its name alone tells.
#[must_use]
pub fn kind_by_name(registered: &str) -> ToolKind {
    if CONTROL_TOOLS.contains(&registered) {
        ToolKind::Control
    } else if Builtin::from_name(registered).is_some() {
        ToolKind::Builtin
    } else if registered == super::START_AGENT {
        ToolKind::Agent
    } else {
        ToolKind::Mcp
    }
}
