//! From the tree of values to a checked bundle.

use std::collections::{BTreeMap, BTreeSet};

use super::a2a::a2a;
use super::error::{BundleErrors, Report};
use super::fields::{At, quote};
use super::parse_permissions::permissions;
use super::parse_tools::tools;
use super::triggers::triggers;
use super::{Builtin, Bundle, DEFAULT_TIER, Server, SummaryBy, Transport, node, secrets, text};

const AGENT_NAME: &str = "a name of 1 to 63 characters of a-z, 0-9 and `-`";
const PART_NAME: &str = "a name of 1 to 63 letters, digits, `_` and `-`";
pub(super) fn bundle(text: &str) -> Result<Bundle, BundleErrors> {
    let tree = node::read(text)?;
    let mut report = Report::default();
    let bundle = whole(&mut report, &At::root(&tree));
    report
        .settle(bundle)
        .map(|bundle| bundle.expect("a bundle whose root is not a mapping was reported"))
}

fn whole(report: &mut Report, root: &At<'_>) -> Option<Bundle> {
    let mut fields = root.fields(report)?;
    let name = fields
        .require(report, "name")
        .and_then(|at| at.text_like(report, "bundle.bad_name", text::is_agent_name, AGENT_NAME));
    let description = fields
        .take("description")
        .and_then(|at| at.text(report).map(str::to_owned));
    let role = fields
        .take("role")
        .and_then(|at| at.text_like(report, "bundle.bad_name", text::is_agent_name, AGENT_NAME));
    let tier = fields
        .take("tier")
        .and_then(|at| at.text_like(report, "bundle.bad_name", text::is_part_name, PART_NAME));
    let instructions = fields
        .take("instructions")
        .and_then(|at| at.text(report).map(str::to_owned));
    let interaction = fields.take("interaction").and_then(|at| at.flag(report));
    let summary = fields
        .take("summary")
        .and_then(|at| at.word(report, &SummaryBy::ALL));
    let builtins = fields.take("builtins").and_then(|at| builtins(report, &at));
    let servers = fields.take("servers").and_then(|at| servers(report, &at));
    let agents = fields.take("agents").and_then(|at| agents(report, &at));
    let tools = fields.take("tools").and_then(|at| tools(report, &at));
    let permissions = fields
        .take("permissions")
        .and_then(|at| permissions(report, &at));
    let triggers = fields.take("triggers").and_then(|at| triggers(report, &at));
    let a2a = fields.take("a2a").and_then(|at| a2a(report, &at));
    fields.refuse(report, &["docs", "endpoints"]);
    fields.finish(report);
    Some(Bundle {
        name: name.unwrap_or_default(),
        description,
        role,
        tier: tier.unwrap_or_else(|| DEFAULT_TIER.to_owned()),
        instructions: instructions.unwrap_or_default(),
        interaction: interaction.unwrap_or(false),
        summary: summary.unwrap_or_default(),
        builtins: builtins.unwrap_or_default(),
        servers: servers.unwrap_or_default(),
        agents: agents.unwrap_or_default(),
        tools: tools.unwrap_or_default(),
        permissions,
        triggers: triggers.unwrap_or_default(),
        a2a,
    })
}

fn builtins(report: &mut Report, at: &At<'_>) -> Option<BTreeSet<Builtin>> {
    let words = Builtin::ALL.map(|builtin| (builtin.name(), builtin));
    let mut granted = BTreeSet::new();
    for item in at.list(report)? {
        let Some(builtin) = item.word(report, &words) else {
            continue;
        };
        match builtin {
            Builtin::CreateArtifact => {}
            Builtin::ReadDoc | Builtin::FetchUrl | Builtin::DraftReply | Builtin::SendEmail => {
                let message = format!(
                    "the built-in `{}` is not supported by this version: take it out",
                    builtin.name()
                );
                report.add("bundle.unsupported", &item.path, message);
            }
        }
        if !granted.insert(builtin) {
            report.add(
                "bundle.duplicate_key",
                &item.path,
                "the tool stands here twice",
            );
        }
    }
    Some(granted)
}

fn agents(report: &mut Report, at: &At<'_>) -> Option<BTreeSet<String>> {
    let mut agents = BTreeSet::new();
    for item in at.list(report)? {
        let agent = item.text_like(report, "bundle.bad_name", text::is_agent_name, AGENT_NAME);
        let Some(agent) = agent else { continue };
        if !agents.insert(agent) {
            let message = "the agent stands here twice";
            report.add("bundle.duplicate_key", &item.path, message);
        }
    }
    Some(agents)
}

