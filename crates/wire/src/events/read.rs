//! Events as those who serve watchers read them.

use std::borrow::Cow;

use sayso_run::{ApprovalId, RunId, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::ApprovalChange;
use crate::step::wrong;
use crate::v1;

/// A message that is not one of our events. The reader catches up from the database.
#[derive(Debug, Error)]
pub enum BadEvent {
    /// An attribute is missing or malformed.
    #[error("the event's attribute `{0}` is missing or malformed")]
    Attribute(&'static str),
    /// The body is not what it should be.
    #[error("the event's body cannot be read")]
    Body(#[source] serde_json::Error),
    /// A field of the body is malformed.
    #[error("the event's field `{0}` is malformed")]
    Field(&'static str),
}

/// A step that was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct StepNews {
    /// The run.
    pub run: RunId,
    /// The step's sequence number.
    pub seq: u64,
    /// What the event tells of it; none if it was too large for an event and has to be read from
    /// the database.
    pub told: Option<Told>,
}

/// A step as an event tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The step.
    pub step: v1::RunStep,
    /// Where the run stands after the append that brought it.
    pub status: Status,
}

/// A change of an approval. What it is like now is read from the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalNews {
    /// The run.
    pub run: RunId,
    /// Sequence number of the step that changed it.
    pub seq: u64,
    /// The approval.
    pub approval: ApprovalId,
    /// What happened to it.
    pub change: ApprovalChange,
}

#[derive(Deserialize)]
struct Body<'a> {
    status: &'a str,
    at: &'a str,
    #[serde(borrow)]
    actor: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    version: u32,
    #[serde(borrow)]
    content: &'a RawValue,
    content_sha256: String,
    hash: String,
    seal: Option<SealBody>,
}

#[derive(Deserialize)]
struct SealBody {
    key: String,
    mac: String,
}

/// Reads a step's event.
///
/// # Errors
///
/// When it is not one.
pub fn read_step(headers: &[(String, String)], body: &[u8]) -> Result<StepNews, BadEvent> {
    let kind = attribute(headers, "ce-type")?;
    if !kind.starts_with("sayso.step.") {
        return Err(BadEvent::Attribute("ce-type"));
    }
    let (run, seq) = place(headers)?;
    let told = if body.is_empty() {
        attribute(headers, "ce-dataref")?;
        None
    } else {
        Some(told(seq, body)?)
    };
    Ok(StepNews { run, seq, told })
}

/// Reads the event of an approval's change.
///
/// # Errors
///
/// When it is not one.
pub fn read_approval(headers: &[(String, String)]) -> Result<ApprovalNews, BadEvent> {
    let kind = attribute(headers, "ce-type")?;
    let change = ApprovalChange::ALL
        .into_iter()
        .find(|change| super::write::approval_type(*change) == kind)
        .ok_or(BadEvent::Attribute("ce-type"))?;
    let (run, seq) = place(headers)?;
    let approval = ApprovalId::new(attribute(headers, "ce-approval")?)
        .map_err(|_| BadEvent::Attribute("ce-approval"))?;
    Ok(ApprovalNews {
        run,
        seq,
        approval,
        change,
    })
}

/// Any event as the API shows it.
///
/// # Errors
///
/// If an attribute is missing or malformed, or the body is no text.
pub fn read_any(headers: &[(String, String)], body: &[u8]) -> Result<v1::Event, BadEvent> {
    let (run, sequence) = place(headers)?;
    let text = |name| attribute(headers, name).map(str::to_owned);
    let time = attribute(headers, "ce-time")?;
    let time = time.parse::<prost_types::Timestamp>();
    Ok(v1::Event {
        id: text("ce-id")?,
        r#type: text("ce-type")?,
        source: text("ce-source")?,
        subject: run.into(),
        time: Some(time.map_err(|_| BadEvent::Attribute("ce-time"))?),
        sequence,
        approval_id: text("ce-approval").unwrap_or_default(),
        data_json: std::str::from_utf8(body)
            .map_err(|_| BadEvent::Field("data"))?
            .to_owned(),
        data_ref: text("ce-dataref").unwrap_or_default(),
    })
}

fn told(seq: u64, body: &[u8]) -> Result<Told, BadEvent> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(BadEvent::Body)?;
    let status = Status::parse(body.status).ok_or(BadEvent::Field("status"))?;
    let at = body.at.parse().map_err(|_| BadEvent::Field("at"))?;
    let (code, advice) = wrong(&body.kind, body.content.get());
    let step = v1::RunStep {
        code,
        advice,
        sequence: seq,
        at: Some(at),
        actor: body.actor.into_owned(),
        r#type: body.kind.into_owned(),
        version: body.version,
        content_json: body.content.get().to_owned(),
        content_sha256: body.content_sha256,
        hash: body.hash,
        seal: body.seal.map(|seal| v1::Seal {
            key_id: seal.key,
            mac: seal.mac,
        }),
    };
    Ok(Told { step, status })
}

fn place(headers: &[(String, String)]) -> Result<(RunId, u64), BadEvent> {
    let run = RunId::new(attribute(headers, "ce-subject")?)
        .map_err(|_| BadEvent::Attribute("ce-subject"))?;
    let seq = attribute(headers, "ce-sequence")?
        .parse()
        .map_err(|_| BadEvent::Attribute("ce-sequence"))?;
    Ok((run, seq))
}

fn attribute<'a>(headers: &'a [(String, String)], name: &'static str) -> Result<&'a str, BadEvent> {
    headers
        .iter()
        .find(|(given, _)| given.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .ok_or(BadEvent::Attribute(name))
}
