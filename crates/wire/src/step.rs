//! A step as readers see it (S2.3): its place in the chain, and the content with secrets masked.

use std::borrow::Cow;

use sayso_run::{
    Actor, Digest, FailureCode, Recorded, Seal, Step, StepKind, StoredLink, Timestamp, ToolOutcome,
    advice,
};
use serde::Deserialize;

use crate::time::timestamp;
use crate::v1;

/// The outcome of a call that the role does not permit, as it is stored.
const PERMISSION_DENIED: &str = "\"permission_denied\"";

/// A recorded step, borrowed from wherever it is kept; it need not be understood.
#[derive(Debug, Clone, Copy)]
pub struct StepView<'a> {
    /// 1, 2, 3, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: &'a Actor,
    /// The type.
    pub kind: &'a str,
    /// Version of the type.
    pub version: u16,
    /// The content for readers: one JSON object, secrets masked.
    pub content: &'a str,
    /// SHA-256 of the content as recorded.
    pub content_sha256: &'a Digest,
    /// The chain's hash.
    pub hash: &'a Digest,
    /// The seal, at steps that have one.
    pub seal: Option<&'a Seal>,
}

impl<'a> StepView<'a> {
    /// A step just recorded, with its content for readers.
    pub fn recorded(recorded: &'a Recorded<Step>, content: &'a str) -> Self {
        let kind = recorded.step.kind();
        Self {
            seq: recorded.seq,
            at: recorded.at,
            actor: &recorded.actor,
            kind: kind.as_str(),
            version: kind.version(),
            content,
            content_sha256: &recorded.content_sha256,
            hash: &recorded.hash,
            seal: recorded.seal.as_ref(),
        }
    }

    /// A step as stored, with its content for readers; its type may be unknown to this version.
    pub fn stored(link: &'a StoredLink, content: &'a str) -> Self {
        Self {
            seq: link.seq,
            at: link.at,
            actor: &link.actor,
            kind: &link.kind,
            version: link.version,
            content,
            content_sha256: &link.content_sha256,
            hash: &link.hash,
            seal: link.seal.as_ref(),
        }
    }
}

impl From<StepView<'_>> for v1::RunStep {
    fn from(view: StepView<'_>) -> Self {
        let (code, advice) = wrong(view.kind, view.content);
        Self {
            sequence: view.seq,
            at: Some(timestamp(view.at)),
            actor: view.actor.to_string(),
            r#type: view.kind.to_owned(),
            version: u32::from(view.version),
            content_json: view.content.to_owned(),
            content_sha256: view.content_sha256.to_hex(),
            hash: view.hash.to_hex(),
            seal: view.seal.map(v1::Seal::from),
            code,
            advice,
        }
    }
}

/// What a step that tells of something wrong is read for.
#[derive(Deserialize)]
struct Wrong<'a> {
    #[serde(borrow)]
    code: Option<Cow<'a, str>>,
    outcome: Option<ToolOutcome>,
}

/// Code and advice of a step that tells of something wrong; empty of any other (S2.6).
pub(crate) fn wrong(kind: &str, content: &str) -> (String, String) {
    match code_of(kind, content) {
        Some(code) => {
            let advice = advice(&code).to_owned();
            (code, advice)
        }
        None => (String::new(), String::new()),
    }
}

/// The stable code of what went wrong, of a step that tells of it.
fn code_of(kind: &str, content: &str) -> Option<String> {
    let is = |known: StepKind| known.as_str() == kind;
    let result = is(StepKind::ToolResult) && content.contains(PERMISSION_DENIED);
    if !result && !is(StepKind::Failed) && !is(StepKind::RetryScheduled) {
        return None;
    }
    let wrong: Wrong<'_> = serde_json::from_str(content).ok()?;
    if result {
        let denied = wrong.outcome == Some(ToolOutcome::PermissionDenied);
        return denied.then(|| FailureCode::PERMISSION_DENIED.to_owned());
    }
    wrong.code.map(Cow::into_owned)
}

impl From<&Seal> for v1::Seal {
    fn from(seal: &Seal) -> Self {
        Self {
            key_id: seal.key.clone(),
            mac: seal.mac.to_hex(),
        }
    }
}

impl From<sayso_run::Head> for v1::VerifiedHead {
    fn from(head: sayso_run::Head) -> Self {
        Self {
            sequence: head.seq,
            hash: head.hash.to_hex(),
            at: (head.seq > 0).then(|| timestamp(head.at)),
        }
    }
}

impl From<sayso_run::Broken> for v1::BrokenLink {
    fn from(broken: sayso_run::Broken) -> Self {
        Self {
            sequence: broken.seq,
            reason: broken.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use sayso_run::{ChainKey, Failed, FailureCode, Head, RunId};

    use super::*;

    /// S2.3: what a reader gets is enough to check the chain.
    #[test]
    fn a_step_keeps_its_place_in_the_chain() {
        let run = RunId::new("run_1").unwrap();
        let step = Step::Failed(Failed {
            code: FailureCode::new(FailureCode::INTERRUPTED),
            message: "lost".into(),
            unknown: Vec::new(),
        });
        let at = Timestamp::from_micros(1_500_000);
        let key = ChainKey::new("k1", [7; 32]);
        let (recorded, content) =
            Recorded::chain(&Head::START, &run, at, Actor::System, step, &key);
        let sent = v1::RunStep::from(StepView::recorded(&recorded, &content));
        assert_eq!(sent.sequence, 1);
        assert_eq!(sent.at, Some(timestamp(at)));
        assert_eq!(sent.actor, "system");
        assert_eq!((sent.r#type.as_str(), sent.version), ("error", 1));
        assert_eq!(sent.content_json, content);
        assert_eq!(sent.content_sha256, Digest::of(content.as_bytes()).to_hex());
        assert_eq!(sent.hash, recorded.hash.to_hex());
        let seal = sent.seal.unwrap();
        assert_eq!(seal.key_id, "k1");
        assert_eq!(seal.mac, recorded.seal.unwrap().mac.to_hex());
    }
}