fn servers(report: &mut Report, at: &At<'_>) -> Option<BTreeMap<String, Server>> {
    let mut servers = BTreeMap::new();
    for (name, item) in at.entries(report)? {
        if !text::is_part_name(name) {
            let message = format!("{} is not {PART_NAME}", quote(name));
            report.add("bundle.bad_name", &item.path, message);
        }
        if let Some(server) = server(report, &item) {
            servers.insert(name.to_owned(), server);
        }
    }
    Some(servers)
}

fn server(report: &mut Report, at: &At<'_>) -> Option<Server> {
    let mut fields = at.fields(report)?;
    let command = fields.take("command");
    let env = fields.take("env");
    let url = fields.take("url");
    let headers = fields.take("headers");
    let transport = match (command, url) {
        (Some(command), None) => {
            misplaced(report, headers, "`headers` belong to a server with a `url`");
            let command = command_line(report, &command);
            let env = env.and_then(|env| pairs(report, &env, env_name));
            command.map(|command| Transport::Stdio {
                command,
                env: env.unwrap_or_default(),
            })
        }
        (None, Some(url)) => {
            misplaced(report, env, "`env` belongs to a server with a `command`");
            let url = without_secret(report, &url).and_then(|()| link(report, &url));
            let headers = headers.and_then(|headers| pairs(report, &headers, header));
            url.map(|url| Transport::Http {
                url,
                headers: headers.unwrap_or_default(),
            })
        }
        (Some(_), Some(url)) => {
            misplaced(
                report,
                Some(url),
                "a server has a `command` or a `url`, not both",
            );
            None
        }
        (None, None) => {
            let message = "a server has a `command` (a process) or a `url` (streamable HTTP)";
            report.add("bundle.missing_field", &at.path, message);
            None
        }
    };
    let trust_annotations = fields
        .take("trustAnnotations")
        .and_then(|at| at.flag(report));
    let per_run = fields.take("perRun").and_then(|at| at.flag(report));
    fields.finish(report);
    Some(Server {
        transport: transport?,
        trust_annotations: trust_annotations.unwrap_or(false),
        per_run: per_run.unwrap_or(false),
    })
}

fn misplaced(report: &mut Report, field: Option<At<'_>>, message: &str) {
    if let Some(at) = field {
        report.add("bundle.unknown_field", &at.path, message);
    }
}

fn command_line(report: &mut Report, at: &At<'_>) -> Option<Vec<String>> {
    let items = at.list(report)?;
    let given = items.len();
    let words: Vec<String> = items
        .iter()
        .filter_map(|item| {
            without_secret(report, item)?;
            item.text(report).map(str::to_owned)
        })
        .collect();
    if given == 0 || words.first().is_some_and(String::is_empty) {
        report.add(
            "bundle.bad_text",
            &at.path,
            "a command begins with the program to run",
        );
    }
    (words.len() == given).then_some(words)
}

/// What is wrong with a key and its value: a code and a message.
type PairChecked = Result<(), (&'static str, &'static str)>;

/// A mapping of texts to texts; `check` says what is wrong with a pair.
fn pairs(
    report: &mut Report,
    at: &At<'_>,
    check: fn(&str, &str) -> PairChecked,
) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for (key, item) in at.entries(report)? {
        let Some(value) = item.text(report) else {
            continue;
        };
        match check(key, value).and_then(|()| secrets::well_formed(value)) {
            Ok(()) => {
                pairs.insert(key.to_owned(), value.to_owned());
            }
            Err((code, message)) => report.add(code, &item.path, message),
        }
    }
    Some(pairs)
}

fn env_name(name: &str, _: &str) -> PairChecked {
    if text::is_env_name(name) {
        return Ok(());
    }
    Err((
        "bundle.bad_name",
        "an environment variable has a name without `=`",
    ))
}

fn header(name: &str, value: &str) -> PairChecked {
    if !text::is_header_name(name) {
        return Err((
            "bundle.bad_header",
            "this is not the name of an HTTP header",
        ));
    }
    if !text::is_header_value(value) {
        let message = "a header's value is printable ASCII without blanks around it";
        return Err(("bundle.bad_header", message));
    }
    Ok(())
}

/// Refuses a reference to a stored secret where people see the text: in a command line, which every
/// process of the machine can read too, and in a URL, which an approval shows.
pub(super) fn without_secret(report: &mut Report, at: &At<'_>) -> Option<()> {
    if let node::Node::Text(text) = at.node
        && text.contains("${secret:")
    {
        let message = "a secret may stand in a server's `env` and `headers`; a command line and a \
                       URL are shown to people";
        report.add("bundle.bad_secret", &at.path, message);
        return None;
    }
    Some(())
}

pub(super) fn link(report: &mut Report, at: &At<'_>) -> Option<String> {
    at.parsed(report, "bundle.bad_url", |text| {
        text::url(text).map(|()| text.to_owned())
    })
}
