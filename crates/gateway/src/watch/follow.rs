//! One watcher of one run: what it is sent next.

use std::collections::VecDeque;
use std::sync::Arc;

use sayso_driver::RunRow;
use sayso_run::{Namespace, PrincipalId, RunId, Status, StepKind};
use sayso_service::error::Coded;
use sayso_store::{Store, StoredStep};
use sayso_wire::events::{Live, Told};
use sayso_wire::v1;
use sayso_wire::v1::watch_run_response::Event;
use serde::Deserialize;

use super::desk::{Found, News, Seat};
use super::whole::Standing;
use super::{Inner, Watching};
use crate::auth::{Lease, OpenStream};
use crate::refuse;
use crate::show;

/// How many steps are read at a time.
const PAGE: u32 = 64;

/// Where a watcher wants to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// The first step wanted; 0 and 1 mean from the start.
    pub(crate) from: u64,
    /// Leaves provisional text out.
    pub(crate) steps_only: bool,
}

/// A watcher's stream.
pub(crate) struct Follow {
    shared: Arc<Inner>,
    token: OpenStream,
    progress: Progress,
}

impl Watching {
    /// A watcher of a run, from a position on. A position that the run does not have gives a marked
    /// fresh start (B52). `sees` says whether the caller may see the runs of a requester.
    ///
    /// # Errors
    ///
    /// `run.not_found`, and when the database does not answer.
    pub(crate) async fn follow(
        &self,
        run: &RunId,
        lease: &Lease,
        position: Position,
        sees: impl Fn(&PrincipalId) -> bool,
    ) -> Result<Follow, Coded> {
        let text = (!position.steps_only).then(ProvisionalText::default);
        let mut progress = Progress {
            namespace: lease.caller().namespace.clone(),
            run: run.clone(),
            // The place first: nothing falls between what is read and what is heard.
            seat: self.inner.runs.watch(run),
            row: None,
            next: position.from.max(1),
            behind: true,
            ready: VecDeque::new(),
            ended: false,
            text,
        };
        progress.begin(&self.inner.store, sees).await?;
        Ok(Follow {
            shared: Arc::clone(&self.inner),
            token: lease.open(),
            progress,
        })
    }
}

impl Follow {
    /// The next message; none after the end. After an error the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Result<v1::WatchRunResponse, Coded>> {
        loop {
            if let Some(message) = self.progress.ready.pop_front() {
                return Some(Ok(message));
            }
            if self.progress.ended {
                return None;
            }
            let moved = tokio::select! {
                biased;
                why = self.token.ended() => Err(why),
                () = self.shared.stopping.cancelled() => Err(refuse::stopping()),
                moved = self.progress.advance(&self.shared.store) => moved,
            };
            if let Err(why) = moved {
                self.progress.ended = true;
                return Some(Err(why));
            }
        }
    }
}

/// A run counts more steps than it has.
#[derive(Debug, thiserror::Error)]
#[error("step {1} of {0} is missing")]
struct Gap(RunId, u64);

/// How far a watcher is.
struct Progress {
    namespace: Namespace,
    run: RunId,
    seat: Seat,
    /// The row as it was read, while steps up to its number are still to be read.
    row: Option<RunRow>,
    /// The number that is sent next.
    next: u64,
    /// There may be steps that have to be read, or the end may have come.
    behind: bool,
    ready: VecDeque<v1::WatchRunResponse>,
    ended: bool,
    /// None if only steps are wanted.
    text: Option<ProvisionalText>,
}

impl Progress {
    /// Reads what there is. From the start the timeline alone says everything, if it fits one page;
    /// otherwise the row is read.
    async fn begin(
        &mut self,
        store: &Store,
        sees: impl Fn(&PrincipalId) -> bool,
    ) -> Result<(), Coded> {
        if self.next == 1 {
            let steps = self.page(store).await?;
            if steps.is_empty() {
                return Err(refuse::no_run());
            }
            let is_whole = steps.len() < PAGE as usize;
            if let Some(standing) = Standing::of(&self.run, &steps).filter(|_| is_whole) {
                if !sees(&standing.requester) {
                    return Err(refuse::no_run());
                }
                let last = steps.len() as u64;
                self.push_steps(&steps, last, standing.status);
                self.behind = false;
                self.ended = is_over(standing.status, standing.open_calls);
                return Ok(());
            }
        }
        let row = self.read_row(store).await?;
        if !sees(&row.principal) {
            return Err(refuse::no_run());
        }
        if self.next > row.seq + 1 {
            self.push(Event::FreshStart(v1::FreshStart {
                asked_sequence: self.next,
                last_sequence: row.seq,
            }));
            self.next = 1;
        }
        self.row = Some(row);
        Ok(())
    }

