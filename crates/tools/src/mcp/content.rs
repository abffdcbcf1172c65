//! A server's result as text for the model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Stands for what a newer MCP may send.
const UNKNOWN: &str = "[content of a kind that sayso does not know]";

/// The text of a result: its text blocks, one after the other, with a line for each block that is
/// none; without any block, the structured content as JSON.
pub(crate) fn describe(result: &CallToolResult) -> String {
    let text = if result.content.is_empty() {
        result
            .structured_content
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    } else {
        let blocks: Vec<String> = result.content.iter().map(block).collect();
        let has_text = result
            .content
            .iter()
            .any(|block| matches!(block, ContentBlock::Text(_)));
        match &result.structured_content {
            Some(structured) if !has_text => format!("{structured}\n{}", blocks.join("\n")),
            Some(_) | None => blocks.join("\n"),
        }
    };
    text.replace('\0', "\u{fffd}")
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => data("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => data("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {uri}]\n{text}")
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let mime_type = mime_type.as_deref().unwrap_or("of unknown type");
                format!("[resource {uri}: {mime_type}, {} bytes]", decoded(blob))
            }
            _ => UNKNOWN.to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            let name = link.title.as_ref().unwrap_or(&link.name);
            let mut line = format!("[link to {}: {name}", link.uri);
            if let Some(description) = &link.description {
                line.push_str(&format!(", {description}"));
            }
            line.push(']');
            line
        }
        _ => UNKNOWN.to_owned(),
    }
}

fn data(kind: &str, mime_type: &str, base64: &str) -> String {
    format!("[{kind}: {mime_type}, {} bytes]", decoded(base64))
}

/// The number of bytes that base64 text stands for.
fn decoded(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text_of(result: serde_json::Value) -> String {
        describe(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn text_blocks_are_joined_and_others_described() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "x/y", "blob": "aGk="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "the third"},
            {"type": "text", "text": "t\u{0}wo"},
        ], "structuredContent": {"n": 1}});
        assert_eq!(
            text_of(result),
            "one\n[image: image/png, 5 bytes]\n[resource file:///a]\ninside\n\
             [resource file:///b: x/y, 2 bytes]\n[link to file:///c: c, the third]\nt\u{fffd}wo"
        );
    }

    #[test]
    fn structured_content_stands_in_for_text() {
        assert_eq!(
            text_of(json!({"content": [], "structuredContent": {"n": 1}})),
            r#"{"n":1}"#
        );
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
        assert_eq!(
            text_of(json!({"content": [image], "structuredContent": [1]})),
            "[1]\n[image: image/png, 2 bytes]"
        );
        assert_eq!(text_of(json!({"content": []})), "");
    }
}
