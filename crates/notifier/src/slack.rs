//! The body for an incoming webhook as Slack has it. Others that take the same, such as Mattermost, may
//! read `text` alone, so that says everything too (S8.2).
//!
//! What models and outsiders wrote must not become markup: `&`, `<` and `>` are escaped, so it can
//! mention nobody and hide no link behind other words, and `verbatim` keeps Slack from finding links and
//! names by itself. Arguments stand in a block of code that they cannot end.

use serde::Serialize;

use crate::message::{Message, cut, json};

/// The longest arguments, in bytes: a section takes 3,000 characters.
const ARGUMENT_BYTES: usize = 2_000;

#[derive(Serialize)]
struct Posted {
    text: String,
    blocks: Vec<Block>,
    unfurl_links: bool,
    unfurl_media: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Section { text: Text },
    Actions { elements: [Button; 1] },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Text {
    Mrkdwn { text: String, verbatim: bool },
    PlainText { text: String },
}

#[derive(Serialize)]
struct Button {
    r#type: &'static str,
    text: Text,
    url: String,
}

/// The body.
pub(crate) fn posted(message: &Message) -> Vec<u8> {
    let headline = format!("*{}*", escaped(&message.headline));
    let lines: Vec<String> = message
        .short_lines()
        .map(|(what, text)| format!("{what}: {}", escaped(&text)))
        .collect();
    let arguments = message.arguments.as_ref().map(|arguments| {
        let arguments = cut(arguments, ARGUMENT_BYTES).replace("```", "'''");
        format!("```\n{}\n```", escaped(&arguments))
    });
    let link = message
        .action
        .as_ref()
        .map(|(what, url)| format!("<{}|{what}>", escaped(url)));
    let parts = std::iter::once(headline).chain([lines.join("\n")]);
    let parts: Vec<String> = parts
        .chain(arguments)
        .filter(|part| !part.is_empty())
        .collect();
    let sections = parts.iter().flat_map(|part| sections(part));
    let action = message.action.as_ref().map(|(what, url)| Block::Actions {
        elements: [Button {
            r#type: "button",
            text: Text::PlainText {
                text: (*what).to_owned(),
            },
            url: url.clone(),
        }],
    });
    let text: Vec<&str> = parts.iter().chain(&link).map(String::as_str).collect();
    json(&Posted {
        text: text.join("\n"),
        blocks: sections.chain(action).collect(),
        unfurl_links: false,
        unfurl_media: false,
    })
}

/// The longest text of a section, in characters.
const SECTION_CHARS: usize = 3_000;

/// A text as sections. Escaping makes texts longer, so one that is all brackets needs several.
fn sections(text: &str) -> Vec<Block> {
    let chars: Vec<char> = text.chars().collect();
    let section = |part: &[char]| Block::Section {
        text: Text::Mrkdwn {
            text: part.iter().collect(),
            verbatim: true,
        },
    };
    chars.chunks(SECTION_CHARS).map(section).collect()
}

/// The text with Slack's three special characters escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn said(arguments: &str, summary: &str) -> Value {
        let message = Message {
            event: "approval.pending",
            json: Vec::new(),
            headline: "desk waits for a decision: mail.send".into(),
            lines: vec![("Summary", summary.into()), ("Task", String::new())],
            arguments: Some(arguments.into()),
            action: Some((
                "Look and decide",
                "https://sayso.example/approvals/apr_1".into(),
            )),
        };
        serde_json::from_slice(&posted(&message)).unwrap()
    }

    /// S8.2, B46: nothing that a model or an outsider wrote becomes a mention, a link, or markup that
    /// hides the rest.
    #[test]
    fn s8_2_what_others_wrote_is_no_markup() {
        let body = said(
            r#"{"a":"``` <!channel> </x>"}"#,
            "Read <https://evil.example|the docs> & <@U1>",
        );
        let text = body["text"].as_str().unwrap();
        assert!(text.contains("&lt;https://evil.example|the docs&gt; &amp; &lt;@U1&gt;"));
        assert!(text.contains("''' &lt;!channel&gt; &lt;/x&gt;"), "{text}");
        assert!(text.ends_with("<https://sayso.example/approvals/apr_1|Look and decide>"));
        assert_eq!(text.matches("```").count(), 2);
        assert_eq!(text.matches('<').count(), 1);
        assert!(!text.contains("Task"), "what is empty is left out");
        for block in body["blocks"].as_array().unwrap() {
            if block["type"] == "section" {
                assert_eq!(block["text"]["verbatim"], true);
            }
        }
        let button = &body["blocks"].as_array().unwrap().last().unwrap()["elements"][0];
        assert_eq!(button["url"], "https://sayso.example/approvals/apr_1");
    }

    /// S8.2: no section is longer than Slack takes, and large arguments are cut and marked.
    #[test]
    fn s8_2_large_arguments_are_cut() {
        let body = said(&"<".repeat(100_000), "x");
        let blocks = body["blocks"].as_array().unwrap();
        for block in blocks.iter().filter(|block| block["type"] == "section") {
            assert!(block["text"]["text"].as_str().unwrap().chars().count() <= 3_000);
        }
        assert!(body["text"].as_str().unwrap().contains("98000 bytes more"));
    }
}