    async fn advance(&mut self, store: &Store) -> Result<(), Coded> {
        if self.behind {
            return self.read(store).await;
        }
        match self.seat.next().await {
            Found::News(News::Step { seq, told }) => self.hear(seq, told),
            Found::News(News::Text(live)) => self.hear_text(Arc::unwrap_or_clone(live)),
            Found::News(News::TextLost) => self.void_text(),
            Found::News(News::Look) => self.behind = true,
            Found::Missed => {
                self.behind = true;
                self.void_text();
            }
        }
        Ok(())
    }

    /// Reads the row, then steps up to its number: so the status that is sent beside the last of
    /// them is the one that they led to. Later steps are heard of, or read the next time.
    async fn read(&mut self, store: &Store) -> Result<(), Coded> {
        let row = match self.row.take() {
            Some(row) => row,
            None => self.read_row(store).await?,
        };
        if self.next <= row.seq {
            let steps = self.page(store).await?;
            let before = self.next;
            self.push_steps(&steps, row.seq, row.status);
            if self.next == before {
                let gap = Gap(self.run.clone(), self.next);
                return Err(Coded::internal("reading steps", &gap));
            }
            if self.next <= row.seq {
                self.row = Some(row);
                return Ok(());
            }
        }
        self.behind = false;
        // Nothing follows in a copy, wherever the original stood.
        self.ended = is_over(row.status, row.open_calls) || row.imported_from.is_some();
        Ok(())
    }

    async fn read_row(&self, store: &Store) -> Result<RunRow, Coded> {
        let found = store.runs().get(&self.namespace, &self.run).await;
        let found = found.map_err(|error| refuse::database("reading a run", error))?;
        found.ok_or_else(refuse::no_run)
    }

    async fn page(&self, store: &Store) -> Result<Vec<StoredStep>, Coded> {
        let after = self.next - 1;
        let steps = store
            .runs()
            .steps(&self.namespace, &self.run, after, PAGE)
            .await;
        steps.map_err(|error| refuse::database("reading steps", error))
    }

    /// Sends steps up to number `last`, beside which stands where the run is.
    fn push_steps(&mut self, steps: &[StoredStep], last: u64, status: Status) {
        for step in steps {
            if step.seq != self.next || step.seq > last {
                break;
            }
            let status = (step.seq == last).then_some(status);
            self.push_step(show::step(step), status);
        }
    }

