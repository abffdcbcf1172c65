//! Path templates: `/v1/runs/{run_id}:cancel`.
//!
//! A field stands in a segment of its own and is never empty. A verb at the end belongs to the last
//! segment, behind its last colon; a colon that is meant as such is sent as `%3A`.

use percent_encoding::percent_decode_str;

/// A template, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    segments: Vec<Segment>,
    verb: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// The request's field of this name.
    Field(String),
}

/// What a path holds at a template's fields, in the template's order, as it was sent.
pub(crate) type Captured<'p> = Vec<&'p str>;

impl Template {
    /// Takes a template apart.
    pub(crate) fn parse(text: &str) -> Template {
        let text = text.strip_prefix('/').unwrap_or(text);
        // A colon within braces does not occur: fields have names.
        let (path, verb) = match text.rsplit_once(':') {
            Some((path, verb)) => (path, Some(verb.to_owned())),
            None => (text, None),
        };
        let segment = |segment: &str| {
            let field = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
            match field {
                // `=*` says that it is one segment, which every field is.
                Some(field) => Segment::Field(field.trim_end_matches("=*").to_owned()),
                None => Segment::Literal(segment.to_owned()),
            }
        };
        Template {
            segments: path.split('/').map(segment).collect(),
            verb,
        }
    }

    /// Whether it has a verb of its own.
    pub(crate) fn has_verb(&self) -> bool {
        self.verb.is_some()
    }

    /// The names of its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// What the path, which begins with `/`, holds at the fields; `None` if it is another path.
    pub(crate) fn read<'p>(&self, path: &'p str) -> Option<Captured<'p>> {
        let path = path.strip_prefix('/')?;
        let path = match &self.verb {
            Some(verb) => path.strip_suffix(verb.as_str())?.strip_suffix(':')?,
            None => path,
        };
        let mut given = path.split('/');
        let mut captured = Captured::new();
        for segment in &self.segments {
            let given = given.next()?;
            match segment {
                Segment::Literal(literal) if literal == given => {}
                Segment::Field(_) if !given.is_empty() => captured.push(given),
                Segment::Literal(_) | Segment::Field(_) => return None,
            }
        }
        given.next().is_none().then_some(captured)
    }
}

/// What was percent-encoded; `None` if it is not UTF-8.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(template: &str, path: &str) -> Option<Vec<String>> {
        let template = Template::parse(template);
        let captured = template.read(path)?;
        Some(captured.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_path_is_read_by_its_template() {
        let is = |fields: &[&str]| Some(fields.iter().map(|f| (*f).to_owned()).collect());
        assert_eq!(read("/v1/runs", "/v1/runs"), is(&[]));
        assert_eq!(read("/v1/runs/{run_id}", "/v1/runs/run_1"), is(&["run_1"]));
        let steps = "/v1/runs/{run_id}/steps";
        assert_eq!(read(steps, "/v1/runs/run_1/steps"), is(&["run_1"]));
        let cancel = "/v1/runs/{run_id}:cancel";
        assert_eq!(read(cancel, "/v1/runs/run_1:cancel"), is(&["run_1"]));
        assert_eq!(read(cancel, "/v1/runs/a:b:cancel"), is(&["a:b"]));
        for (template, path) in [
            ("/v1/runs/{run_id}", "/v1/runs/"),
            ("/v1/runs/{run_id}", "/v1/runs"),
            ("/v1/runs/{run_id}", "/v1/runs/a/b"),
            ("/v1/runs", "/v1/runs/"),
            (steps, "/v1/runs//steps"),
            (cancel, "/v1/runs/:cancel"),
            (cancel, "/v1/runs/run_1cancel"),
            (cancel, "/v1/runs/run_1:cancel/x"),
        ] {
            assert_eq!(read(template, path), None, "{template} {path}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_once() {
        assert_eq!(decoded("a%2Fb%253A").as_deref(), Some("a/b%3A"));
        assert_eq!(decoded("%ff"), None);
    }
}
