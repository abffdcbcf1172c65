//! Whole runs judged offline: `policy judge`, and what `policy test` and `replay` rest on (S5.12).
//!
//! A trace says what a run's principal wrote and which calls were made, with their results and what
//! a person would say if asked. Each call is judged as the run stands when it is made. A call that
//! is denied, or asked for and not approved, does not happen: its result is not read and it lowers
//! no trust. Where a line does not say otherwise a person approves, since the trace is of what
//! happened.
//!
//! The tools listed are granted, beside the bundle's built-ins; a call of any other tool is denied.
//! Where no line lists any, whatever is called is granted, by either form of its name, and its
//! server said nothing of it. The role is `unrestricted`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::bundle::{Action, Bundle};
use crate::judge::{
    CONTROL_TOOLS, CallView, Hints, Method, RuleId, Rules, RunView, Standing, Tool, ToolKind,
    ToolView, kind_by_name,
};
use crate::names::{ToolNames, plain_form};
use crate::provenance::Index;
use crate::trust::Trust;

/// One run to judge.
#[derive(Debug, Clone, Deserialize)]
pub struct Trace {
    /// Its name, given back with the answer.
    pub id: String,
    /// The principal's own words.
    pub prompt: String,
    /// The trust that the run begins with.
    #[serde(default)]
    pub trust: Trust,
    /// The principal's own addresses.
    #[serde(default, rename = "self")]
    pub own_addresses: Vec<String>,
    /// The calls in order.
    pub calls: Vec<TracedCall>,
    /// The tools that are granted; without them those of the first line. Traces that share them are
    /// judged faster.
    #[serde(default, deserialize_with = "shared")]
    pub tools: Option<Arc<[TracedTool]>>,
}

/// One call of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedCall {
    /// The tool, by its registered name or the model's.
    pub tool: String,
    /// The exact arguments; without them there are none.
    #[serde(default)]
    pub args: Option<Box<RawValue>>,
    /// What it returned: JSON, or a text that holds it.
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
    /// Whether a person who is asked approves.
    #[serde(default = "yes")]
    pub approve: bool,
}

/// One tool of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct TracedTool {
    /// Its registered name.
    pub name: String,
    /// What its server says of it.
    #[serde(default)]
    pub annotations: Option<Annotations>,
    /// The HTTP method of an endpoint tool; without one it is an MCP server's.
    #[serde(default)]
    pub method: Option<String>,
}

/// An MCP server's hints on a tool.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Only reads.
    #[serde(default)]
    pub read_only_hint: Option<bool>,
    /// May destroy.
    #[serde(default)]
    pub destructive_hint: Option<bool>,
    /// Touches the world outside.
    #[serde(default)]
    pub open_world_hint: Option<bool>,
}

/// The verdicts on one run's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The trace's name.
    pub id: String,
    /// One verdict a call, in order.
    pub verdicts: Vec<TracedVerdict>,
}

/// The verdict on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TracedVerdict {
    /// What happens.
    pub action: Action,
    /// The run's trust when the call was judged.
    pub trust: Trust,
    /// What decided.
    pub rule: RuleId,
    /// The same in one sentence.
    pub reason: String,
}

/// A line that is no trace.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is not a trace")]
pub struct BadTrace {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub source: serde_json::Error,
}

fn yes() -> bool {
    true
}

fn shared<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Arc<[TracedTool]>>, D::Error> {
    let tools: Option<Vec<TracedTool>> = Option::deserialize(reader)?;
    Ok(tools.map(Arc::from))
}

/// Reads traces, one a line; empty lines are passed over. Tools on the first line are given to
/// every line that has none.
///
/// # Errors
///
/// [`BadTrace`] names the first line that is none.
pub fn read(lines: &str) -> Result<Vec<Trace>, BadTrace> {
    let mut traces: Vec<Trace> = Vec::new();
    for (line, text) in (1..).zip(lines.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let mut trace: Trace =
            serde_json::from_str(text).map_err(|source| BadTrace { line, source })?;
        if trace.tools.is_none() {
            trace.tools = traces.first().and_then(|first| first.tools.clone());
        }
        traces.push(trace);
    }
    Ok(traces)
}

/// Judges runs under a bundle.
#[must_use]
pub fn judge(bundle: &Bundle, traces: &[Trace]) -> Vec<Answer> {
    let rules = Rules::compile(bundle);
    let mut answers = Vec::with_capacity(traces.len());
    let mut known: Option<(&Trace, Granted)> = None;
    for trace in traces {
        let tools = match known.take() {
            Some((other, tools)) if have_the_same_tools(other, trace) => tools,
            Some(_) | None => Granted::of(bundle, &rules, trace),
        };
        answers.push(answer(bundle, &rules, &tools, trace));
        known = Some((trace, tools));
    }
    answers
}

