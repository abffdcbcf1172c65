//! Reading a script: the shape by serde, then everything that a shape cannot say, all at once.

use std::time::Duration;

use sayso_run::Usage;
use serde::Deserialize;
use yaml_serde::Value;

use super::mistakes::{Report, ScriptMistake, ScriptMistakes};
use super::template::{Built, Text};

/// A file of turns, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(super) turns: Vec<Turn>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub(super) when: Option<When>,
    pub(super) text: Text,
    pub(super) thinking: Option<Text>,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Usage,
    pub(super) delay: Duration,
    pub(super) end: TurnEnd,
}

impl Turn {
    /// Whether it leaves no answer in the conversation.
    pub(super) fn fails(&self) -> bool {
        self.end != TurnEnd::Whole
    }
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TurnEnd {
    Whole,
    Status { status: u16, body: String },
    CutAfter(usize),
    Hang(Duration),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) args: Arguments,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    Raw(String),
    Built(Built),
}

/// The case that a turn is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub(super) result_contains: Option<String>,
    pub(super) message_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    turns: Vec<WrittenTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTurn {
    when: Option<When>,
    text: Option<String>,
    thinking: Option<String>,
    calls: Option<Vec<WrittenCall>>,
    usage: Option<WrittenUsage>,
    delay: Option<String>,
    error: Option<WrittenError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    tool: String,
    args: Option<Value>,
    args_raw: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    output: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenError {
    status: Option<u16>,
    body: Option<String>,
    stream_cut_after: Option<usize>,
    hang: Option<String>,
}

impl Script {
    /// Reads a script, YAML or JSON.
    ///
    /// # Errors
    ///
    /// What is wrong with it, by place in the file.
    pub fn parse(text: &str) -> Result<Self, ScriptMistakes> {
        let yaml = yaml_serde::Deserializer::from_str(text);
        let file: File = serde_path_to_error::deserialize(yaml).map_err(|error| {
            let path = error.path().to_string();
            ScriptMistakes(vec![shapeless(&path, &error.into_inner().to_string())])
        })?;
        let mut report = Report::default();
        if file.turns.is_empty() {
            report.note("turns", "there must be at least one turn");
        }
        let turns = file
            .turns
            .into_iter()
            .enumerate()
            .map(|(at, turn)| self::turn(turn, &format!("turns[{at}]"), &mut report))
            .collect();
        report.settle(Self { turns })
    }
}

/// The mistake of a file that has not the shape of a script. The reader's message begins with a path
/// of its own, which ends before the key that is wrong.
fn shapeless(path: &str, message: &str) -> ScriptMistake {
    let path = if path == "." { "" } else { path };
    let message = match message.split_once(": ") {
        Some((prefix, rest)) if path.starts_with(prefix) => rest,
        Some(_) | None => message,
    };
    ScriptMistake {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

fn turn(written: WrittenTurn, path: &str, report: &mut Report) -> Turn {
    let empty = written.text.is_none() && written.thinking.is_none() && written.calls.is_none();
    if empty && written.error.is_none() {
        report.note(
            path,
            "a turn has text, thinking, calls or an error (an empty answer is `text: \"\"`)",
        );
    }
    if let Some(When {
        result_contains: None,
        message_contains: None,
    }) = written.when
    {
        report.note(
            format!("{path}.when"),
            "names no case: result_contains or message_contains",
        );
    }
    let text = text(written.text.as_deref(), &format!("{path}.text"), report);
    let thinking = written
        .thinking
        .map(|thinking| self::text(Some(&thinking), &format!("{path}.thinking"), report));
    let calls = written
        .calls
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(at, call)| self::call(call, &format!("{path}.calls[{at}]"), report))
        .collect::<Vec<Call>>();
    let end = match written.error {
        None => TurnEnd::Whole,
        Some(error) => {
            let path = format!("{path}.error");
            if !calls.is_empty() || thinking.is_some() || written.usage.is_some() {
                report.note(
                    &path,
                    "a turn with an error has no calls, thinking or usage",
                );
            }
            let end = self::end(error, &path, report);
            if matches!(end, TurnEnd::Status { .. }) && !text.is_empty() {
                report.note(&path, "a turn that answers with a status has no text");
            }
            end
        }
    };
    Turn {
        when: written.when,
        text,
        thinking,
        calls,
        usage: usage(written.usage, path, report),
        delay: duration(written.delay.as_deref(), &format!("{path}.delay"), report),
        end,
    }
}

fn text(written: Option<&str>, path: &str, report: &mut Report) -> Text {
    Text::parse(written.unwrap_or_default()).unwrap_or_else(|bad| {
        report.note(path, bad.to_string());
        Text::default()
    })
}

fn call(written: WrittenCall, path: &str, report: &mut Report) -> Call {
    let args = match (written.args, written.args_raw) {
        (Some(_), Some(_)) => {
            report.note(path, "has args and args_raw: keep one of the two");
            Arguments::Raw(String::new())
        }
        (None, Some(bytes)) => Arguments::Raw(bytes),
        (None, None) => Arguments::Raw("{}".into()),
        (Some(value), None) => {
            let path = format!("{path}.args");
            if !matches!(value, Value::Mapping(_)) {
                report.note(&path, "must be a mapping; other bytes go into args_raw");
            }
            Arguments::Built(Built::read(value, &path, report))
        }
    };
    if written.tool.is_empty() {
        report.note(format!("{path}.tool"), "must not be empty");
    }
    Call {
        tool: written.tool,
        args,
    }
}

fn usage(written: Option<WrittenUsage>, path: &str, report: &mut Report) -> Usage {
    let Some(written) = written else {
        return Usage::default();
    };
    if written.cached > written.input {
        report.note(
            format!("{path}.usage.cached"),
            "is part of input and cannot be more",
        );
    }
    Usage {
        input: written.input,
        cached: written.cached,
        output: written.output,
    }
}

fn end(written: WrittenError, path: &str, report: &mut Report) -> TurnEnd {
    let end = match (written.status, written.stream_cut_after, written.hang) {
        (Some(status), None, None) => {
            if !(300..=599).contains(&status) {
                report.note(
                    format!("{path}.status"),
                    "is an HTTP status that is no success: 300 to 599",
                );
            }
            return TurnEnd::Status {
                status,
                body: written.body.unwrap_or_default(),
            };
        }
        (None, Some(characters), None) => TurnEnd::CutAfter(characters),
        (None, None, Some(hang)) => {
            TurnEnd::Hang(duration(Some(&hang), &format!("{path}.hang"), report))
        }
        _ => {
            report.note(
                path,
                "is one of: status (with body), stream_cut_after, hang",
            );
            TurnEnd::CutAfter(0)
        }
    };
    if written.body.is_some() {
        report.note(format!("{path}.body"), "goes with a status alone");
    }
    end
}

/// The longest delay or silence; anything above is a slip of the pen.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn duration(written: Option<&str>, path: &str, report: &mut Report) -> Duration {
    let Some(written) = written else {
        return Duration::ZERO;
    };
    parse_duration(written).unwrap_or_else(|| {
        report.note(
            path,
            "is a whole number with a unit: 250ms, 30s, 10m or 1h, at most 7d",
        );
        Duration::ZERO
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..unit].parse().ok()?;
    let milliseconds = match &text[unit..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        match Script::parse(text) {
            Ok(script) => panic!("{script:?}"),
            Err(ScriptMistakes(mistakes)) => mistakes.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn the_documented_script_is_read() {
        let docs = include_str!("mod.rs");
        let block = docs.split("//! ```").nth(1).unwrap();
        let text: Vec<&str> = block
            .lines()
            .skip(1)
            .map(|line| line.trim_start_matches("//!"))
            .collect();
        let script = Script::parse(&text.join("\n")).unwrap();
        assert_eq!(script.turns.len(), 4);
        assert_eq!(
            script.turns[0].calls[1].args,
            Arguments::Raw(r#"{"order_id":"A-17","amount":1.10}"#.into())
        );
        assert_eq!(
            (script.turns[0].usage.input, script.turns[0].usage.output),
            (900, 40)
        );
        assert!(script.turns[1].when.is_some());
        assert_eq!(
            script.turns[2].end,
            TurnEnd::Status {
                status: 529,
                body: "overloaded".into()
            }
        );
    }

    #[test]
    fn a_script_may_be_json() {
        let script =
            Script::parse(r#"{"turns":[{"text":"hi"},{"error":{"hang":"10m"}}]}"#).unwrap();
        assert_eq!(script.turns[1].end, TurnEnd::Hang(Duration::from_secs(600)));
    }

    #[test]
    fn what_has_not_the_shape_of_a_script_is_named_by_its_place() {
        for (text, expected) in [
            ("turns: [{txt: hi}]", "turns[0].txt: unknown field `txt`, "),
            (
                "turns: [{text: hi, calls: [{tool: t, arguments: {}}]}]",
                "turns[0].calls[0].arguments: unknown field `arguments`, ",
            ),
            (
                "turns: [{text: [1]}]",
                "turns[0].text: invalid type: sequence, ",
            ),
            (
                "turns: [{text: a, text: b}]",
                "turns[0]: duplicate field `text`",
            ),
            (
                "turns: [{calls: [{tool: t, args: {a: 1, a: 2}}]}]",
                "turns[0].calls[0].args: duplicate ",
            ),
            ("turn: []", "turn: unknown field `turn`, "),
            (
                "turns: [{error: {stats: 1}}]",
                "turns[0].error.stats: unknown field `stats`, ",
            ),
            ("turns: [", "turns: "),
            ("", "missing field `turns`"),
        ] {
            let found = mistakes(text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn every_other_mistake_is_reported_at_once() {
        let text = r#"
turns:
  - {}
  - { text: "{{result.}} {{input.x}}", when: {}, delay: 5 parsecs }
  - text: "{{result.t"
    calls:
      - { tool: t, args: {a: 1}, args_raw: "{}" }
      - { tool: t, args: [1] }
      - { tool: "", args: { 1: x, f: .nan, t: !tag y, s: "{{bad}}" } }
    usage: { input: 1, cached: 2 }
  - { text: a, error: { status: 200 } }
  - { error: { status: 500, hang: 1s } }
  - { error: { stream_cut_after: 1, body: x }, calls: [] , thinking: x }
  - { error: {} }
"#;
        let found = mistakes(text);
        let paths: Vec<&str> = found
            .iter()
            .map(|m| m.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            paths,
            [
                "turns[0]",
                "turns[1].when",
                "turns[1].text",
                "turns[1].delay",
                "turns[2].text",
                "turns[2].calls[0]",
                "turns[2].calls[1].args",
                "turns[2].calls[2].args",
                "turns[2].calls[2].args.f",
                "turns[2].calls[2].args.t",
                "turns[2].calls[2].args.s",
                "turns[2].calls[2].tool",
                "turns[2].usage.cached",
                "turns[3].error.status",
                "turns[3].error",
                "turns[4].error",
                "turns[5].error",
                "turns[5].error.body",
                "turns[6].error",
            ],
            "{found:#?}"
        );
        assert_eq!(
            mistakes("turns: []"),
            ["turns: there must be at least one turn"]
        );
        assert_eq!(ScriptMistakes::CODE, "script.invalid");
    }
}
