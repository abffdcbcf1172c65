//! As much of the broker's protocol as it takes to look at a stream and to delete it.

use std::io::{Error, Result};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Asks the broker's own interface for something; the answer's JSON, be it a refusal.
pub(crate) async fn ask(port: u16, what: &str) -> Result<Value> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut lines = BufReader::new(stream);
    let request = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answers 1\r\nPUB $JS.API.{what} answers 0\r\n\r\n"
    );
    lines.write_all(request.as_bytes()).await?;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).await? == 0 {
            return Err(Error::other("the broker hung up"));
        }
        match line.split_whitespace().next() {
            Some("MSG") => {
                let mut body = String::new();
                lines.read_line(&mut body).await?;
                return serde_json::from_str(&body).map_err(Error::other);
            }
            Some("PING") => lines.write_all(b"PONG\r\n").await?,
            Some("-ERR") => return Err(Error::other(line)),
            _ => {}
        }
    }
}