    fn hear(&mut self, seq: u64, told: Option<Arc<Told>>) {
        match told {
            _ if seq < self.next => {}
            Some(told) if seq == self.next => {
                let Told { step, status } = Arc::unwrap_or_clone(told);
                self.ended = ends(&step.r#type, status);
                self.behind = may_end(&step.r#type, status);
                self.push_step(step, Some(status));
            }
            // A number is missing, or the event was too large to carry its step.
            Some(_) | None => self.behind = true,
        }
    }

    fn push_step(&mut self, step: v1::RunStep, status: Option<Status>) {
        if let Some(text) = &mut self.text {
            text.settle(&step);
        }
        self.next = step.sequence + 1;
        self.ready.push_back(v1::WatchRunResponse {
            event: Some(Event::Step(step)),
            run_status: status
                .map_or(v1::RunStatus::Unspecified, v1::RunStatus::from)
                .into(),
        });
    }

    fn push(&mut self, event: Event) {
        self.ready.push_back(v1::WatchRunResponse {
            event: Some(event),
            run_status: v1::RunStatus::Unspecified.into(),
        });
    }

    fn hear_text(&mut self, live: Live) {
        if let Some(text) = &mut self.text
            && text.passes(&live)
        {
            self.push(live.into());
        }
    }

    fn void_text(&mut self) {
        let void = self.text.as_mut().and_then(ProvisionalText::void);
        if let Some(cycle) = void {
            self.push(Event::Withdrawn(v1::DeltaWithdrawn { cycle }));
        }
    }
}

/// Whether nothing more will come of a run: a cancelled one still waits for the results of calls
/// that were sent (S2.4).
fn is_over(status: Status, open_calls: bool) -> bool {
    match status {
        Status::Completed | Status::Failed => true,
        Status::Cancelled => !open_calls,
        Status::Pending | Status::Running | Status::AwaitingInput | Status::AwaitingApproval => {
            false
        }
    }
}

/// Whether this step is the last one, as its event alone says. `completion` and `error` are the last
/// of their append, and nothing follows them but a retry.
fn ends(kind: &str, status: Status) -> bool {
    let last = kind == StepKind::Completion.as_str() || kind == StepKind::Failed.as_str();
    last && matches!(status, Status::Completed | Status::Failed)
}

/// Whether this step may be the last one, which only the row can say.
fn may_end(kind: &str, status: Status) -> bool {
    let last = kind == StepKind::Cancelled.as_str() || kind == StepKind::ToolResult.as_str();
    last && status == Status::Cancelled
}

/// What a watcher was sent of answers that are not settled yet.
#[derive(Debug, Default)]
struct ProvisionalText {
    /// The last cycle whose answer is a step.
    settled: u32,
    /// The cycle whose text was sent last.
    writing: Option<u32>,
    /// The cycle whose text is left out until it is withdrawn or settled, because some was lost.
    void: Option<u32>,
}

impl ProvisionalText {
    /// Whether this is sent on.
    fn passes(&mut self, live: &Live) -> bool {
        match live {
            Live::Text { cycle, .. } if *cycle <= self.settled || self.void == Some(*cycle) => {
                false
            }
            Live::Text { cycle, .. } => {
                self.writing = Some(*cycle);
                true
            }
            Live::Withdrawn { cycle } => {
                self.writing = None;
                self.void = None;
                *cycle > self.settled
            }
        }
    }

    /// Some text was lost: the cycle that has to be withdrawn, if any.
    fn void(&mut self) -> Option<u32> {
        let cycle = self.writing.take()?;
        self.void = Some(cycle);
        Some(cycle)
    }

    /// A step settles the text before it.
    fn settle(&mut self, step: &v1::RunStep) {
        #[derive(Deserialize)]
        struct Answer {
            cycle: u32,
        }
        if step.r#type != StepKind::AssistantMessage.as_str() {
            return;
        }
        // An answer of a later version without a cycle settles nothing that we know of.
        if let Ok(Answer { cycle }) = serde_json::from_str(&step.content_json) {
            self.settled = cycle;
            self.writing = self.writing.filter(|writing| *writing > cycle);
            self.void = self.void.filter(|void| *void > cycle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cycle: u32) -> Live {
        Live::Text {
            cycle,
            text: "x".into(),
        }
    }

    fn answer(cycle: u32) -> v1::RunStep {
        v1::RunStep {
            r#type: "assistant_message".into(),
            content_json: format!(r#"{{"cycle":{cycle},"text":"x"}}"#),
            ..v1::RunStep::default()
        }
    }

    /// S2.4: what is late or torn is left out; a withdrawal begins anew.
    #[test]
    fn s2_4_torn_and_late_text_is_left_out() {
        let mut sent = ProvisionalText::default();
        assert!(sent.passes(&text(1)));
        sent.settle(&answer(1));
        assert!(!sent.passes(&text(1)), "the answer is a step by now");
        assert_eq!(sent.void(), None, "nothing of cycle 2 was sent");
        assert!(sent.passes(&text(2)));
        assert_eq!(sent.void(), Some(2));
        assert!(!sent.passes(&text(2)));
        assert!(sent.passes(&Live::Withdrawn { cycle: 2 }));
        assert!(sent.passes(&text(2)));
        assert_eq!(sent.void(), Some(2));
        sent.settle(&answer(2));
        assert!(sent.passes(&text(3)));
        assert!(!sent.passes(&Live::Withdrawn { cycle: 2 }));
    }

    /// S2.4: a run ends with its last step; a cancelled one once no sent call is open.
    #[test]
    fn s2_4_the_end_is_told_by_the_last_step_or_read() {
        assert!(ends("completion", Status::Completed));
        assert!(ends("error", Status::Failed));
        assert!(
            !ends("tool_denied", Status::Completed),
            "closed by the end that follows it"
        );
        assert!(
            !ends("error", Status::Running),
            "of a run that was retried since"
        );
        assert!(may_end("cancelled", Status::Cancelled));
        assert!(may_end("tool_result", Status::Cancelled));
        assert!(!may_end("tool_denied", Status::Cancelled));
        assert!(!may_end("tool_result", Status::Running));
    }
}
