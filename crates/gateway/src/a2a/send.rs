//! A client's message: it starts a task, or goes on with one.

use sayso_driver::RunRow;
use sayso_rules::bundle::A2aInput;
use sayso_run::RunId;
use sayso_service::error::{Coded, Kind};
use sayso_wire::a2a::{self, BadPart, key_of, v1};
use sayso_wire::{code, internal};
use tonic::Status;
use uuid::Uuid;

use super::fault::{Fault, no_task};
use super::pushes::{self, Wanted};
use super::service::Call;
use super::stream;
use super::tasks::{self, Extent, context, history, visible};
use crate::api::on_behalf;
use crate::auth::access::Access;
use crate::refuse;
use crate::request::Check;

/// The longest id of a message, in bytes: it becomes part of an idempotency key.
const MAX_ID: usize = 160;

/// The longest id of a context, in bytes.
const MAX_CONTEXT: usize = 128;

/// The method that a start is, for the scope that it needs.
const START: &str = "/sayso.v1.RunService/StartRun";

/// Takes a message, and answers when the task waits for somebody or has ended, or at once if that is
/// asked for.
pub(super) async fn send(call: &Call, asked: v1::SendMessageRequest) -> Result<v1::Task, Status> {
    let configuration = asked.configuration.clone().unwrap_or_default();
    let row = accept(call, &asked).await?;
    let row = match configuration.return_immediately {
        true => row,
        false => stream::until_it_waits(call, row).await?,
    };
    let length = configuration.history_length;
    let extent = Extent {
        history: history(&mut Check::new(), "configuration.historyLength", length),
        ..Extent::WHOLE
    };
    tasks::shown(call, &row, extent).await
}

/// Takes a message: the run that it started or went to.
pub(super) async fn accept(call: &Call, asked: &v1::SendMessageRequest) -> Result<RunRow, Status> {
    let message = asked.message.as_ref();
    let configuration = asked.configuration.clone().unwrap_or_default();
    let push = configuration.task_push_notification_config;
    let mut check = Check::new();
    history(
        &mut check,
        "configuration.historyLength",
        configuration.history_length,
    );
    let Some(message) = message else {
        check.wrong("message", "is required");
        check.done()?;
        return Err(Fault::UnsupportedOperation.status("There is no message.", &[]));
    };
    check_message(&mut check, message);
    check.done()?;
    let push = match push {
        Some(config) => Some(Wanted::of(call, &config)?),
        None => None,
    };
    let text = text(call, message)?;
    let mut check = Check::new();
    check.text("message.parts", &text);
    check.done()?;
    let row = match message.task_id.as_str() {
        "" => start(call, message, text).await?,
        task => go_on(call, task, message, text).await?,
    };
    if let Some(push) = push {
        pushes::store(call, &row, push, pushes::Known::Nothing).await?;
    }
    Ok(row)
}

fn check_message(check: &mut Check, message: &v1::Message) {
    let id = &message.message_id;
    tasks::required(check, "message.messageId", id);
    if id.len() > MAX_ID || id.chars().any(char::is_control) {
        let problem = format!("must have at most {MAX_ID} bytes, and no control characters");
        check.wrong("message.messageId", problem);
    }
    let context = &message.context_id;
    if context.len() > MAX_CONTEXT || context.chars().any(char::is_control) {
        let problem = format!("must have at most {MAX_CONTEXT} bytes, and no control characters");
        check.wrong("message.contextId", problem);
    }
    if message.role() != v1::Role::User {
        check.wrong("message.role", "must be ROLE_USER");
    }
    if message.parts.is_empty() {
        check.wrong("message.parts", "needs at least one part");
    }
}

/// What the agent is told.
fn text(call: &Call, message: &v1::Message) -> Result<String, Status> {
    let text = match call.offered.block.input {
        A2aInput::Text => a2a::text_of(&message.parts),
        A2aInput::Message => a2a::whole(message),
    };
    text.map_err(|bad| match bad {
        BadPart::Empty(_) => {
            let coded = Coded::new(Kind::Invalid, code::REQUEST_INVALID, format!("{bad}."));
            coded.field("message.parts", bad.to_string()).into()
        }
        BadPart::Unsupported(..) => Fault::ContentTypeNotSupported.status(format!("{bad}."), &[]),
    })
}

