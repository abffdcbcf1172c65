//! Provisional text of a run's current answer (S2.4). Nobody keeps it: whoever listens now hears it.

use std::borrow::Cow;
use std::io::Write;

use serde::Deserialize;
use thiserror::Error;

use super::write::string;
use crate::v1;

/// A live message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// More text.
    Text {
        /// The think-and-call cycle, from 1.
        cycle: u32,
        /// What follows the text before.
        text: String,
    },
    /// All text of the cycle so far is void.
    Withdrawn {
        /// The cycle.
        cycle: u32,
    },
}

/// A message that is not a live one.
#[derive(Debug, Error)]
pub enum BadLive {
    /// Not the JSON that it should be.
    #[error("a live message cannot be read")]
    Json(#[from] serde_json::Error),
    /// It brings no text and withdraws none.
    #[error("a live message says nothing")]
    Silent,
}

#[derive(Deserialize)]
struct Body<'a> {
    cycle: u32,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    withdrawn: bool,
}

impl Live {
    /// The bytes of more text.
    pub fn write_text(cycle: u32, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(40 + text.len());
        write!(out, r#"{{"cycle":{cycle},"text":"#).expect("writing to memory does not fail");
        string(&mut out, text);
        out.push(b'}');
        out
    }

    /// The bytes of a withdrawal.
    pub fn write_withdrawn(cycle: u32) -> Vec<u8> {
        format!(r#"{{"cycle":{cycle},"withdrawn":true}}"#).into_bytes()
    }

    /// Reads a live message.
    ///
    /// # Errors
    ///
    /// When it is not one.
    pub fn read(body: &[u8]) -> Result<Self, BadLive> {
        let Body {
            cycle,
            text,
            withdrawn,
        } = serde_json::from_slice(body)?;
        match text {
            _ if withdrawn => Ok(Live::Withdrawn { cycle }),
            Some(text) => Ok(Live::Text {
                cycle,
                text: text.into_owned(),
            }),
            None => Err(BadLive::Silent),
        }
    }
}

impl From<Live> for v1::watch_run_response::Event {
    fn from(live: Live) -> Self {
        match live {
            Live::Text { cycle, text } => Self::Delta(v1::TextDelta { cycle, text }),
            Live::Withdrawn { cycle } => Self::Withdrawn(v1::DeltaWithdrawn { cycle }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2.4: text comes back as the model wrote it, whatever characters it is of.
    #[test]
    fn live_messages_come_back_as_they_went() {
        for text in [
            "",
            "Hello",
            "\"quoted\" \\ \n\u{0}\u{7f}",
            "Grüße \u{202e}\u{1f600}",
        ] {
            let heard = Live::read(&Live::write_text(3, text)).unwrap();
            let text = text.to_owned();
            assert_eq!(heard, Live::Text { cycle: 3, text });
        }
        let heard = Live::read(&Live::write_withdrawn(u32::MAX)).unwrap();
        assert_eq!(heard, Live::Withdrawn { cycle: u32::MAX });
        for bad in [
            "",
            "{}",
            r#"{"cycle":1}"#,
            r#"{"cycle":-1,"text":""}"#,
            "[1]",
        ] {
            assert!(Live::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
