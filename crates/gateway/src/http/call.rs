//! Calls of the public API in this process: the same services behind the same authentication as over
//! gRPC, with messages that are encoded already.

use bytes::{Buf, BufMut, Bytes};
use futures::Stream;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName};
use sayso_service::peer::Peer;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};

use crate::auth::NAMESPACE_HEADER;

/// What a request says to every method, and is handed on as it is.
const HANDED_ON: [HeaderName; 6] = [
    AUTHORIZATION,
    HeaderName::from_static(NAMESPACE_HEADER),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("a2a-version"),
    HeaderName::from_static("a2a-extensions"),
];

/// The services of this process.
#[derive(Debug, Clone)]
pub(crate) struct Calls(Peer);

impl Calls {
    pub(crate) fn new(services: Peer) -> Calls {
        Calls(services)
    }

    /// One message in, one out.
    pub(crate) async fn unary(
        &self,
        rpc: PathAndQuery,
        headers: &HeaderMap,
        message: Bytes,
    ) -> Result<Bytes, Status> {
        let request = request(headers, message);
        let answer = self.grpc().unary(request, rpc, Encoded).await?;
        Ok(answer.into_inner())
    }

    /// One message in, many out.
    pub(crate) async fn watch(
        &self,
        rpc: PathAndQuery,
        headers: &HeaderMap,
        message: Bytes,
    ) -> Result<Streaming<Bytes>, Status> {
        let request = request(headers, message);
        let answer = self.grpc().server_streaming(request, rpc, Encoded).await?;
        Ok(answer.into_inner())
    }

    /// Many messages in, one out.
    pub(crate) async fn send(
        &self,
        rpc: PathAndQuery,
        headers: &HeaderMap,
        messages: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Bytes, Status> {
        let request = request(headers, messages);
        let answer = self.grpc().client_streaming(request, rpc, Encoded).await?;
        Ok(answer.into_inner())
    }

    fn grpc(&self) -> Grpc<Peer> {
        // What the services answer is theirs to limit.
        Grpc::new(self.0.clone()).max_decoding_message_size(usize::MAX)
    }
}

fn request<M>(headers: &HeaderMap, message: M) -> Request<M> {
    let mut handed_on = HeaderMap::new();
    for name in HANDED_ON {
        for value in headers.get_all(&name) {
            handed_on.append(name.clone(), value.clone());
        }
    }
    let mut request = Request::new(message);
    *request.metadata_mut() = MetadataMap::from_headers(handed_on);
    request
}

/// Messages that are encoded already.
#[derive(Debug, Clone, Copy, Default)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Encoded;
    type Decoder = Encoded;

    fn encoder(&mut self) -> Encoded {
        Encoded
    }

    fn decoder(&mut self) -> Encoded {
        Encoded
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
