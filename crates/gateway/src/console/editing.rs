//! Changing a held call's values on its page (S6.7): a form of its own, with a button of its own, so
//! that nobody approves a change that they did not mean.
//!
//! The form offers the single values whose text a browser brings back as it was: none that is masked,
//! and none that holds characters which are not seen. What comes back and differs is an edit; which
//! values there are, and of which type, is read from the approval again, and its digest says that it
//! is still the one that was shown.

use maud::{Markup, html};
use sayso_rules::leaves::leaves;
use sayso_rules::redact::MASK;
use sayso_wire::shown::is_hidden;
use sayso_wire::v1;
use serde_json::Value;

use super::page::{form_value, once};
use super::posted::Fields;
use super::text::shown;
use super::visitor::Visitor;

/// How many values the form offers.
const MOST_VALUES: usize = 40;
/// How long a value may be to be shown in one line, in bytes.
const LINE: usize = 60;
/// How long a value may be to be offered, in bytes.
const LONGEST: usize = 16 * 1024;

/// A value that the form offers.
struct Offered {
    pointer: String,
    value: String,
    is_text: bool,
}

impl Offered {
    /// Whether one line would not hold it: a browser takes line breaks out of one.
    fn needs_lines(&self) -> bool {
        self.value.contains('\n') || self.value.len() > LINE
    }

    fn field(&self) -> String {
        format!("value:{}", self.pointer)
    }
}

fn offered(args: &str) -> Vec<Offered> {
    let Ok(tree) = serde_json::from_str::<Value>(args) else {
        return Vec::new();
    };
    let found = leaves(args).into_iter().filter_map(|leaf| {
        let is_text = match tree.pointer(&leaf.pointer)? {
            Value::String(_) => true,
            Value::Number(_) | Value::Bool(_) | Value::Null => false,
            Value::Array(_) | Value::Object(_) => return None,
        };
        let plain = |c: char| c == '\n' || (!c.is_control() && !is_hidden(c));
        let comes_back = leaf.value.len() <= LONGEST
            && leaf.value.trim() == leaf.value
            && leaf.value.chars().all(plain)
            && leaf.pointer.chars().all(plain)
            && !leaf.value.contains(MASK);
        comes_back.then_some(Offered {
            pointer: leaf.pointer,
            value: leaf.value,
            is_text,
        })
    });
    found.take(MOST_VALUES).collect()
}

/// The form; nothing if there is no value to change.
pub(super) fn form(approval: &v1::Approval, visitor: &Visitor) -> Markup {
    let values = offered(&approval.args_json);
    html! {
        @if !values.is_empty() {
            details.edit {
                summary { "Change values and approve" }
                form method="post" action=(format!("/approvals/{}/edit", approval.id)) autocomplete="off" {
                    (form_value(visitor))
                    (once())
                    input type="hidden" name="digest" value=(approval.digest);
                    @for (at, value) in values.iter().enumerate() {
                        @let id = format!("value-{at}");
                        label for=(id) { code { (shown(&value.pointer)) } }
                        @if value.needs_lines() {
                            textarea id=(id) name=(value.field()) rows="3" { "\n" (value.value) }
                        } @else {
                            input id=(id) name=(value.field()) value=(value.value);
                        }
                    }
                    label for="edit-reason" { "Reason " span.hint { "optional; recorded" } }
                    textarea #edit-reason name="reason" rows="2" {}
                    div.buttons { button.good { "Approve as changed" } }
                }
            }
        }
    }
}

/// What the form changes of the arguments that it was made from.
pub(super) fn changes(args: &str, fields: &mut Fields) -> Vec<v1::ArgumentEdit> {
    let edits = offered(args).into_iter().filter_map(|value| {
        let given = fields.take_if_there(&value.field())?;
        (given != value.value).then(|| v1::ArgumentEdit {
            pointer: value.pointer,
            value_json: if value.is_text {
                Value::String(given).to_string()
            } else {
                given
            },
        })
    });
    edits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.7: what does not come back as it was is not offered, and only what differs is an edit.
    #[test]
    fn s6_7_only_what_differs_is_an_edit() {
        let args = r#"{"to":"bob","n":1.10,"on":true,"key":"[redacted]","odd":"a\u200bb","l":["x","y\nz"],"e":{}}"#;
        let offers: Vec<String> = offered(args).into_iter().map(|it| it.pointer).collect();
        assert_eq!(offers, ["/to", "/n", "/on", "/l/0", "/l/1"]);
        let mut fields = Fields::of([
            ("value:/to", "bob"),
            ("value:/n", "1.1"),
            ("value:/l/1", "y\r\nz"),
            ("value:/l/0", "\"x\""),
            ("value:/key", "mine"),
        ]);
        let edits = changes(args, &mut fields).into_iter();
        let edits: Vec<_> = edits.map(|it| (it.pointer, it.value_json)).collect();
        let expected = [("/n", "1.1"), ("/l/0", r#""\"x\"""#)];
        assert_eq!(
            edits,
            expected.map(|(at, value)| (at.to_owned(), value.to_owned()))
        );
    }
}
