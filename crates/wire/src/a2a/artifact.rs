//! What a task leaves behind.

use super::message::text_part;
use super::part::{is_json, to_value};
use super::v1;
use super::v1::part::Content;

/// The largest file that a task carries, in bytes; larger ones are fetched from their URL.
pub const INLINE_BYTES: u64 = 256 * 1024;

/// The id and name of the artifact that holds a run's output.
const OUTPUT: &str = "output";

/// A file that a run made (S9.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileArtifact {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its media type, as the run says.
    pub mime: String,
    /// Its bytes, or where they are fetched.
    pub content: Result<Vec<u8>, String>,
}

/// Where a file of a task is fetched, of a server that is reached under this URL.
pub fn file_url(url: &str, namespace: &str, agent: &str, run: &str, id: &str) -> String {
    format!("{url}/a2a/{namespace}/{agent}/tasks/{run}/artifacts/{id}")
}

/// A file as an artifact: JSON as data, anything else as a file.
pub fn file(file: FileArtifact) -> v1::Artifact {
    let content = match file.content {
        Err(url) => Content::Url(url),
        Ok(bytes) => match json_of(&file.mime, &bytes) {
            Some(data) => Content::Data(data),
            None => Content::Raw(bytes),
        },
    };
    v1::Artifact {
        artifact_id: file.id,
        name: file.name.clone(),
        parts: vec![v1::Part {
            content: Some(content),
            filename: file.name,
            media_type: file.mime,
            ..v1::Part::default()
        }],
        ..v1::Artifact::default()
    }
}

fn json_of(mime: &str, bytes: &[u8]) -> Option<prost_types::Value> {
    let media = mime.split(';').next().unwrap_or_default().trim();
    if !is_json(&media.to_ascii_lowercase()) {
        return None;
    }
    to_value(&serde_json::from_slice(bytes).ok()?)
}

/// A run's output as an artifact; none if it says nothing.
pub fn output(text: &str) -> Option<v1::Artifact> {
    (!text.is_empty()).then(|| v1::Artifact {
        artifact_id: OUTPUT.to_owned(),
        name: OUTPUT.to_owned(),
        parts: vec![text_part(text.to_owned())],
        ..v1::Artifact::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(mime: &str, bytes: &[u8]) -> Content {
        let made = file(FileArtifact {
            id: "art_1".into(),
            name: "a.txt".into(),
            mime: mime.into(),
            content: Ok(bytes.to_vec()),
        });
        let part = made.parts[0].clone();
        assert_eq!(
            (part.filename.as_str(), part.media_type.as_str()),
            ("a.txt", mime)
        );
        part.content.unwrap()
    }

    /// S9.4: a file stays a file, and JSON is data.
    #[test]
    fn s9_4_a_file_is_a_file_and_json_is_data() {
        assert_eq!(content("text/plain", b"x"), Content::Raw(b"x".to_vec()));
        assert!(matches!(
            content("application/json", b"{\"a\":1}"),
            Content::Data(_)
        ));
        assert!(matches!(content("application/json", b"{"), Content::Raw(_)));
        assert_eq!(output(""), None);
        assert_eq!(output("done").unwrap().artifact_id, "output");
    }
}
