//! `create_artifact`: keeps a file with the run (S3.1, S9.4).

use std::sync::Arc;

use sayso_driver::{Fence, ToolDefinition, ToolHints, ToolKind, ToolReply, ToolRequest};
use sayso_run::ToolOutcome;
use serde::Deserialize;
use serde_json::json;

use crate::storage::{Artifacts, NewArtifact};

/// How large an artifact may be, in bytes of UTF-8.
pub const MAX_ARTIFACT_BYTES: usize = 1024 * 1024;

/// How long an artifact's name may be, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// What stands in for a name of which nothing is left.
const NAMELESS: &str = "artifact";

/// The tool's name, registered and to the model alike.
pub(crate) const NAME: &str = "create_artifact";

/// The arguments, in the order of the schema.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    name: String,
    mime_type: String,
    content: String,
}

/// The tool as models see it.
pub(crate) fn definition() -> ToolDefinition {
    ToolDefinition {
        registered: NAME.to_owned(),
        model_name: NAME.to_owned(),
        kind: ToolKind::Builtin,
        description: "Keeps a text file with this run, for the people who read it. Returns the \
                      artifact's id. At most 1 MiB."
            .to_owned(),
        input_schema: concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","minLength":1,"maxLength":255,"description":"File name, without a path."},"#,
            r#""mime_type":{"type":"string","maxLength":255,"pattern":"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?$","description":"MIME type, such as text/markdown."},"#,
            r#""content":{"type":"string","description":"The whole content."}"#,
            r#"},"required":["name","mime_type","content"],"additionalProperties":false}"#
        )
        .to_owned(),
        hints: ToolHints {
            read_only: Some(false),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
        },
        origin: String::new(),
    }
}

/// What the schema cannot say: the size in bytes.
pub(crate) fn check(args: &str) -> Result<(), String> {
    let arguments: Arguments = serde_json::from_str(args).map_err(|error| error.to_string())?;
    let bytes = arguments.content.len();
    if bytes > MAX_ARTIFACT_BYTES {
        return Err(format!(
            "/content: {bytes} bytes are more than the {MAX_ARTIFACT_BYTES} that an artifact may have"
        ));
    }
    Ok(())
}

/// Keeps the artifact.
pub(crate) async fn create(
    artifacts: &Arc<dyn Artifacts>,
    request: ToolRequest,
    fence: &Fence,
) -> ToolReply {
    let arguments: Arguments = match check(&request.args)
        .and_then(|()| serde_json::from_str(&request.args).map_err(|error| error.to_string()))
    {
        Ok(arguments) => arguments,
        Err(why) => return reply(ToolOutcome::InvalidArguments, why),
    };
    let name = safe_name(&arguments.name);
    let bytes = arguments.content.len();
    let artifact = NewArtifact {
        namespace: request.namespace,
        run: request.run,
        call: request.call,
        name: name.clone(),
        mime_type: arguments.mime_type,
        content: arguments.content,
        idempotency_key: request.idempotency_key,
    };
    if !fence.holds() {
        return reply(
            ToolOutcome::Unreachable,
            "nothing was kept: this worker may no longer act for the run",
        );
    }
    match tokio::time::timeout(request.timeout, artifacts.put(artifact)).await {
        Ok(Ok(id)) => ToolReply {
            content: json!({"artifact": id, "name": name, "bytes": bytes}).to_string(),
            artifact: Some(id),
            ..reply(ToolOutcome::Ok, "")
        },
        Ok(Err(error)) => reply(
            ToolOutcome::Error,
            format!("the artifact may not have been kept: {error}"),
        ),
        Err(_) => reply(
            ToolOutcome::Timeout,
            format!(
                "the store did not answer within {:?}; the artifact may have been kept",
                request.timeout
            ),
        ),
    }
}

fn reply(outcome: ToolOutcome, content: impl Into<String>) -> ToolReply {
    ToolReply {
        outcome,
        content: content.into(),
        cut_bytes: 0,
        artifact: None,
    }
}

/// A name that is safe to save under: no separators, no control or direction-changing characters,
/// no leading dots.
fn safe_name(given: &str) -> String {
    let replaced: String = given
        .chars()
        .map(|c| if is_unsafe(c) { '_' } else { c })
        .collect();
    let trimmed = replaced.trim_matches([' ', '.']);
    let name = &trimmed[..trimmed.floor_char_boundary(MAX_NAME_BYTES)];
    if name.is_empty() {
        NAMELESS.to_owned()
    } else {
        name.to_owned()
    }
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '/' | '\\' | ':' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_folder_or_lie() {
        for (given, safe) in [
            ("report.md", "report.md"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("C:\\x", "C__x"),
            ("a\nb\u{0}c", "a_b_c"),
            ("exe\u{202e}gpj.txt", "exe_gpj.txt"),
            ("..", "artifact"),
            (" . ", "artifact"),
            ("übersicht 1.csv", "übersicht 1.csv"),
        ] {
            assert_eq!(safe_name(given), safe);
        }
        let long = safe_name(&"é".repeat(200));
        assert_eq!(long.len(), 254);
    }

    #[test]
    fn the_size_limit_counts_bytes() {
        let args = |content: &str| {
            json!({"name": "a", "mime_type": "text/plain", "content": content}).to_string()
        };
        assert_eq!(check(&args(&"x".repeat(MAX_ARTIFACT_BYTES))), Ok(()));
        let why = check(&args(&"é".repeat(MAX_ARTIFACT_BYTES / 2 + 1))).unwrap_err();
        assert!(why.starts_with("/content: 1048578 bytes"), "{why}");
    }

    #[test]
    fn the_schema_takes_mime_types_with_parameters() {
        let schemas = crate::schema::Schemas::new();
        let problems = |mime: &str| {
            let args = json!({"name": "a", "mime_type": mime, "content": ""});
            schemas
                .problems(NAME, &definition().input_schema, &args)
                .len()
        };
        assert_eq!(problems("text/plain"), 0);
        assert_eq!(problems("application/vnd.x+json; charset=utf-8"), 0);
        assert_eq!(problems("text"), 1);
        assert_eq!(problems("text/pl ain"), 1);
    }
}
