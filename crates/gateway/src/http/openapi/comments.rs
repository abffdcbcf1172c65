//! The comments of the API's description in proto.

use std::collections::HashMap;

use prost_reflect::FileDescriptor;
use sayso_wire::json::pool;

/// Every comment, by file and place.
pub(super) struct Comments(HashMap<(String, Vec<i32>), String>);

impl Comments {
    pub(super) fn of_the_api() -> Comments {
        let mut comments = HashMap::new();
        for file in pool().file_descriptor_protos() {
            let locations = file.source_code_info.iter().flat_map(|info| &info.location);
            for location in locations {
                let place = (file.name().to_owned(), location.path.clone());
                comments.insert(place, paragraphs(location.leading_comments()));
            }
        }
        Comments(comments)
    }

    /// What is said of the thing at this place of a file.
    pub(super) fn of(&self, file: &FileDescriptor, path: &[i32]) -> String {
        let place = (file.name().to_owned(), path.to_owned());
        self.0.get(&place).cloned().unwrap_or_default()
    }
}

/// The paragraphs of a comment, each on one line.
fn paragraphs(comment: &str) -> String {
    let lines = comment.lines().map(str::trim);
    let mut text = String::new();
    for line in lines {
        match (line, text.ends_with('\n') || text.is_empty()) {
            ("", true) => {}
            ("", false) => text.push_str("\n\n"),
            (line, true) => text.push_str(line),
            (line, false) => {
                text.push(' ');
                text.push_str(line);
            }
        }
    }
    text.trim_end().to_owned()
}
