//! Reading one run again and again, over gRPC and over HTTP/JSON.
//!
//! Both are asked by one client with one request in flight, in turns, on one connection each, so that
//! the machine's drift falls on both alike. What the driver itself uses does not count.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::crowd::Crowd;
use super::house::House;
use super::quantile::Latencies;

/// Turns of each.
const TURNS: usize = 8;

/// What reading one run costs.
pub(super) struct Reads {
    pub(super) grpc: Read,
    pub(super) http: Read,
}

/// One way of reading.
pub(super) struct Read {
    pub(super) reads: usize,
    pub(super) latencies: Latencies,
    /// CPU seconds of the services and their servers.
    pub(super) cpu: f64,
}

/// Reads a run so often each way.
pub(super) fn measure(house: &House, crowd: &Crowd, reads: usize) -> Result<Reads> {
    crowd.one(async |door| {
        let run = door.pause().await?.run;
        let mut page = Page::open(house, &run).await?;
        let (mut grpc, mut http) = (Tally::default(), Tally::default());
        for turn in 0..=TURNS {
            let each = reads.div_ceil(TURNS);
            let over_grpc = Tally::of(house, each, async || door.read(&run).await).await?;
            let over_http = Tally::of(house, each, async || page.read().await).await?;
            // The first turn opens connections and fills caches.
            if turn > 0 {
                grpc.join(over_grpc);
                http.join(over_http);
            }
        }
        Ok(Reads {
            grpc: grpc.done(),
            http: http.done(),
        })
    })
}

#[derive(Default)]
struct Tally {
    took: Vec<Duration>,
    cpu: f64,
}

impl Tally {
    async fn of(
        house: &House,
        reads: usize,
        mut read: impl AsyncFnMut() -> Result<()>,
    ) -> Result<Tally> {
        let before = used(house)?;
        let mut took = Vec::with_capacity(reads);
        for _ in 0..reads {
            let asked = Instant::now();
            read().await?;
            took.push(asked.elapsed());
        }
        let cpu = used(house)? - before;
        Ok(Tally { took, cpu })
    }

    fn join(&mut self, other: Tally) {
        self.took.extend(other.took);
        self.cpu += other.cpu;
    }

    fn done(self) -> Read {
        Read {
            reads: self.took.len(),
            latencies: Latencies::of(self.took),
            cpu: self.cpu,
        }
    }
}

/// CPU seconds so far, without the driver's.
fn used(house: &House) -> Result<f64> {
    let cpu = house.cpu()?;
    let others = cpu.iter().filter(|(who, _)| *who != "driver");
    Ok(others.map(|(_, seconds)| seconds).sum())
}

/// One run's address over HTTP, on one connection.
struct Page {
    connection: SendRequest<Empty<Bytes>>,
    path: String,
    host: String,
    bearer: String,
}

impl Page {
    async fn open(house: &House, run: &str) -> Result<Page> {
        let host = house.address.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).await;
        let stream = stream.context("the gateway cannot be reached")?;
        stream.set_nodelay(true)?;
        let (connection, driving) = handshake(TokioIo::new(stream)).await?;
        // It ends with the connection, which the last request finds out.
        tokio::spawn(driving);
        Ok(Page {
            connection,
            path: format!("/v1/runs/{run}"),
            host,
            bearer: format!("Bearer {}", house.admin),
        })
    }

    async fn read(&mut self) -> Result<()> {
        let request = Request::get(&self.path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.bearer)
            .body(Empty::new())?;
        let answer = self.connection.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success() && !body.is_empty(),
            "a run is not read: {status}"
        );
        Ok(())
    }
}
