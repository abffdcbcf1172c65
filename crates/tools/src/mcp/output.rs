//! What a process says, kept within bounds.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// How much of the end of standard error is kept, in bytes.
const TAIL: usize = 2048;

/// How much of the start of standard output is kept, in bytes.
const START: usize = 200;

/// The largest message that a server may send, in bytes.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The last of what a process wrote to standard error.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<VecDeque<u8>>);

impl Tail {
    /// Reads to the end, keeping the last of it.
    pub(super) async fn follow(self: Arc<Self>, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = [0; 1024];
        // An error ends what can be read, as the end does.
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&chunk[..count]);
            let over = kept.len().saturating_sub(TAIL);
            kept.drain(..over);
        }
    }

    /// The text, without space around it.
    pub(super) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous())
            .trim()
            .to_owned()
    }
}

/// What is known of a process's standard output beside the messages in it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    start: Mutex<Vec<u8>>,
    too_long: std::sync::atomic::AtomicBool,
}

impl Heard {
    /// How the output starts, if that is not how a message starts.
    pub(super) fn noise(&self) -> Option<String> {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&start);
        let line = text.trim_start().lines().next()?.trim_end();
        (!line.starts_with('{')).then(|| line.to_owned())
    }

    /// Whether a message was larger than is taken.
    pub(super) fn too_long(&self) -> bool {
        self.too_long.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Standard output, overheard. A message over the limit breaks the connection: skipping it would
/// leave its caller waiting for an answer that came.
pub(super) struct Overheard<R> {
    inner: R,
    heard: Arc<Heard>,
    line: usize,
}

impl<R> Overheard<R> {
    pub(super) fn new(inner: R, heard: Arc<Heard>) -> Self {
        Self {
            inner,
            heard,
            line: 0,
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut start = self
            .heard
            .start
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let room = START.saturating_sub(start.len()).min(bytes.len());
        start.extend_from_slice(&bytes[..room]);
        drop(start);
        self.line = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => bytes.len() - end - 1,
            None => self.line + bytes.len(),
        };
        if self.line > MAX_MESSAGE {
            self.heard
                .too_long
                .store(true, std::sync::atomic::Ordering::Relaxed);
            return Err(io::Error::other("a message is too large"));
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Overheard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.hear(&buf.filled()[before..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_last_of_standard_error_is_kept() {
        let tail = Arc::new(Tail::default());
        let long = format!("{}the end\n", "x".repeat(10_000));
        tail.clone().follow(long.as_bytes()).await;
        let text = tail.text();
        assert_eq!(text.len(), TAIL - 1);
        assert!(text.ends_with("the end"));
    }

    #[tokio::test]
    async fn a_message_without_end_is_an_error() {
        let heard = Arc::new(Heard::default());
        let endless = tokio::io::repeat(b'x').take(MAX_MESSAGE as u64 + 10);
        let mut reader = Overheard::new(endless, heard.clone());
        let mut sink = tokio::io::sink();
        assert!(tokio::io::copy(&mut reader, &mut sink).await.is_err());
        assert!(heard.too_long());
        assert!(heard.noise().unwrap().starts_with("xxx"));
    }
}
