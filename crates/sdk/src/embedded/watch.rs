//! Watching a run in this process: its steps from any number on, each once and in order, and the text
//! of answers while they are written (S2.4).

use std::collections::VecDeque;
use std::sync::Arc;

use sayso_herald::show;
use sayso_run::{RunId, StepKind};
use sayso_wire::events::Live;
use sayso_wire::v1::watch_run_response::Event;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::agent::Inner;
use super::town::News;
use crate::{Error, v1};

/// Steps that are read at a time.
const PAGE: u32 = 256;

/// A run being watched; see [`Agent::watch`](super::Agent::watch).
#[derive(Debug)]
pub struct AgentWatch {
    inner: Arc<Inner>,
    run: RunId,
    news: mpsc::UnboundedReceiver<News>,
    /// The number of the next step.
    next: u64,
    /// There may be steps to be read.
    behind: bool,
    /// The last cycle whose answer is a step.
    settled: u32,
    ready: VecDeque<v1::WatchRunResponse>,
    over: bool,
}

impl AgentWatch {
    pub(crate) fn new(inner: Arc<Inner>, run: RunId, from: u64) -> Self {
        Self {
            news: inner.town.watch(&run),
            inner,
            run,
            next: from.max(1),
            behind: true,
            settled: 0,
            ready: VecDeque::new(),
            over: false,
        }
    }

    /// The next message; `None` once the run has ended and everything was handed on, or the agent was
    /// stopped. After an error the watch is over.
    pub async fn next(&mut self) -> Option<Result<v1::WatchRunResponse, Error>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(Ok(message));
            }
            if self.over {
                return None;
            }
            if self.behind {
                if let Err(error) = self.read().await {
                    self.over = true;
                    return Some(Err(error));
                }
                continue;
            }
            let heard = tokio::select! {
                heard = self.news.recv() => heard,
                () = self.inner.closing.cancelled() => None,
            };
            match heard {
                Some(News::Moved) => self.behind = true,
                Some(News::Said(live)) => self.hear(live),
                None => self.over = true,
            }
        }
    }

    /// Reads the row, then steps up to its number, beside the last of which stands where they led.
    async fn read(&mut self) -> Result<(), Error> {
        let row = self.inner.row(&self.run).await?;
        while self.next <= row.seq {
            let steps = self.inner.steps(&self.run, self.next - 1, PAGE).await?;
            if steps.is_empty() {
                break;
            }
            for step in steps.iter().take_while(|step| step.seq <= row.seq) {
                let status = (step.seq == row.seq).then_some(row.status);
                self.push(show::step(step), status.map(v1::RunStatus::from));
            }
        }
        self.behind = false;
        self.over = super::agent::is_over(&row);
        Ok(())
    }

    fn push(&mut self, step: v1::RunStep, status: Option<v1::RunStatus>) {
        #[derive(Deserialize)]
        struct Answer {
            cycle: u32,
        }
        if step.r#type == StepKind::AssistantMessage.as_str()
            && let Ok(Answer { cycle }) = serde_json::from_str(&step.content_json)
        {
            self.settled = cycle;
        }
        self.next = step.sequence + 1;
        self.ready.push_back(v1::WatchRunResponse {
            event: Some(Event::Step(step)),
            run_status: status.unwrap_or(v1::RunStatus::Unspecified).into(),
        });
    }

    /// Text of an answer that is a step by now is left out.
    fn hear(&mut self, live: Live) {
        let (Live::Text { cycle, .. } | Live::Withdrawn { cycle }) = &live;
        if *cycle > self.settled {
            self.ready.push_back(v1::WatchRunResponse {
                event: Some(live.into()),
                run_status: v1::RunStatus::Unspecified.into(),
            });
        }
    }
}
