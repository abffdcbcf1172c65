//! Which method answers which verb and path.

use http::Method;
use http::uri::PathAndQuery;
use prost_reflect::{Kind, MessageDescriptor, MethodDescriptor};
use sayso_wire::json::pool;
use sayso_wire::rule::{Rule, RuleBody, rules};

use super::template::{Captured, Template};

/// The package whose methods stand here.
pub(crate) const PACKAGE: &str = "sayso.v1";

/// One place where a method stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The verb.
    pub(crate) verb: Method,
    /// The path, as the API's description has it.
    pub(crate) path: String,
    /// The path, taken apart.
    pub(crate) template: Template,
    /// What the request's body is.
    pub(crate) body: PlaceBody,
    /// The method.
    pub(crate) method: MethodDescriptor,
    /// Where the method stands over gRPC.
    pub(crate) rpc: PathAndQuery,
}

/// What a request's body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlaceBody {
    /// There is none.
    None,
    /// The fields of the request that are not in the path.
    Json,
    /// Bytes, taken as they come, each piece as a message of its own with this field.
    Pieces(String),
}

/// Why the API cannot be served over HTTP: a fault of the build.
#[derive(Debug, thiserror::Error)]
#[error("{method} cannot stand at {verb} {path}: {why}")]
pub struct BadRule {
    method: String,
    verb: &'static str,
    path: String,
    why: &'static str,
}

impl Place {
    fn of(method: &MethodDescriptor, rule: Rule) -> Result<Place, BadRule> {
        let bad = |why| BadRule {
            method: method.full_name().to_owned(),
            verb: rule.verb,
            path: rule.path.clone(),
            why,
        };
        let input = method.input();
        let template = Template::parse(&rule.path);
        for name in template.fields() {
            let field = input.get_field_by_name(name);
            if !field.is_some_and(|field| !field.is_list() && field.kind() == Kind::String) {
                return Err(bad("a field of its path is not a text of the request"));
            }
        }
        let body = match &rule.body {
            RuleBody::None => PlaceBody::None,
            RuleBody::Whole => PlaceBody::Json,
            RuleBody::Field(name) => PlaceBody::Pieces(name.clone()),
        };
        let fits = match &body {
            PlaceBody::None | PlaceBody::Json => !method.is_client_streaming(),
            PlaceBody::Pieces(name) => method.is_client_streaming() && is_bytes(&input, name),
        };
        if !fits {
            return Err(bad(
                "a body that is one field is for streams of bytes, and they have no other",
            ));
        }
        let rpc = format!("/{}/{}", method.parent_service().full_name(), method.name());
        Ok(Place {
            verb: Method::from_bytes(rule.verb.as_bytes()).map_err(|_| bad("no such verb"))?,
            rpc: PathAndQuery::try_from(rpc).map_err(|_| bad("its name is no path"))?,
            path: rule.path,
            template,
            body,
            method: method.clone(),
        })
    }
}

impl Place {
    /// Whether it is answered by a stream.
    pub(crate) fn is_watch(&self) -> bool {
        self.method.is_server_streaming()
    }
}

fn is_bytes(input: &MessageDescriptor, name: &str) -> bool {
    let field = input.get_field_by_name(name);
    field.is_some_and(|field| !field.is_list() && field.kind() == Kind::Bytes)
}

/// Every place of the public API.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    places: Vec<Place>,
}

/// What stands at a path: at least one place, each with another verb.
pub(crate) struct Found<'t, 'p> {
    places: Vec<(&'t Place, Captured<'p>)>,
}

impl Table {
    /// Reads the rules of a package's methods.
    ///
    /// # Errors
    ///
    /// When a rule cannot be served: a fault of the build.
    pub(crate) fn of(package: &str) -> Result<Table, BadRule> {
        let services = pool().services();
        let public = services.filter(|service| service.parent_file().package_name() == package);
        let mut places = Vec::new();
        for service in public {
            for method in service.methods() {
                for rule in rules(&method) {
                    places.push(Place::of(&method, rule)?);
                }
            }
        }
        Ok(Table { places })
    }

    /// Has the places of a method answer another verb as well, with a body.
    pub(crate) fn also(&mut self, method: &str, verb: &Method) {
        let own = self
            .places
            .iter()
            .filter(|place| place.method.name() == method);
        let more: Vec<Place> = own
            .map(|place| Place {
                verb: verb.clone(),
                body: PlaceBody::Json,
                ..place.clone()
            })
            .collect();
        self.places.extend(more);
    }

    /// Every place.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// What stands at a path; `None` if nothing does. A verb at its end counts before a field that
    /// could hold it.
    pub(crate) fn find<'t, 'p>(&'t self, path: &'p str) -> Option<Found<'t, 'p>> {
        let mut places: Vec<_> = self
            .places
            .iter()
            .filter_map(|place| Some((place, place.template.read(path)?)))
            .collect();
        if places.iter().any(|(place, _)| place.template.has_verb()) {
            places.retain(|(place, _)| place.template.has_verb());
        }
        (!places.is_empty()).then_some(Found { places })
    }
}

impl<'t, 'p> Found<'t, 'p> {
    /// The place that answers a verb. What answers GET answers HEAD.
    pub(crate) fn answering(self, verb: &Method) -> Option<(&'t Place, Captured<'p>)> {
        let verb = match verb {
            &Method::HEAD => &Method::GET,
            verb => verb,
        };
        let mut places = self.places.into_iter();
        places.find(|(place, _)| place.verb == *verb)
    }

    /// What is answered here, for the header `Allow`.
    pub(crate) fn allowed(&self) -> String {
        let mut verbs: Vec<&str> = self.places.iter().map(|(p, _)| p.verb.as_str()).collect();
        if verbs.contains(&"GET") {
            verbs.push("HEAD");
        }
        verbs.push("OPTIONS");
        verbs.sort_unstable();
        verbs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(verb: Method, path: &str) -> Option<String> {
        let table = Table::of(PACKAGE).unwrap();
        let (place, _) = table.find(path)?.answering(&verb)?;
        Some(place.method.name().to_owned())
    }

    #[test]
    fn s6_13_each_verb_and_path_leads_to_its_method() {
        for (verb, path, method) in [
            (Method::POST, "/v1/runs", "StartRun"),
            (Method::GET, "/v1/runs", "ListRuns"),
            (Method::HEAD, "/v1/runs/run_1", "GetRun"),
            (Method::GET, "/v1/runs/run_1:watch", "WatchRun"),
            (Method::POST, "/v1/approvals/apr_1:decide", "DecideApproval"),
            (Method::GET, "/v1/approvals:watch", "WatchApprovals"),
            (Method::PUT, "/v1/agents/desk/role", "AttachRole"),
            (Method::POST, "/v1/runs:import", "ImportRun"),
        ] {
            assert_eq!(at(verb, path).as_deref(), Some(method), "{path}");
        }
        // A verb is no part of an id.
        assert_eq!(at(Method::GET, "/v1/runs/run_1:cancel"), None);
        assert_eq!(at(Method::DELETE, "/v1/runs"), None);
        assert_eq!(at(Method::GET, "/v2/runs"), None);
        let table = Table::of(PACKAGE).unwrap();
        let allowed = |path| table.find(path).map(|found| found.allowed());
        assert_eq!(
            allowed("/v1/runs").as_deref(),
            Some("GET, HEAD, OPTIONS, POST")
        );
        assert_eq!(
            allowed("/v1/runs/x:cancel").as_deref(),
            Some("OPTIONS, POST")
        );
    }
}