/// Whether two traces have the very same list of tools, or both none.
fn have_the_same_tools(one: &Trace, other: &Trace) -> bool {
    match (&one.tools, &other.tools) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn answer(bundle: &Bundle, rules: &Rules, tools: &Granted, trace: &Trace) -> Answer {
    let mut standing = Standing::new(trace.trust);
    let mut index = Index::new(&trace.own_addresses);
    index.words(&trace.prompt);
    let verdicts = (0..)
        .zip(&trace.calls)
        .map(|(at, call): (usize, _)| {
            let unlisted;
            let tool = match tools.find(&call.tool) {
                Some(tool) => tool,
                None => {
                    let registered = registered_name(bundle, &call.tool);
                    unlisted = rules.resolve(&ToolView {
                        registered: &registered,
                        model_name: &plain_form(&registered),
                        kind: kind_by_name(&registered),
                        granted: trace.tools.is_none(),
                        hints: Hints::default(),
                    });
                    &unlisted
                }
            };
            let id = at.to_string();
            let view = CallView {
                id: &id,
                tool,
                args: call.args.as_ref().map_or("{}", |args| args.get()),
            };
            let trust = standing.trust();
            let verdict = rules.judge(
                &view,
                &RunView {
                    standing: &standing,
                    index: &index,
                },
            );
            let verdict = TracedVerdict {
                action: verdict.action,
                trust,
                rule: verdict.rule,
                reason: verdict.reason.into_owned(),
            };
            let happens = match verdict.action {
                Action::Allow => true,
                Action::Ask => call.approve,
                Action::Deny => false,
            };
            if happens {
                standing.starts(&view);
                if let Some(result) = &call.result {
                    index.result(&view, trust, result.get());
                }
            }
            verdict
        })
        .collect();
    Answer {
        id: trace.id.clone(),
        verdicts,
    }
}

/// The registered name of a tool that no line lists. The model's form of a name does not say where
/// the server's ends: the bundle's servers and the names that it writes out do, or else the first
/// underscore. So a rule reaches a call in whichever form it names its tool.
fn registered_name<'n>(bundle: &Bundle, name: &'n str) -> Cow<'n, str> {
    if name.contains('.') || kind_by_name(name) != ToolKind::Mcp {
        return name.into();
    }
    let of_server = |server: &String| {
        let rest = name.strip_prefix(&plain_form(server))?.strip_prefix('_')?;
        Some(format!("{server}.{rest}"))
    };
    let mut servers: Vec<&String> = bundle.servers.keys().collect();
    servers.sort_by_key(|server| std::cmp::Reverse(server.len()));
    if let Some(found) = servers.into_iter().find_map(of_server) {
        return found.into();
    }
    let rules = bundle.permissions.iter().flat_map(|p| &p.rules);
    let mut written = bundle
        .tools
        .iter()
        .map(|(glob, _)| glob)
        .chain(rules.map(|rule| &rule.tool))
        .filter(|glob| glob.is_exact() && plain_form(glob.as_str()) == name);
    match written
        .clone()
        .find(|glob| glob.as_str().contains('.'))
        .or_else(|| written.next())
    {
        Some(glob) => glob.as_str().to_owned().into(),
        None => name.replacen('_', ".", 1).into(),
    }
}

/// The tools of a run, by either name.
struct Granted {
    names: ToolNames,
    tools: BTreeMap<String, Tool>,
}

impl Granted {
    fn of(bundle: &Bundle, rules: &Rules, trace: &Trace) -> Self {
        let own = bundle.builtins.iter().map(|builtin| builtin.name());
        let asks = bundle.interaction.then_some(CONTROL_TOOLS[0]);
        let listed = trace.tools.as_deref().unwrap_or_default();
        let mut found: BTreeMap<&str, (ToolKind, Hints)> = own
            .chain(asks)
            .map(|name| (name, (kind_by_name(name), Hints::default())))
            .collect();
        for tool in listed {
            let said = tool.annotations.unwrap_or_default();
            let kind = match &tool.method {
                Some(method) => ToolKind::Endpoint(Method::from_name(method)),
                None => kind_by_name(&tool.name),
            };
            let hints = Hints {
                read_only: said.read_only_hint,
                destructive: said.destructive_hint,
                open_world: said.open_world_hint,
            };
            found.insert(&tool.name, (kind, hints));
        }
        let names = ToolNames::assign(found.keys().copied());
        let tools = found
            .iter()
            .map(|(name, (kind, hints))| {
                let view = ToolView {
                    registered: name,
                    model_name: names.model_name(name).unwrap_or(name),
                    kind: *kind,
                    granted: true,
                    hints: *hints,
                };
                ((*name).to_owned(), rules.resolve(&view))
            })
            .collect();
        Self { names, tools }
    }

    fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name).or_else(|| {
            let registered = self.names.registered(name)?;
            self.tools.get(registered)
        })
    }
}
