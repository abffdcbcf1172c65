//! Reading a call's exact argument bytes (S3.7).
//!
//! What is shown, hashed and approved are bytes; what an MCP server gets has gone through a
//! `serde_json::Value`. The two must mean the same, so whatever `Value` hides is refused before
//! anyone is asked:
//!
//! * **Duplicate keys**: `Value` keeps the last, a person may have read the first.
//! * **Numbers that change**: `Value` holds 64-bit integers and doubles. A number is fine if the one
//!   that would be sent is the same number, however it is written: `1.10` and `1.1` are,
//!   `12345678901234567890123` and what a double makes of it are not.
//! * **NUL characters**, which not every store and not every program keeps.
//!
//! The text is first parsed by serde_json, which settles that it is well-formed; the scan for the
//! rest then only has to find its way through.

use std::collections::HashSet;

use serde_json::Value;

/// How deep arguments may nest.
pub(crate) const MAX_DEPTH: usize = 64;

/// How large the argument text may be, in bytes.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How many problems one answer lists.
pub(crate) const MAX_LISTED: usize = 10;

/// What happens to numbers on the way to the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// They go through a `Value`: those that would change are refused.
    MustSurvive,
    /// The tool reads the bytes itself.
    AreKept,
}

/// Reads arguments, or says what is wrong with them, one sentence a problem.
pub(crate) fn read(text: &str, numbers: Numbers) -> Result<Value, Vec<String>> {
    if text.len() > MAX_BYTES {
        return Err(vec![format!("larger than {MAX_BYTES} bytes")]);
    }
    if nests_too_deep(text) {
        return Err(vec![format!("nested deeper than {MAX_DEPTH} levels")]);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| vec![format!("not valid JSON: {error}")])?;
    if !value.is_object() {
        return Err(vec![
            "the arguments must be one JSON object, such as {}".to_owned(),
        ]);
    }
    let mut scan = Scan {
        text,
        at: 0,
        path: String::new(),
        numbers,
        problems: Vec::new(),
    };
    scan.value();
    if scan.problems.is_empty() {
        Ok(value)
    } else {
        Err(scan.problems)
    }
}

fn nests_too_deep(text: &str) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A walk over JSON that is known to be well-formed and not too deep.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// JSON pointer of the value that is being read.
    path: String,
    numbers: Numbers,
    problems: Vec<String>,
}

impl<'t> Scan<'t> {
    fn peek(&self) -> u8 {
        *self
            .text
            .as_bytes()
            .get(self.at)
            .expect("well-formed JSON does not end inside a value")
    }

    fn skip_space(&mut self) {
        while matches!(
            self.text.as_bytes().get(self.at),
            Some(b' ' | b'\t' | b'\n' | b'\r')
        ) {
            self.at += 1;
        }
    }

    fn report(&mut self, problem: &str) {
        let place = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        self.problems.push(format!("{place}: {problem}"));
    }

    fn value(&mut self) {
        self.skip_space();
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.list(),
            b'"' => {
                let token = self.string_token();
                self.decode(token);
            }
            b't' | b'n' => self.at += 4,
            b'f' => self.at += 5,
            _ => self.number(),
        }
    }

    fn object(&mut self) {
        self.at += 1;
        let mut keys = HashSet::new();
        loop {
            self.skip_space();
            match self.peek() {
                b'}' => break,
                b',' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let token = self.string_token();
            let key = self.decode(token);
            let parent = self.path.len();
            self.path.push('/');
            self.path
                .push_str(&key.replace('~', "~0").replace('/', "~1"));
            if !keys.insert(key) {
                self.report("the key stands here twice");
            }
            self.skip_space();
            self.at += 1; // the colon
            self.value();
            self.path.truncate(parent);
        }
        self.at += 1;
    }

    fn list(&mut self) {
        self.at += 1;
        let mut index = 0_usize;
        loop {
            self.skip_space();
            match self.peek() {
                b']' => break,
                b',' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let parent = self.path.len();
            self.path.push_str(&format!("/{index}"));
            self.value();
            self.path.truncate(parent);
            index += 1;
        }
        self.at += 1;
    }

    /// The string that starts here, quotes included.
    fn string_token(&mut self) -> &'t str {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        &self.text[start..self.at]
    }

    fn decode(&mut self, token: &str) -> String {
        let text: String =
            serde_json::from_str(token).expect("a string of well-formed JSON is a string");
        if text.contains('\0') {
            self.report("a NUL character is not allowed");
        }
        text
    }

    fn number(&mut self) {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let written = &rest[..end];
        self.at += end;
        if self.numbers == Numbers::MustSurvive && !survives(written) {
            self.report(&format!(
                "the number {} cannot be sent without rounding it; use fewer digits, or a string \
                 if the schema takes one",
                shortened(written)
            ));
        }
    }
}

/// Whether a number is still the same number after a trip through `Value`.
fn survives(written: &str) -> bool {
    let Ok(number) = serde_json::from_str::<serde_json::Number>(written) else {
        return false;
    };
    match (Decimal::of(written), Decimal::of(&number.to_string())) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    }
}