/// The key of a message; empty where messages are not told apart by their ids.
fn key(call: &Call, message: &v1::Message) -> String {
    match call.offered.block.deduplicate {
        true => key_of(call.offered.agent.as_str(), &message.message_id),
        false => String::new(),
    }
}

async fn start(call: &Call, message: &v1::Message, text: String) -> Result<RunRow, Status> {
    let caller = call.session.caller();
    if let Some(access) = Access::of(START) {
        access.reach(caller.scopes)?;
    }
    let context_id = match message.context_id.as_str() {
        "" => format!("ctx_{}", Uuid::now_v7().simple()),
        given => given.to_owned(),
    };
    let start = internal::StartRunRequest {
        caller: Some(on_behalf(&call.session)?),
        agent: call.offered.agent.to_string(),
        revision_id: call.offered.revision.to_string(),
        input: text,
        source: sayso_wire::v1::StartSource::A2a.into(),
        idempotency_key: key(call, message),
        traceparent: call.traceparent.clone(),
        trigger: context_id,
    };
    let started = call.shared.scheduler().start_run(start).await;
    let started = started.map_err(|status| refused(&status, "scheduler", ""))?;
    let row = own(call, &started.into_inner().run_id).await?;
    if !message.context_id.is_empty() && message.context_id != context(&row) {
        return Err(other_context(&row));
    }
    Ok(row)
}

async fn go_on(
    call: &Call,
    task: &str,
    message: &v1::Message,
    text: String,
) -> Result<RunRow, Status> {
    let row = visible(call, task).await?;
    if !message.context_id.is_empty() && message.context_id != context(&row) {
        return Err(other_context(&row));
    }
    if row.status.is_terminal() {
        // Sent again, since the answer was lost.
        let known = tasks::shown(call, &row, Extent::WHOLE).await?.history;
        let is_known = |known: &v1::Message| {
            known.message_id == message.message_id && known.role() == v1::Role::User
        };
        return match call.offered.block.deduplicate && known.iter().any(is_known) {
            true => Ok(row),
            false => Err(ended(task)),
        };
    }
    let respond = internal::RespondRequest {
        caller: Some(on_behalf(&call.session)?),
        run_id: task.to_owned(),
        decisions: Vec::new(),
        message: Some(text),
        goes_on: true,
        seen_sequence: None,
        idempotency_key: key(call, message),
    };
    let answered = call.shared.hub().respond(respond).await;
    answered.map_err(|status| refused(&status, "approval hub", task))?;
    visible(call, task).await
}

/// A run that the caller has just started, or had before: read without asking whether it is theirs to
/// see, since it is.
async fn own(call: &Call, run: &str) -> Result<RunRow, Status> {
    let bad = |bad| Coded::internal("reading the scheduler's answer", &bad);
    let run = RunId::new(run).map_err(bad)?;
    let row = call
        .shared
        .store
        .runs()
        .get(&call.offered.namespace, &run)
        .await;
    let row = row.map_err(|error| refuse::database("reading a run", error))?;
    row.ok_or_else(|| no_task(run.as_str()))
}

fn refused(status: &Status, sibling: &'static str, task: &str) -> Status {
    let coded = refuse::sibling(sibling, status);
    match coded.code.as_ref() {
        code::RUN_ENDED => ended(task),
        code::RUN_NOT_FOUND => no_task(task),
        code::REQUEST_KEY_REUSED => Coded::new(
            Kind::Invalid,
            code::REQUEST_KEY_REUSED,
            "Another message had this id; give each message one of its own.",
        )
        .field("message.messageId", "was used before, for another message")
        .into(),
        _ => coded.into(),
    }
}

fn ended(task: &str) -> Status {
    let message = "The task has ended and takes no more messages; send one without `taskId` to start \
                   another in its context.";
    Fault::UnsupportedOperation.status(message, &[("taskId", task)])
}

fn other_context(row: &RunRow) -> Status {
    let sentence = "The task belongs to another context than the message names.";
    Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence)
        .field("message.contextId", "must be the context of the task")
        .with("taskId", row.run.as_str())
        .into()
}
