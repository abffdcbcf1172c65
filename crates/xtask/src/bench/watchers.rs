//! What watchers of all events of a namespace cost: the gateway's CPU time under a steady load of events,
//! without them and with a thousand of them, and the statements of an idle installation, without them
//! and with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::crowd::Crowd;
use super::drive::{Door, Gallery};
use super::house::House;

/// Watchers, and how many share a connection.
const WATCHERS: usize = 1000;
const A_CONNECTION: usize = 100;
/// Gated runs a second: with fifteen events each that is about two hundred events a second.
const RUNS_A_SECOND: u32 = 13;
/// How long a load lasts, and how long nothing happens.
const LOAD: Duration = Duration::from_secs(15);
const QUIET: Duration = Duration::from_secs(10);

/// What was measured.
pub(super) struct Watchers {
    pub(super) watchers: usize,
    /// As one watcher counts them.
    pub(super) events_per_s: f64,
    /// Cores of the gateway under the load, without a watcher of events.
    pub(super) cores_alone: f64,
    /// The same with all of them.
    pub(super) cores_watched: f64,
    /// What all of them received, of what they would have if none had missed anything.
    pub(super) received_of_sent: f64,
    /// How often one was told that events may be missing.
    pub(super) gaps: u64,
    /// Statements a second while nothing happens; none where nobody counts.
    pub(super) statements_idle: Option<f64>,
    pub(super) statements_idle_watched: Option<f64>,
}

#[derive(Default)]
struct Counts {
    events: AtomicU64,
    first: AtomicU64,
    gaps: AtomicU64,
}

/// Measures.
pub(super) fn measure(crowd: &Crowd, house: &House, quick: bool) -> Result<Watchers> {
    let (watchers, load) = if quick {
        (20, Duration::from_secs(3))
    } else {
        (WATCHERS, LOAD)
    };
    eprintln!("bench: warming up");
    crowd.gated_runs(32, 8)?;
    let statements_idle = quiet(house, quick)?;
    eprintln!("bench: {RUNS_A_SECOND} runs a second without watchers");
    let cores_alone = crowd.one(async |door| cores(house, door, load).await)?;
    crowd.one(async |door| {
        let counts = Arc::new(Counts::default());
        watch(house, watchers, &counts).await?;
        let statements_idle_watched = quiet(house, quick)?;
        let before = counts.first.load(Ordering::Relaxed);
        let all_before = counts.events.load(Ordering::Relaxed);
        eprintln!("bench: {RUNS_A_SECOND} runs a second with {watchers} watchers");
        let began = Instant::now();
        let cores_watched = cores(house, door, load).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let seconds = began.elapsed().as_secs_f64();
        let first = counts.first.load(Ordering::Relaxed) - before;
        let all = counts.events.load(Ordering::Relaxed) - all_before;
        Ok(Watchers {
            watchers,
            events_per_s: number(first) / seconds,
            cores_alone,
            cores_watched,
            received_of_sent: number(all) / (number(first) * number(watchers as u64)).max(1.0),
            gaps: counts.gaps.load(Ordering::Relaxed),
            statements_idle,
            statements_idle_watched,
        })
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts of a short measurement")]
fn number(count: u64) -> f64 {
    count as f64
}

/// Opens all watchers; each counts what it gets.
async fn watch(house: &House, watchers: usize, counts: &Arc<Counts>) -> Result<()> {
    let mut opened = 0;
    while opened < watchers {
        let mut gallery = Gallery::connect(&house.address, &house.admin).await?;
        for _ in 0..A_CONNECTION.min(watchers - opened) {
            let mut stream = gallery.watch().await?;
            let (counts, is_first) = (Arc::clone(counts), opened == 0);
            opened += 1;
            // It ends with the services.
            tokio::spawn(async move {
                while let Ok(Some(sent)) = stream.message().await {
                    let came = sent.events.len() as u64;
                    counts.events.fetch_add(came, Ordering::Relaxed);
                    counts
                        .gaps
                        .fetch_add(u64::from(sent.gap), Ordering::Relaxed);
                    if is_first {
                        counts.first.fetch_add(came, Ordering::Relaxed);
                    }
                }
            });
        }
    }
    Ok(())
}

/// Cores that the gateway, or the one process, uses while runs come at a steady pace.
async fn cores(house: &House, door: &Door, load: Duration) -> Result<f64> {
    let before = gateway(house)?;
    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RUNS_A_SECOND);
    let mut runs = FuturesUnordered::new();
    while began.elapsed() < load {
        tokio::select! {
            _ = ticks.tick() => {
                let mut door = door.clone();
                runs.push(async move { door.gated_run().await });
            }
            Some(done) = runs.next() => drop(done?),
        }
    }
    while let Some(done) = runs.next().await {
        done?;
    }
    Ok((gateway(house)? - before) / began.elapsed().as_secs_f64())
}

/// CPU seconds of whoever serves the watchers.
fn gateway(house: &House) -> Result<f64> {
    let cpu = house.cpu()?;
    let serves = |name: &str| name == "gateway" || name == "sayso";
    let found = cpu.iter().find(|(name, _)| serves(name));
    Ok(found.context("there is a gateway")?.1)
}

/// Statements a second while nothing happens.
fn quiet(house: &House, quick: bool) -> Result<Option<f64>> {
    let Some(bookkeeper) = house.bookkeeper() else {
        return Ok(None);
    };
    if !bookkeeper.count_statements()? {
        return Ok(None);
    }
    let quiet = if quick { Duration::from_secs(3) } else { QUIET };
    std::thread::sleep(quiet);
    let statements = bookkeeper.statements()?;
    Ok(Some(number(statements.all) / quiet.as_secs_f64()))
}