/// A decimal number in its one normal form: no zeros at either end of the digits.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    /// Power of ten of the last digit.
    exponent: i64,
}

impl Decimal {
    fn of(written: &str) -> Option<Self> {
        let (negative, rest) = match written.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self {
                negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        let shift = i64::try_from(significant.len() - digits.len()).ok()?
            - i64::try_from(fraction.len()).ok()?;
        Some(Self {
            negative,
            digits: digits.to_owned(),
            exponent: exponent.checked_add(shift)?,
        })
    }
}

fn shortened(number: &str) -> String {
    match number.get(..40) {
        Some(start) if number.len() > 40 => format!("{start}…"),
        _ => number.to_owned(),
    }
}

/// Problems as one text for the model.
pub(crate) fn describe(problems: &[String]) -> String {
    let mut text = String::from("the arguments are not valid, nothing was run:");
    for problem in problems.iter().take(MAX_LISTED) {
        text.push_str("\n- ");
        text.push_str(problem);
    }
    if problems.len() > MAX_LISTED {
        text.push_str(&format!("\n- and {} more", problems.len() - MAX_LISTED));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problems(text: &str) -> Vec<String> {
        read(text, Numbers::MustSurvive).unwrap_err()
    }

    /// S3.7: what a `Value` would hide is refused, at any depth.
    #[test]
    fn duplicate_keys_are_named_by_their_pointer() {
        assert_eq!(
            problems(r#"{"a":1,"b":[{"x/y":1,"x\u002fy":2}],"a":2}"#),
            [
                "/b/0/x~1y: the key stands here twice",
                "/a: the key stands here twice"
            ]
        );
    }

    /// S3.7: numbers are never rounded.
    #[test]
    fn a_number_that_would_change_is_refused() {
        for fine in [
            "0",
            "-0",
            "1.10",
            "1e2",
            "0.1",
            "-12.50",
            "18446744073709551615",
            "1E-7",
            "0.000",
            "100000000000000000000",
            "-9223372036854775808",
            "1.7976931348623157e308",
        ] {
            assert!(
                read(&format!("{{\"n\":{fine}}}"), Numbers::MustSurvive).is_ok(),
                "{fine}"
            );
        }
        for changed in [
            "123456789012345678901234567890",
            "0.1000000000000000000001",
            "1e400",
            "18446744073709551617",
            "9007199254740993.5",
            "1e-400",
        ] {
            let text = format!("{{\"n\":{changed}}}");
            assert!(read(&text, Numbers::MustSurvive).is_err(), "{changed}");
        }
        assert!(read(r#"{"n":123456789012345678901234567890}"#, Numbers::AreKept).is_ok());
        assert_eq!(
            problems(r#"{"a":{"n":[1,0.1000000000000000000001]}}"#)[0],
            "/a/n/1: the number 0.1000000000000000000001 cannot be sent without rounding it; use \
             fewer digits, or a string if the schema takes one"
        );
    }

    #[test]
    fn only_one_object_is_arguments() {
        for bad in [
            "",
            "[]",
            "1",
            "null",
            "\"{}\"",
            "{} {}",
            "{\"a\":1,}",
            "{'a':1}",
            "{\"a\":NaN}",
        ] {
            assert!(read(bad, Numbers::MustSurvive).is_err(), "{bad}");
        }
        assert!(read(" {\n} ", Numbers::MustSurvive).is_ok());
    }

    #[test]
    fn depth_and_nul_are_limited() {
        let nested = |depth: usize| {
            format!(
                "{{\"a\":{}{}}}",
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            )
        };
        assert!(read(&nested(MAX_DEPTH), Numbers::MustSurvive).is_ok());
        assert_eq!(
            problems(&nested(MAX_DEPTH + 1)),
            ["nested deeper than 64 levels"]
        );
        assert!(read(r#"{"a":"[[[[\"[["}"#, Numbers::MustSurvive).is_ok());
        assert_eq!(
            problems(r#"{"a":["x","\u0000"]}"#),
            ["/a/1: a NUL character is not allowed"]
        );
    }

    #[test]
    fn a_long_list_of_problems_is_counted() {
        let many: Vec<String> = (0..12).map(|n| format!("p{n}")).collect();
        let text = describe(&many);
        assert!(text.ends_with("- p9\n- and 2 more"), "{text}");
    }

    proptest! {
        /// The scan accepts whatever serde_json writes, and never panics on what it reads.
        #[test]
        fn any_text_is_read_or_refused(text in r#"[\{\}\[\],:"\\ a-c0-9.eu\-]{0,40}"#) {
            let _ = read(&text, Numbers::MustSurvive);
            let _ = read(&format!("{{\"k\":{text}}}"), Numbers::MustSurvive);
        }

        #[test]
        fn doubles_and_integers_survive(int in any::<i64>(), double in any::<f64>()) {
            prop_assume!(double.is_finite());
            let text = serde_json::json!({"i": int, "t": [int]}).to_string();
            prop_assert!(read(&text, Numbers::MustSurvive).is_ok(), "{}", text);
            let _ = survives(&double.to_string());
        }
    }
}
