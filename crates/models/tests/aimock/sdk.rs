//! The request types of the official Python SDKs.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::mock::given;

/// Reads `path, body` pairs and holds each body against the type of its format. Unknown keys are
/// refused too, and the types themselves are tried on a malformed body first.
const PROGRAM: &str = r#"
import json, sys
import anthropic.types, openai.types.chat
from pydantic import TypeAdapter, ValidationError

types = {
    "/v1/messages": TypeAdapter(anthropic.types.MessageCreateParams),
    "/v1/chat/completions": TypeAdapter(openai.types.chat.CompletionCreateParams),
}
def exhausted(value):
    # The SDKs declare lists as iterables, which are validated as they are walked.
    if isinstance(value, dict):
        return {key: exhausted(item) for key, item in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    return [exhausted(item) for item in value]

for path, adapter in types.items():
    try:
        exhausted(adapter.validate_python({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": 5}]}))
    except ValidationError:
        continue
    sys.exit(f"{path}: the types refuse nothing")

for path, text in json.load(sys.stdin):
    body = json.loads(text)
    seen = exhausted(types[path].validate_python(body))
    if seen != body:
        sys.exit(f"{path}: the types know only part of it:\n{seen}\n{body}")
print("ok")
"#;

/// Fails unless the types accept all of it.
pub(crate) fn accepts(requests: &[(String, String)]) {
    let mut python = Command::new(given("SAYSO_TEST_PYTHON"))
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let input = serde_json::to_vec(requests).unwrap();
    let mut stdin = python.stdin.take().expect("piped");
    stdin.write_all(&input).unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout == b"ok\n",
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
