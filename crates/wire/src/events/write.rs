//! Attributes and bodies, written straight into what is sent.

use std::io::Write;

use sayso_run::{Digest, RunId, Status, StepKind};

use super::{ApprovalChange, Event, MAX_BODY, Origin};
use crate::step::StepView;

/// Bytes of a body beside its content, about.
const FRAME: usize = 640;

const INFALLIBLE: &str = "writing to memory does not fail";

pub(super) struct Attributes<'a> {
    pub(super) subject: String,
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) origin: &'a Origin<'a>,
    pub(super) view: &'a StepView<'a>,
}

pub(super) fn id(run: &RunId, seq: u64) -> String {
    format!("{run}:{seq}")
}

pub(super) fn step_type(kind: StepKind) -> String {
    format!("sayso.step.{kind}.v{}", kind.version())
}

pub(super) const fn approval_type(change: ApprovalChange) -> &'static str {
    match change {
        ApprovalChange::Requested => "sayso.approval.requested.v1",
        ApprovalChange::Decided => "sayso.approval.decided.v1",
        ApprovalChange::Closed => "sayso.approval.closed.v1",
        ApprovalChange::Escalated => "sayso.approval.escalated.v1",
        ApprovalChange::Updated => "sayso.approval.updated.v1",
    }
}

/// An event with its attributes and no body yet.
pub(super) fn event(attributes: Attributes<'_>) -> Event {
    let Attributes {
        subject,
        id,
        kind,
        origin,
        view,
    } = attributes;
    let source = format!("/namespaces/{}/agents/{}", origin.namespace, origin.agent);
    // One place is left for what a caller or `body` adds.
    let mut headers = Vec::with_capacity(10);
    headers.extend([
        ("ce-specversion".to_owned(), "1.0".to_owned()),
        ("ce-id".to_owned(), id.clone()),
        ("ce-source".to_owned(), source),
        ("ce-type".to_owned(), kind),
        ("ce-subject".to_owned(), origin.run.to_string()),
        ("ce-time".to_owned(), view.at.to_string()),
        ("ce-sequence".to_owned(), format!("{:020}", view.seq)),
        ("content-type".to_owned(), "application/json".to_owned()),
    ]);
    Event {
        subject,
        id,
        headers,
        body: Vec::new(),
    }
}

/// Adds the body, or the reference that stands for it.
pub(super) fn body(event: &mut Event, run: &RunId, view: &StepView<'_>, status: Status) {
    if view.content.len() <= MAX_BODY {
        let mut out = Vec::with_capacity(FRAME + view.content.len());
        write(&mut out, run, view, status);
        if out.len() <= MAX_BODY {
            event.body = out;
            return;
        }
    }
    let seq = view.seq;
    event.headers.push((
        "ce-dataref".to_owned(),
        format!("/v1/runs/{run}/steps?from_sequence={seq}&page_size=1"),
    ));
}

fn write(out: &mut Vec<u8>, run: &RunId, view: &StepView<'_>, status: Status) {
    // Ids, actors, step types and statuses are of characters that JSON takes as they are.
    write!(
        out,
        r#"{{"run":"{run}","status":"{}","seq":{},"at":"{}","actor":"{}","type":"{}","version":{},"content":"#,
        status.as_str(),
        view.seq,
        view.at,
        view.actor,
        view.kind,
        view.version,
    )
    .expect(INFALLIBLE);
    out.extend_from_slice(view.content.as_bytes());
    out.extend_from_slice(br#","content_sha256":""#);
    hex(out, view.content_sha256);
    out.extend_from_slice(br#"","hash":""#);
    hex(out, view.hash);
    out.push(b'"');
    if let Some(seal) = view.seal {
        out.extend_from_slice(br#","seal":{"key":"#);
        string(out, &seal.key);
        out.extend_from_slice(br#","mac":""#);
        hex(out, &seal.mac);
        out.extend_from_slice(br#""}"#);
    }
    out.push(b'}');
}

/// A text as a JSON string.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect(INFALLIBLE);
}

fn hex(out: &mut Vec<u8>, digest: &Digest) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in digest.as_bytes() {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}
