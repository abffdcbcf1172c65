//! What a notification says, once for programs and once for people: each kind of target takes its
//! form from it (S8.2).

use sayso_driver::RunRow;
use sayso_run::{Namespace, StepKind, advice};
use sayso_store::StoredStep;
use sayso_wire::shown::shown;
use serde::{Deserialize, Serialize};

/// The type of what `sayso target test` sends.
pub(crate) const TEST: &str = "target.test";

/// The longest text of a line for people, in bytes; the page has the rest.
const LINE_BYTES: usize = 600;

/// What is told.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its type, also as `X-Sayso-Event`.
    pub(crate) event: &'static str,
    /// For programs.
    pub(crate) json: Vec<u8>,
    /// In one line for people.
    pub(crate) headline: String,
    /// More for people: what it is, and the text, shown as far as it can be seen.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// The arguments of a call, shown likewise.
    pub(crate) arguments: Option<String>,
    /// What to do, and where.
    pub(crate) action: Option<(&'static str, String)>,
}

#[derive(Serialize)]
struct Failure<'a> {
    r#type: &'static str,
    run: FailedRun<'a>,
}

#[derive(Serialize)]
struct FailedRun<'a> {
    id: &'a str,
    task_id: &'a str,
    namespace: &'a str,
    agent: &'a str,
    requester: &'a str,
    task_input: String,
    status: &'static str,
    sequence: u64,
    code: &'a str,
    message: String,
    advice: &'static str,
    ended_at: String,
    link: String,
}

/// What tells of a run that has failed. `first` is its first step, if its redacted view differs from
/// the content.
///
/// # Errors
///
/// When that view cannot be read: what it masks is unknown then.
pub(crate) fn failure(
    event: &'static str,
    row: &RunRow,
    masked: &[StoredStep],
    public_url: &str,
) -> Result<Message, serde_json::Error> {
    #[derive(Deserialize)]
    struct Trigger {
        input: String,
    }
    let first = masked
        .iter()
        .find(|step| step.kind == StepKind::TriggerReceived.as_str());
    let first = first.map(|step| serde_json::from_str::<Trigger>(step.shown()));
    let input = first.transpose()?.map(|first| first.input);
    let code = row.error_code.as_deref().unwrap_or_default();
    let run = FailedRun {
        id: row.run.as_str(),
        task_id: row.task.as_str(),
        namespace: row.namespace.as_str(),
        agent: row.agent.as_str(),
        requester: row.principal.as_str(),
        task_input: shown(input.as_deref().unwrap_or(&row.input)),
        status: row.status.as_str(),
        sequence: row.seq,
        code,
        message: shown(row.error_message.as_deref().unwrap_or_default()),
        advice: advice(code),
        ended_at: row.ended_at.unwrap_or(row.updated_at).to_string(),
        link: link(public_url, "runs", row.run.as_str()),
    };
    Ok(Message {
        event,
        headline: format!("{}: a run failed", run.agent),
        lines: vec![
            ("Error", format!("{} ({code})", run.message)),
            ("What to do", run.advice.to_owned()),
            ("Asked for by", run.requester.to_owned()),
            ("Task", run.task_input.clone()),
            ("Run", run.id.to_owned()),
        ],
        arguments: None,
        action: Some(("Look at the run", run.link.clone())),
        json: json(&Failure { r#type: event, run }),
    })
}

#[derive(Serialize)]
struct Test<'a> {
    r#type: &'static str,
    target: TestedTarget<'a>,
}

#[derive(Serialize)]
struct TestedTarget<'a> {
    name: &'a str,
    namespace: &'a str,
}

/// What `sayso target test` sends.
pub(crate) fn test(namespace: &Namespace, name: &str) -> Message {
    Message {
        event: TEST,
        json: json(&Test {
            r#type: TEST,
            target: TestedTarget {
                name,
                namespace: namespace.as_str(),
            },
        }),
        headline: format!("This is a test of the target {name}"),
        lines: vec![("Namespace", namespace.to_string())],
        arguments: None,
        action: None,
    }
}

impl Message {
    /// The lines for people, cut to what is read at a glance.
    pub(crate) fn short_lines(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let lines = self.lines.iter().filter(|(_, text)| !text.is_empty());
        lines.map(|(what, text)| (*what, cut(text, LINE_BYTES)))
    }
}

/// A text of at most about so many bytes, which says how much is missing.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    match text.len() - end {
        0 => text.to_owned(),
        missing => format!("{}⟨{missing} bytes more⟩", &text[..end]),
    }
}

/// Where people look at something.
pub(crate) fn link(public_url: &str, page: &str, id: &str) -> String {
    format!("{}/{page}/{id}", public_url.trim_end_matches('/'))
}

pub(crate) fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts and numbers become JSON")
}
