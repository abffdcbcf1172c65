//! What surrounds every call, whether it came over TCP or from a sibling in
//! this process: its deadline, and its panics.
//!
//! A handler that panics must cost its own call and nothing else. Over TCP the
//! panic would take the task of the connection with it, and with that every
//! other call on it; in process it would unwind into the caller. Both get
//! `INTERNAL` instead, with an id that the log knows. The body of an answer is
//! handler code too (the stream behind it is polled while it is sent), so it is
//! guarded alike.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::error::{Coded, Kind, error_id};

/// The answer of a call, within its deadline and whatever its handler does.
pub(crate) async fn answer<E>(
    deadline: Option<Duration>,
    call: impl Future<Output = Result<Response<Body>, E>>,
) -> Result<Response<Body>, E> {
    let call = AssertUnwindSafe(call).catch_unwind();
    let caught = match deadline {
        None => call.await,
        Some(deadline) => match tokio::time::timeout(deadline, call).await {
            Ok(caught) => caught,
            Err(_elapsed) => return Ok(status(too_late())),
        },
    };
    match caught {
        Ok(Ok(response)) => Ok(response.map(|body| {
            if http_body::Body::is_end_stream(&body) {
                body
            } else {
                Body::new(GuardedBody(Some(body)))
            }
        })),
        Ok(Err(error)) => Err(error),
        Err(panic) => Ok(status(panicked(&*panic))),
    }
}

/// A refusal as a whole answer.
pub(crate) fn status<B: Default>(coded: Coded) -> Response<B> {
    Status::from(coded).into_http()
}

/// How long the caller of a gRPC call waits, as it said in `grpc-timeout`.
pub(crate) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let digits = text.len().checked_sub(1)?;
    if !(1..=8).contains(&digits) || !text.as_bytes()[..digits].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

fn too_late() -> Coded {
    Coded::new(
        Kind::DeadlineExceeded,
        "rpc.deadline_exceeded",
        "The deadline passed before there was an answer; whether it was done is unknown.",
    )
}

fn panicked(panic: &(dyn Any + Send)) -> Coded {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let id = error_id();
    tracing::error!(error_id = %id, "a handler panicked: {said}");
    Coded::new(
        Kind::Internal,
        "internal",
        format!("Something failed on our side. Ask the operator for the log of {id}."),
    )
    .with("error_id", id)
}

/// A body whose panics end the stream with a status. Gone once it panicked:
/// what it left behind is not polled again.
struct GuardedBody(Option<Body>);

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let polled = AssertUnwindSafe(|| Pin::new(body).poll_frame(cx));
        match std::panic::catch_unwind(polled) {
            Ok(frame) => frame,
            Err(panic) => {
                self.0 = None;
                let status = Status::from(panicked(&*panic));
                let mut trailers = HeaderMap::new();
                match status.add_header(&mut trailers) {
                    Ok(()) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                    Err(status) => Poll::Ready(Some(Err(status))),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(body) => http_body::Body::size_hint(body),
            None => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_read_as_grpc_writes_them() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("a header value"));
            deadline(&headers)
        };
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(
            read("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("1u"), Some(Duration::from_micros(1)));
        for bad in ["", "S", "5", "+5S", "-1S", "123456789S", "5x", "5 S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(deadline(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_past_its_deadline_is_answered() {
        let never = std::future::pending::<Result<Response<Body>, std::convert::Infallible>>();
        let response = answer(Some(Duration::from_secs(1)), never).await;
        let status = Status::from_header_map(response.expect("infallible").headers());
        assert_eq!(
            status.expect("a status").code(),
            tonic::Code::DeadlineExceeded
        );
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_call_alone() {
        let call = async {
            if true {
                panic!("a fault of the handler");
            }
            Ok::<Response<Body>, std::convert::Infallible>(Response::default())
        };
        let response = answer(None, call).await.expect("infallible");
        let status = Status::from_header_map(response.headers()).expect("a status");
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(!status.message().contains("fault of the handler"));
        assert_eq!(Coded::from_status(&status).code, "internal");
    }
}
