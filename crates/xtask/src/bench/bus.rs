//! What NATS counts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result};
use serde_json::Value;

/// Messages so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    /// That clients sent, requests and acknowledgements among them.
    pub(super) sent: u64,
    /// That clients were sent.
    pub(super) delivered: u64,
    /// That streams took in.
    pub(super) stored: u64,
}

impl Messages {
    /// Asks the server that tells on this port of loopback.
    pub(super) fn now(monitor: u16) -> Result<Self> {
        let server = get(monitor, "/varz")?;
        let streams = get(monitor, "/jsz?streams=true")?;
        let count = |value: &Value| value.as_u64().context("NATS tells no count");
        let stored = streams["account_details"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|account| account["stream_detail"].as_array().into_iter().flatten())
            .map(|stream| count(&stream["state"]["last_seq"]))
            .sum::<Result<u64>>()?;
        Ok(Self {
            sent: count(&server["in_msgs"])?,
            delivered: count(&server["out_msgs"])?,
            stored,
        })
    }
}

fn get(port: u16, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .context("the monitor of NATS cannot be reached")?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .context("the monitor of NATS broke off")?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .context("the monitor of NATS does not speak HTTP")?;
    serde_json::from_str(body).with_context(|| format!("NATS answers {path} with no JSON: {body}"))
}
