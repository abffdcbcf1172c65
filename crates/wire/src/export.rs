//! Exported timelines: one line of JSON a step (S2.2, S2.3).
//!
//! | key | |
//! |---|---|
//! | `run` | the run, under whose id the seals were made; the same on every line |
//! | `seq`, `at`, `actor`, `type`, `version` | as recorded; the time as RFC 3339 with microseconds |
//! | `content` | the exact bytes that were hashed; left out where it is redacted |
//! | `content_sha256`, `hash` | hex |
//! | `hmac` | the seal, as `KEY:HEX`, where the step has one |
//!
//! The chain is over `content_sha256`, so an export without contents verifies as well.

use std::str::FromStr;

use sayso_run::{Digest, RunId, Seal, StoredLink};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::time::{from_timestamp, timestamp};
use crate::v1;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    run: String,
    seq: u64,
    at: String,
    actor: String,
    r#type: String,
    version: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
    content_sha256: String,
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hmac: Option<String>,
}

/// A step that cannot be exported: it is not as the API promises.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("step {sequence} has no {what}")]
pub struct Incomplete {
    /// The step.
    pub sequence: u64,
    /// What it lacks.
    pub what: &'static str,
}

/// A line that is no exported step.
#[derive(Debug, Error)]
pub enum BadLine {
    /// It is not the JSON object that a line is.
    #[error("it is not an exported step: {0}")]
    Form(#[source] serde_json::Error),
    /// A value does not have the form of its kind.
    #[error("`{key}` is malformed")]
    Value {
        /// The key.
        key: &'static str,
    },
}

/// The line of a step. The content is left out if `redacted` says so, and where readers are shown
/// another one than was hashed, since secrets are masked in it.
///
/// # Errors
///
/// [`Incomplete`] if the step is not as the API promises.
pub fn line(run: &str, step: &v1::RunStep, redacted: bool) -> Result<String, Incomplete> {
    let incomplete = |what| Incomplete {
        sequence: step.sequence,
        what,
    };
    let is_whole = Digest::of(step.content_json.as_bytes()).to_hex() == step.content_sha256;
    let content = if is_whole && !redacted {
        let content = RawValue::from_string(step.content_json.clone());
        Some(content.map_err(|_| incomplete("content that is JSON"))?)
    } else {
        None
    };
    let at = step.at.as_ref().map(from_timestamp);
    let at = at.and_then(Result::ok).ok_or_else(|| incomplete("time"))?;
    let line = Line {
        run: run.to_owned(),
        seq: step.sequence,
        at: at.to_string(),
        actor: step.actor.clone(),
        r#type: step.r#type.clone(),
        version: u16::try_from(step.version).map_err(|_| incomplete("version"))?,
        content,
        content_sha256: step.content_sha256.clone(),
        hash: step.hash.clone(),
        hmac: step
            .seal
            .as_ref()
            .map(|seal| format!("{}:{}", seal.key_id, seal.mac)),
    };
    Ok(serde_json::to_string(&line).expect("texts, numbers and one raw value have a JSON form"))
}

/// Reads a line: the run, and the step.
///
/// # Errors
///
/// [`BadLine`].
pub fn read(text: &str) -> Result<(RunId, StoredLink), BadLine> {
    let line: Line = serde_json::from_str(text).map_err(BadLine::Form)?;
    let run = parsed("run", &line.run)?;
    let seal = match &line.hmac {
        None => None,
        Some(hmac) => {
            let (key, mac) = hmac
                .rsplit_once(':')
                .ok_or(BadLine::Value { key: "hmac" })?;
            Some(Seal {
                key: key.to_owned(),
                mac: parsed("hmac", mac)?,
            })
        }
    };
    let at: prost_types::Timestamp = parsed("at", &line.at)?;
    let at = from_timestamp(&at).map_err(|_| BadLine::Value { key: "at" })?;
    if timestamp(at) != parsed("at", &line.at)? {
        return Err(BadLine::Value { key: "at" });
    }
    let link = StoredLink {
        seq: line.seq,
        at,
        actor: parsed("actor", &line.actor)?,
        kind: line.r#type,
        version: line.version,
        content: line.content.map(|content| content.get().to_owned()),
        content_sha256: parsed("content_sha256", &line.content_sha256)?,
        hash: parsed("hash", &line.hash)?,
        seal,
    };
    Ok((run, link))
}

fn parsed<T: FromStr>(key: &'static str, text: &str) -> Result<T, BadLine> {
    text.parse().map_err(|_| BadLine::Value { key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_run::{
        Actor, ChainKey, Head, Recorded, Retried, Step, Timestamp, verify, verify_links,
    };

    fn steps() -> Vec<v1::RunStep> {
        let run = RunId::new("run_1").unwrap();
        let key = ChainKey::new("k:1", [7; 32]);
        let mut head = Head::START;
        let kinds = [
            Step::Retried(Retried { attempt: 1 }),
            Step::Cancelled(sayso_run::Cancelled {
                reason: Some("a \u{e9} \" \\ \n b".into()),
                idempotency: None,
            }),
        ];
        let steps = kinds.into_iter().enumerate().map(|(at, step)| {
            let at = Timestamp::from_micros(1_700_000_000_000_001 + at as i64);
            let (recorded, content) = Recorded::chain(&head, &run, at, Actor::System, step, &key);
            head = recorded.head();
            crate::step::StepView::recorded(&recorded, &content).into()
        });
        steps.collect()
    }

    fn links(redacted: bool) -> Vec<StoredLink> {
        let steps = steps();
        let lines = steps
            .iter()
            .map(|step| line("run_1", step, redacted).unwrap());
        let links = lines.map(|line| {
            assert!(!line.contains('\n'), "{line}");
            let (run, link) = read(&line).unwrap();
            assert_eq!(run.as_str(), "run_1");
            link
        });
        links.collect()
    }

    /// S2.3: an export verifies, with and without its contents.
    #[test]
    fn s2_3_an_export_verifies_with_and_without_contents() {
        let run = RunId::new("run_1").unwrap();
        let keys = [ChainKey::new("k:1", [7; 32])].into_iter().collect();
        for redacted in [false, true] {
            let links = links(redacted);
            assert_eq!(links[1].content.is_none(), redacted);
            assert_eq!(verify(&run, &links, &keys).unwrap().seq, 2);
            assert_eq!(verify_links(&links).unwrap().seq, 2);
            let mut altered = links.clone();
            altered[0].at = Timestamp::from_micros(1_700_000_000_000_000);
            assert_eq!(verify_links(&altered).unwrap_err().seq, 1);
        }
    }

    /// What readers are shown masked is left out, so that it does not look altered.
    #[test]
    fn masked_contents_are_left_out() {
        let mut step = steps().remove(0);
        step.content_json = "{\"attempt\":\"***\"}".into();
        assert!(!line("run_1", &step, false).unwrap().contains("content\""));
    }

    #[test]
    fn lines_that_are_not_steps_are_refused() {
        let good = line("run_1", &steps()[1], false).unwrap();
        for (from, to, why) in [
            ("\"seq\":2", "\"seq\":-2", "exported step"),
            ("\"seq\":2", "\"seq\":2,\"colour\":1", "exported step"),
            ("\"run_1\"", "\"1\"", "`run`"),
            ("\"system\"", "\"nobody\"", "`actor`"),
            ("Z\"", "+0Z\"", "`at`"),
            ("k:1:", "", "`hmac`"),
            ("\"hash\":\"", "\"hash\":\"zz", "`hash`"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let refused = read(&bad).unwrap_err().to_string();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
        assert!(read("").is_err() && read("[]").is_err());
    }
}
