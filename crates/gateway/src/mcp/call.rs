//! Calls of the public API, with the credentials of whoever asked.

use http::HeaderMap;
use http::request::Parts;
use sayso_service::error::Coded;
use sayso_service::peer::Peer;
use sayso_wire::v1;
use sayso_wire::v1::approval_service_client::ApprovalServiceClient;
use sayso_wire::v1::run_service_client::RunServiceClient;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Response, Status};

use crate::auth::NAMESPACE_HEADER;

/// What goes along with a call: whose it is, which namespace they mean, and its place in a trace.
const CARRIED: [&str; 4] = [
    "authorization",
    NAMESPACE_HEADER,
    "traceparent",
    "tracestate",
];

/// The public API.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    api: Peer,
}

impl Calls {
    pub(super) fn new(api: Peer) -> Calls {
        Calls { api }
    }

    pub(super) async fn list_approvals(
        &self,
        caller: Option<&Parts>,
        message: v1::ListApprovalsRequest,
    ) -> Result<v1::ListApprovalsResponse, Coded> {
        told(
            self.approvals()
                .list_approvals(request(caller, message))
                .await,
        )
    }

    pub(super) async fn decide_approval(
        &self,
        caller: Option<&Parts>,
        message: v1::DecideApprovalRequest,
    ) -> Result<v1::DecideApprovalResponse, Coded> {
        told(
            self.approvals()
                .decide_approval(request(caller, message))
                .await,
        )
    }

    pub(super) async fn start_run(
        &self,
        caller: Option<&Parts>,
        message: v1::StartRunRequest,
    ) -> Result<v1::StartRunResponse, Coded> {
        told(self.runs().start_run(request(caller, message)).await)
    }

    pub(super) async fn get_run(
        &self,
        caller: Option<&Parts>,
        message: v1::GetRunRequest,
    ) -> Result<v1::GetRunResponse, Coded> {
        told(self.runs().get_run(request(caller, message)).await)
    }

    fn approvals(&self) -> ApprovalServiceClient<Peer> {
        let client = ApprovalServiceClient::new(self.api.clone());
        client.max_decoding_message_size(usize::MAX)
    }

    fn runs(&self) -> RunServiceClient<Peer> {
        let client = RunServiceClient::new(self.api.clone());
        client.max_decoding_message_size(usize::MAX)
    }
}

fn told<M>(answer: Result<Response<M>, Status>) -> Result<M, Coded> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(Coded::from_status(&status)),
    }
}

/// A request of the caller whose HTTP request this is; over standard input the connection brings the
/// credentials.
fn request<M>(caller: Option<&Parts>, message: M) -> Request<M> {
    let Some(parts) = caller else {
        return Request::new(message);
    };
    let mut headers = HeaderMap::new();
    for name in CARRIED {
        for value in parts.headers.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    let metadata = MetadataMap::from_headers(headers);
    Request::from_parts(metadata, Extensions::default(), message)
}
