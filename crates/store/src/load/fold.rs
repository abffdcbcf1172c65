//! From rows to a folded run.

use sayso_driver::{LeaseRow, LoadError, Loaded, Written};
use sayso_run::{
    Corrupt, Digest, Head, Recorded, RunId, RunState, Seal, Step, StepError, WorkerId,
};

use crate::record::{Why, at, count, digest};

/// The lease columns as they are stored.
#[derive(Debug, Clone, Default)]
pub(super) struct RawLease {
    /// How many steps the row says there are.
    pub(super) seq: i64,
    pub(super) epoch: i64,
    pub(super) worker: Option<String>,
    pub(super) worker_alive: bool,
    pub(super) ready_at: Option<i64>,
    pub(super) published: i64,
    pub(super) paused: bool,
}

impl RawLease {
    fn read(self) -> Result<LeaseRow, Why> {
        let worker = self.worker.map(WorkerId::new).transpose();
        Ok(LeaseRow {
            epoch: count(self.epoch)?,
            worker: worker.map_err(|bad| bad.to_string())?,
            worker_alive: self.worker_alive,
            ready_at: self.ready_at.map(at),
            published: count(self.published)?,
            paused: self.paused,
        })
    }
}

/// A step as it is stored, borrowed from its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawStep<'r> {
    pub(super) seq: i64,
    pub(super) at: i64,
    pub(super) actor: &'r str,
    pub(super) kind: &'r str,
    pub(super) version: i64,
    pub(super) content: &'r str,
    pub(super) view: Option<&'r str>,
    pub(super) content_sha256: &'r [u8],
    pub(super) hash: &'r [u8],
    pub(super) seal_key: Option<&'r str>,
    pub(super) seal: Option<&'r [u8]>,
}

/// One run while its rows come in.
#[derive(Debug)]
pub(super) struct Folding {
    run: RunId,
    lease: RawLease,
    steps: Vec<Recorded>,
    unpublished: Vec<Written>,
    error: Option<LoadError>,
}

impl Folding {
    pub(super) fn new(run: RunId, lease: RawLease) -> Self {
        Self {
            run,
            lease,
            steps: Vec::with_capacity(16),
            unpublished: Vec::new(),
            error: None,
        }
    }

    /// Takes the next step, in order. After an error the rest is only passed over.
    pub(super) fn step(&mut self, raw: &RawStep<'_>) {
        if self.error.is_some() {
            return;
        }
        match self.read(raw) {
            Ok(recorded) => {
                if raw.seq > self.lease.published {
                    self.unpublished.push(Written {
                        recorded: recorded.clone(),
                        content: raw.content.to_owned(),
                        view: raw.view.map(str::to_owned),
                    });
                }
                self.steps.push(recorded);
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn read(&self, raw: &RawStep<'_>) -> Result<Recorded, LoadError> {
        let bad = |why: Why| LoadError::BadRow {
            run: self.run.clone(),
            why: format!("step {}: {why}", raw.seq),
        };
        let version = u16::try_from(raw.version).map_err(|_| unknown(&self.run, raw))?;
        let decoded = Step::decode(raw.kind, version, raw.content);
        let step = decoded.map_err(|error| match error {
            StepError::Unknown { .. } => unknown(&self.run, raw),
            StepError::Content { kind, source } => bad(format!("`{kind}`: {source}")),
        })?;
        let seal = match (raw.seal_key, raw.seal) {
            (Some(key), Some(mac)) => Some(Seal {
                key: key.to_owned(),
                mac: digest(mac).map_err(bad)?,
            }),
            _ => None,
        };
        let content_sha256 = digest(raw.content_sha256).map_err(bad)?;
        let seq = count(raw.seq).map_err(bad)?;
        // What was altered in the database must not be acted on (B10).
        let altered = |why: &str| {
            LoadError::Corrupt(Corrupt {
                run: self.run.clone(),
                seq,
                why: why.to_owned(),
            })
        };
        if Digest::of(raw.content.as_bytes()) != content_sha256 {
            return Err(altered("its content was changed"));
        }
        let recorded = Recorded {
            seq,
            at: at(raw.at),
            actor: raw
                .actor
                .parse()
                .map_err(|error: sayso_run::UnknownActor| bad(error.to_string()))?,
            step,
            content_sha256,
            hash: digest(raw.hash).map_err(bad)?,
            seal,
        };
        let head = self.steps.last().map_or(Head::START, Recorded::head);
        if recorded.follows(&head, version) {
            Ok(recorded)
        } else {
            Err(altered("it does not follow from the step before"))
        }
    }

    pub(super) fn finish(self) -> Result<Option<Loaded>, LoadError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let Some(state) = RunState::fold(&self.run, &self.steps)? else {
            return Ok(None);
        };
        if state.seq() != self.lease.seq.unsigned_abs() {
            return Err(LoadError::Corrupt(Corrupt {
                seq: state.seq() + 1,
                why: format!("its row counts {} steps", self.lease.seq),
                run: self.run,
            }));
        }
        let run = self.run;
        let lease = self
            .lease
            .read()
            .map_err(|why| LoadError::BadRow { run, why })?;
        Ok(Some(Loaded {
            state,
            unpublished: self.unpublished,
            lease,
        }))
    }
}

fn unknown(run: &RunId, raw: &RawStep<'_>) -> LoadError {
    LoadError::TooNew {
        run: run.clone(),
        what: format!("`{}` version {}", raw.kind, raw.version),
    }
}
