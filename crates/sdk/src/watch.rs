//! Watching a run over broken connections.
//!
//! A step is handed on once: what was seen is kept as the number of the next step, and after a break
//! the stream is opened again from there. A server that does not know that position says so with a
//! fresh start, which is handed on, and the numbers begin again.
//!
//! The stream may end in three ways that have to be told apart. The server ends it with the run; then
//! the last status seen is final. It ends early because the server is stopping, which is an error
//! that passes. Or a proxy closes it cleanly in the middle, which looks like the first way: so an
//! end without a final status is believed only after the run itself was asked.
//!
//! Text that was being written is lost with the connection and is void: the event
//! [`RunEvent::Interrupted`] says so, and the step of the whole answer comes later.

use std::time::Duration;

use sayso_wire::v1;
use sayso_wire::v1::watch_run_response::Event;
use tokio::time::Instant;
use tonic::Streaming;

use crate::{Client, Error};

/// The first and the longest pause before the stream is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How a run is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// The first step wanted; 0 and 1 mean from the start.
    pub from: u64,
    /// Leaves out the text of answers that are still being written.
    pub steps_only: bool,
    /// How long the server may be away before the watch gives up; counted from the last message.
    pub patience: Duration,
}

impl Default for WatchOptions {
    /// From the start, with text, over breaks of up to two minutes.
    fn default() -> Self {
        Self {
            from: 0,
            steps_only: false,
            patience: Duration::from_secs(120),
        }
    }
}

/// What a watch hands on.
#[derive(Debug)]
pub enum RunEvent {
    /// A message of the API.
    Message(v1::WatchRunResponse),
    /// The connection broke and is being made again. Text that was being written is void.
    Interrupted(Error),
}

/// A run being watched.
#[derive(Debug)]
pub struct RunWatch {
    client: Client,
    run: String,
    options: WatchOptions,
    /// The number of the next step.
    next: u64,
    stream: Option<Streaming<v1::WatchRunResponse>>,
    /// The status beside the last step, once one was said.
    status: v1::RunStatus,
    /// Since when nothing came, while the stream is broken.
    broken_since: Option<Instant>,
    pause: Duration,
    over: bool,
}

impl RunWatch {
    pub(crate) fn new(client: Client, run: String, options: WatchOptions) -> RunWatch {
        RunWatch {
            client,
            run,
            next: options.from.max(1),
            options,
            stream: None,
            status: v1::RunStatus::Unspecified,
            broken_since: None,
            pause: FIRST_PAUSE,
            over: false,
        }
    }

    /// The status beside the last step that had one; unspecified before the first.
    pub fn status(&self) -> v1::RunStatus {
        self.status
    }

    /// The next event; `None` once the run has ended and everything was handed on. After an error
    /// the watch is over.
    pub async fn next(&mut self) -> Option<Result<RunEvent, Error>> {
        while !self.over {
            let message = match self.message().await {
                Ok(message) => message,
                Err(error) => return Some(self.broken(error)),
            };
            match message {
                Some(message) => {
                    self.broken_since = None;
                    self.pause = FIRST_PAUSE;
                    if self.take(&message) {
                        return Some(Ok(RunEvent::Message(message)));
                    }
                }
                None => match self.has_ended().await {
                    Ok(true) => self.over = true,
                    Ok(false) => {
                        let why = Error::Unreachable {
                            server: self.client.server().to_owned(),
                            why: "the stream ended before the run did".to_owned(),
                            sent: true,
                        };
                        return Some(self.broken(why));
                    }
                    Err(error) => return Some(self.broken(error)),
                },
            }
        }
        None
    }

    /// The stream's next message, after it was opened if need be.
    async fn message(&mut self) -> Result<Option<v1::WatchRunResponse>, Error> {
        if self.broken_since.is_some() {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        if self.stream.is_none() {
            let request = v1::WatchRunRequest {
                run_id: self.run.clone(),
                from_sequence: self.next,
                steps_only: self.options.steps_only,
            };
            let answer = self.client.runs().watch_run(request).await;
            let answer = answer.map_err(|status| self.client.failed(&status))?;
            self.stream = Some(answer.into_inner());
            self.broken_since = None;
        }
        let stream = self.stream.as_mut().expect("it was opened above");
        let message = stream.message().await;
        message.map_err(|status| self.client.failed(&status))
    }

    /// Notes where a message leads; false for a step that was handed on before.
    fn take(&mut self, message: &v1::WatchRunResponse) -> bool {
        match &message.event {
            Some(Event::Step(step)) if step.sequence < self.next => return false,
            Some(Event::Step(step)) => {
                self.next = step.sequence + 1;
                let status = message.run_status();
                if status != v1::RunStatus::Unspecified {
                    self.status = status;
                }
            }
            Some(Event::FreshStart(_)) => {
                self.next = 1;
                self.status = v1::RunStatus::Unspecified;
            }
            Some(Event::Delta(_) | Event::Withdrawn(_)) | None => {}
        }
        true
    }

    /// Whether a stream that ended has ended with its run, and nothing is left to be read.
    async fn has_ended(&mut self) -> Result<bool, Error> {
        if is_final(self.status) {
            return Ok(true);
        }
        let run = self.client.get_run(&self.run).await?;
        if is_final(run.status()) && run.last_sequence < self.next {
            self.status = run.status();
            return Ok(true);
        }
        Ok(false)
    }

    fn broken(&mut self, error: Error) -> Result<RunEvent, Error> {
        self.stream = None;
        let since = *self.broken_since.get_or_insert_with(Instant::now);
        if error.may_pass() && since.elapsed() < self.options.patience {
            return Ok(RunEvent::Interrupted(error));
        }
        self.over = true;
        Err(error)
    }
}

/// Whether a run in this status has ended.
pub fn is_final(status: v1::RunStatus) -> bool {
    match status {
        v1::RunStatus::Completed | v1::RunStatus::Failed | v1::RunStatus::Cancelled => true,
        v1::RunStatus::Unspecified
        | v1::RunStatus::Pending
        | v1::RunStatus::Running
        | v1::RunStatus::AwaitingInput
        | v1::RunStatus::AwaitingApproval => false,
    }
}
