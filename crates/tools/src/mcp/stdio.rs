//! MCP over the pipes of a process.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, GetExtensions, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

use super::dispatch::Dispatch;
use super::output::Overheard;

/// Both pipes. Writes go out one at a time, and a call is asked for when its turn has come.
pub(super) struct Pipes {
    inner: AsyncRwTransport<RoleClient, Overheard<ChildStdout>, ChildStdin>,
    turn: Arc<Mutex<()>>,
}

impl Pipes {
    pub(super) fn new(stdout: Overheard<ChildStdout>, stdin: ChildStdin) -> Self {
        Self {
            // The reader has the limit: it breaks the connection instead of dropping the line.
            inner: AsyncRwTransport::new(stdout, stdin).with_max_line_length(usize::MAX),
            turn: Arc::default(),
        }
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (dispatch, is_hello) = match &item {
            JsonRpcMessage::Request(request) => (
                request.request.extensions().get::<Dispatch>().cloned(),
                matches!(request.request, ClientRequest::InitializeRequest(_)),
            ),
            _ => (None, false),
        };
        let turn = self.turn.clone();
        let write = self.inner.send(item);
        async move {
            let _turn = turn.lock().await;
            if dispatch.as_ref().is_some_and(|dispatch| !dispatch.begin()) {
                return Err(io::Error::other("the call was withheld"));
            }
            let written = write.await;
            if let (Err(_), Some(dispatch)) = (&written, dispatch) {
                // The end of the line is missing, so nobody has read a request.
                dispatch.undelivered();
            }
            match written {
                // A process that has ended already may have said why: the reader comes to its end.
                Err(error) if is_hello && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            }
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.inner.close()
    }
}
