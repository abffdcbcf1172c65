//! The conversation in the shape that both wire formats want: sides alternate, the first and the
//! last are the user's, none is empty, and the results of an answer's calls open the side after it
//! (S4.8, B19).
//!
//! The run core already pairs every call with one result. What is left is what providers refuse for
//! other reasons: blank texts, two sides of one kind in a row, a tool name that the model made up.

use std::borrow::Cow;

use sayso_run::{CallMessage, Message, ResultMessage, ThinkingMessage};

/// Stands for a user's side that would hold no visible text.
const EMPTY: &str = "(empty message)";

/// Stands where the user would have to speak and did not.
const GO_ON: &str = "(continue)";

/// One side of the conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Side<'a> {
    /// Results of the calls of the answer before, then texts; at least one of either.
    User {
        results: &'a [ResultMessage],
        texts: Vec<&'a str>,
    },
    /// An answer with text, calls, or both.
    Assistant(Reply<'a>),
}

/// An answer of a model as it goes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// `None` if there is nothing visible.
    pub(crate) text: Option<&'a str>,
    /// The model that gave it, by its configured name.
    pub(crate) model: &'a str,
    pub(crate) thinking: &'a [ThinkingMessage],
    pub(crate) calls: &'a [CallMessage],
}

/// The text, unless there is nothing visible in it.
pub(crate) fn visible(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}

/// The sides of a conversation.
pub(crate) fn sides(messages: &[Message]) -> Vec<Side<'_>> {
    let mut sides: Vec<Side<'_>> = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        match message {
            Message::User(text) => user_side(&mut sides).extend(visible(text)),
            Message::Results(results) => sides.push(Side::User {
                results,
                texts: Vec::new(),
            }),
            Message::Assistant {
                text,
                model,
                thinking,
                calls,
            } => {
                let text = visible(text);
                if text.is_none() && calls.is_empty() {
                    continue;
                }
                if !matches!(sides.last(), Some(Side::User { .. })) {
                    user_side(&mut sides).push(GO_ON);
                }
                sides.push(Side::Assistant(Reply {
                    text,
                    model,
                    thinking,
                    calls,
                }));
            }
        }
    }
    if !matches!(sides.last(), Some(Side::User { .. })) {
        user_side(&mut sides).push(GO_ON);
    }
    for side in &mut sides {
        if let Side::User { results: [], texts } = side
            && texts.is_empty()
        {
            texts.push(EMPTY);
        }
    }
    sides
}

/// The texts of the user's side at the end, which is made if there is none.
fn user_side<'s, 'a>(sides: &'s mut Vec<Side<'a>>) -> &'s mut Vec<&'a str> {
    if !matches!(sides.last(), Some(Side::User { .. })) {
        sides.push(Side::User {
            results: &[],
            texts: Vec::new(),
        });
    }
    match sides.last_mut() {
        Some(Side::User { texts, .. }) => texts,
        Some(Side::Assistant(_)) | None => unreachable!("a user's side was just seen or made"),
    }
}

/// The longest tool name that both providers take.
const LONGEST_NAME: usize = 64;

/// A tool's name as providers take it back. Names that were offered pass as they are; what a model
/// made up may hold anything, and would have the whole request refused.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let safe: String = name
        .chars()
        .take(LONGEST_NAME)
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    Cow::Owned(if safe.is_empty() {
        "unnamed".to_owned()
    } else {
        safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call, result};

    fn said(text: &str, calls: Vec<CallMessage>) -> Message {
        Message::Assistant {
            text: text.into(),
            model: "m".into(),
            thinking: vec![],
            calls,
        }
    }

    fn drawn(messages: &[Message]) -> Vec<String> {
        sides(messages)
            .iter()
            .map(|side| match side {
                Side::User { results, texts } => format!("user {} {texts:?}", results.len()),
                Side::Assistant(reply) => {
                    format!("assistant {:?} {}", reply.text, reply.calls.len())
                }
            })
            .collect()
    }

    /// B19: whatever was said or left unsaid, sides alternate and none is empty.
    #[test]
    fn b19_sides_alternate_and_none_is_empty() {
        let user = |text: &str| Message::User(text.into());
        let messages = [
            user("do"),
            user(" "),
            user("it"),
            said(" \n", vec![]),
            user("hello?"),
            said("", vec![call(1, 1, "{}")]),
            Message::Results(vec![result(1, 1, "ok", false)]),
            user("and?"),
            said("done", vec![]),
            user(""),
            said("really", vec![]),
        ];
        assert_eq!(
            drawn(&messages),
            [
                r#"user 0 ["do", "it", "hello?"]"#,
                "assistant None 1",
                r#"user 1 ["and?"]"#,
                r#"assistant Some("done") 0"#,
                r#"user 0 ["(empty message)"]"#,
                r#"assistant Some("really") 0"#,
                r#"user 0 ["(continue)"]"#,
            ]
        );
        assert_eq!(drawn(&[]), [r#"user 0 ["(continue)"]"#]);
        assert_eq!(
            drawn(&[said("a", vec![]), said("b", vec![])]),
            [
                r#"user 0 ["(continue)"]"#,
                r#"assistant Some("a") 0"#,
                r#"user 0 ["(continue)"]"#,
                r#"assistant Some("b") 0"#,
                r#"user 0 ["(continue)"]"#,
            ]
        );
    }

    #[test]
    fn a_made_up_tool_name_cannot_have_the_request_refused() {
        assert_eq!(tool_name("git_status-2"), "git_status-2");
        assert_eq!(tool_name("git.status ü"), "git_status__");
        assert_eq!(tool_name(""), "unnamed");
        assert_eq!(tool_name(&"x".repeat(200)).len(), 64);
    }
}
