//! Files of tasks that are too large to be sent along, fetched by who sees the task.
//!
//! What a run made is nothing of ours: it is handed out to be saved, never to be shown as a page of this
//! server.

use axum::response::{IntoResponse, Response};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use sayso_run::{AgentName, Namespace};
use tonic::Status;

use super::door::Named;
use super::fault::{Fault, Told};
use super::tasks::seen;
use crate::auth::access::Access;
use crate::auth::session;
use crate::http::problem::Problem;
use crate::http::without_body;
use crate::{Shared, refuse};

/// The method whose callers may fetch files.
const GET_TASK: &str = "/lf.a2a.v1.A2AService/GetTask";

/// The type of a file whose own is no header's value.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Task and file of a path below an agent's door, if it is one of a file.
pub(super) fn at(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/tasks/")?;
    let (task, file) = rest.split_once("/artifacts/")?;
    let is_id = |text: &str| !text.is_empty() && !text.contains('/');
    (is_id(task) && is_id(file)).then_some((task, file))
}

/// The file.
pub(super) async fn answer(
    shared: &Shared,
    named: &Named,
    parts: &Parts,
    task: &str,
    file: &str,
) -> Result<Response, Told> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let problem = Problem::method_not_allowed("GET, HEAD").into_coded();
        return Err(Told::from(problem).with_http(StatusCode::METHOD_NOT_ALLOWED));
    }
    let access = Access::of(GET_TASK).expect("every method stands in the table");
    let session = session(&shared.auth, &parts.headers, access).await?;
    let namespace = Namespace::new(&named.namespace).map_err(|_| nothing())?;
    let agent = AgentName::new(&named.agent).map_err(|_| nothing())?;
    let offered = shared.offered.get(shared, &namespace, &agent).await?;
    let offered = offered.ok_or_else(nothing)?;
    let row = seen(shared, &session, &offered, task).await;
    let row = row.map_err(|status: Status| Told::from(&status))?;
    let found = shared.store.artifacts().get(&namespace, file).await;
    let found = found.map_err(|error| refuse::database("reading an artifact", error))?;
    let (artifact, bytes) = found
        .filter(|(artifact, _)| artifact.run == row.run)
        .ok_or_else(nothing)?;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    let mime = HeaderValue::from_str(&artifact.mime).unwrap_or(BYTES);
    headers.insert(CONTENT_TYPE, mime);
    for (name, value) in [
        (CONTENT_DISPOSITION, "attachment"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "private, no-store"),
        (ALLOW, "GET, HEAD"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(match parts.method {
        Method::HEAD => without_body(response),
        _ => response,
    })
}

/// Nobody can tell a file that is not there from one that is another's.
fn nothing() -> Told {
    let status = Fault::TaskNotFound.status("There is no such file here.", &[]);
    Told::from(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_below_its_task() {
        assert_eq!(at("/tasks/run_1/artifacts/art_1"), Some(("run_1", "art_1")));
        for other in [
            "/tasks/run_1",
            "/tasks//artifacts/a",
            "/tasks/a/artifacts/",
            "/tasks/a/artifacts/b/c",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
    }
}
