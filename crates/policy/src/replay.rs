//! Judging recorded runs under a bundle that need not be deployed (S5.12).
//!
//! Runs are read page by page, newest first, each folded and judged by itself: what is kept between
//! two of them is what the answer tells. A run that cannot be read is named, not guessed at.

use std::collections::HashMap;
use std::sync::Arc;

use sayso_driver::{Journal, LoadError, Rejudged, Revision, RunRow, ToolSet, rejudge};
use sayso_rules::Bundle;
use sayso_rules::bundle::Action;
use sayso_run::{AgentName, Namespace, RevisionId, RunId, RunState, ToolSetId};
use sayso_service::error::{Coded, Kind};
use sayso_store::{ListError, Page, PageRequest, RunFilter, Store};
use sayso_wire::time::{from_timestamp, timestamp};
use sayso_wire::{code, v1};

use crate::refuse::{self, database, invalid, name, no_run};
use crate::{answers, stored};

/// How many runs one request may name.
const MOST_NAMED: usize = 100;
/// How many runs one page judges, and how many where nothing is said.
const LARGEST_PAGE: u32 = 200;
const PAGE: u32 = 50;

/// Answers `ReplayRuns`.
pub(crate) async fn replay(
    store: &Store,
    namespace: &Namespace,
    request: &v1::ReplayRunsRequest,
) -> Result<v1::ReplayRunsResponse, Coded> {
    let bundle = Bundle::parse(&request.bundle).map_err(|errors| refuse::bundle(&errors))?;
    let page = runs(store, namespace, &bundle, request).await?;
    let id = RevisionId::new(bundle.revision_hash()).expect("a SHA-256 has 64 hex digits");
    let mut replay = Replay {
        store,
        candidate: Revision::new(id, bundle),
        sets: HashMap::new(),
        answer: v1::ReplayRunsResponse {
            next_page_token: page.next.unwrap_or_default(),
            oldest_created_at: page.items.last().map(|row| timestamp(row.created_at)),
            ..v1::ReplayRunsResponse::default()
        },
    };
    for row in &page.items {
        replay.take(row).await?;
    }
    Ok(replay.answer)
}

/// The runs that are asked for, one page of them.
async fn runs(
    store: &Store,
    namespace: &Namespace,
    bundle: &Bundle,
    request: &v1::ReplayRunsRequest,
) -> Result<Page<RunRow>, Coded> {
    if !request.run_ids.is_empty() {
        return named(store, namespace, &request.run_ids).await;
    }
    let agent = match request.agent.as_str() {
        "" => &bundle.name,
        agent => agent,
    };
    let since = request.after.as_ref().map(from_timestamp).transpose();
    let since = since.map_err(|error| invalid("after", error.to_string()))?;
    let filter = RunFilter {
        agent: Some(name("agent", AgentName::new(agent))?),
        since,
        ..RunFilter::default()
    };
    let asked = PageRequest {
        size: match request.page_size {
            0 => PAGE,
            size => size.min(LARGEST_PAGE),
        },
        token: (!request.page_token.is_empty()).then(|| request.page_token.clone()),
    };
    let page = store.runs().list(namespace, &filter, &asked).await;
    page.map_err(|error| match error {
        ListError::MalformedPage => {
            Coded::new(Kind::Invalid, code::PAGE_MALFORMED, error.to_string())
        }
        ListError::Database(error) => database("listing runs", &error),
    })
}

async fn named(
    store: &Store,
    namespace: &Namespace,
    ids: &[String],
) -> Result<Page<RunRow>, Coded> {
    if ids.len() > MOST_NAMED {
        let problem = format!("names {} runs; at most {MOST_NAMED} are taken", ids.len());
        return Err(invalid("run_ids", problem));
    }
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        let id = name("run_ids", RunId::new(id))?;
        let row = store.runs().get(namespace, &id).await;
        let row = row.map_err(|error| database("reading a run", &error))?;
        items.push(row.ok_or_else(no_run)?);
    }
    items.sort_by_key(|row| std::cmp::Reverse(row.created_at));
    Ok(Page {
        items,
        next: None,
        previous: None,
    })
}

struct Replay<'a> {
    store: &'a Store,
    candidate: Revision,
    /// The tools of the runs so far: most runs of an agent have the same.
    sets: HashMap<ToolSetId, Arc<ToolSet>>,
    answer: v1::ReplayRunsResponse,
}

impl Replay<'_> {
    async fn take(&mut self, row: &RunRow) -> Result<(), Coded> {
        let state = match self.store.load(&row.run).await {
            Ok(Some(loaded)) => loaded.state,
            Ok(None) => return Ok(()),
            Err(error @ LoadError::Unavailable(_)) => {
                let doing = "reading a run";
                return Err(Coded::unavailable(
                    code::DATABASE_UNAVAILABLE,
                    doing,
                    &error,
                ));
            }
            Err(
                error @ (LoadError::TooNew { .. }
                | LoadError::Corrupt(_)
                | LoadError::BadRow { .. }),
            ) => {
                self.answer.skipped.push(v1::SkippedRun {
                    run_id: row.run.to_string(),
                    why: error.to_string(),
                });
                return Ok(());
            }
        };
        self.answer.runs += 1;
        if let Some(tools) = self.tools(&state).await? {
            let tools = self.candidate.resolve(&tools);
            for judged in rejudge(&state, &self.candidate, &tools) {
                tell(&mut self.answer, &row.run, judged);
            }
        }
        Ok(())
    }

    async fn tools(&mut self, state: &RunState) -> Result<Option<Arc<ToolSet>>, Coded> {
        let Some(id) = state.tools() else {
            return Ok(None);
        };
        if let Some(known) = self.sets.get(id) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(set) = stored::tools(self.store, state).await? else {
            return Ok(None);
        };
        let set = Arc::new(set);
        self.sets.insert(id.clone(), Arc::clone(&set));
        Ok(Some(set))
    }
}

/// Adds a call to what is told. A call that no rule was asked about then counts nowhere.
fn tell(answer: &mut v1::ReplayRunsResponse, run: &RunId, judged: Rejudged<'_>) {
    let Some(recorded) = judged.recorded else {
        return;
    };
    answer.calls += 1;
    answer.asks_recorded += u32::from(recorded.action == Action::Ask);
    answer.asks += u32::from(judged.action == Action::Ask);
    if recorded.action != judged.action {
        answer.changes.push(v1::ChangedVerdict {
            run_id: run.to_string(),
            call_id: judged.call.id.to_string(),
            tool: judged.call.tool.clone(),
            recorded_action: answers::action(recorded.action).into(),
            recorded_rule: recorded.rule,
            action: answers::action(judged.action).into(),
            rule: judged.rule,
            reason: judged.reason,
            trust: answers::trust(judged.trust).into(),
        });
    }
}
