use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sayso_driver::{
    ActionRow, Append, ApprovalRow, ApprovalStatus, DeliveryRow, FeedbackRow, LeaseChange,
    LeaseRow, RunRow, Written,
};
use sayso_run::hooks::{Fault, planted};
use sayso_run::{
    ApprovalId, CallId, ChildEnd, Money, Namespace, PrincipalId, RunId, Status, Timestamp, WorkerId,
};
use uuid::Uuid;

use crate::journal::lease::{claimer, holder, keeps_ready, lease_code};
use crate::journal::verdict::{Finding, FoundRow, lease_fits};
use crate::sweep::RunRef;
use crate::workers::Worker;

/// What wrote a step.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// The append.
    pub append: Uuid,
    /// When it was committed, by the database's clock.
    pub at: Timestamp,
}

/// A run's row, its steps and what is projected from them.
#[derive(Debug, Clone)]
pub struct Run {
    /// The row.
    pub row: RunRow,
    /// Raised by every claim.
    pub epoch: u64,
    /// Who holds it.
    pub worker: Option<WorkerId>,
    /// The last append that changed the lease.
    pub lease_append: Option<Uuid>,
    /// What the last append did to the lease.
    pub last_lease: LeaseChange,
    /// Since when work is owed and nobody was seen to do it.
    pub ready_at: Option<Timestamp>,
    /// The published mark.
    pub published: u64,
    /// The timeline.
    pub steps: Vec<Written>,
    /// What wrote each step of it.
    pub commits: Vec<Commit>,
    /// The actions.
    pub actions: BTreeMap<CallId, ActionRow>,
    /// The approvals.
    pub approvals: BTreeMap<ApprovalId, ApprovalRow>,
}

impl Run {
    fn untouched(row: &RunRow) -> Self {
        Self {
            row: row.clone(),
            epoch: 0,
            worker: None,
            lease_append: None,
            last_lease: LeaseChange::None,
            ready_at: None,
            published: 0,
            steps: Vec::new(),
            commits: Vec::new(),
            actions: BTreeMap::new(),
            approvals: BTreeMap::new(),
        }
    }
}

/// A worker's row.
#[derive(Debug, Clone)]
pub struct WorkerRow {
    /// Its columns.
    pub worker: Worker,
    /// When it was marked dead.
    pub ended_at: Option<Timestamp>,
}

/// Everything that is stored.
#[derive(Debug, Default)]
pub struct Tables {
    /// Runs.
    pub runs: BTreeMap<RunId, Run>,
    /// Workers, dead ones too.
    pub workers: BTreeMap<WorkerId, WorkerRow>,
    /// Decisions as feedback; one an approval.
    pub feedback: BTreeMap<ApprovalId, FeedbackRow>,
    /// Ends of children that wait to be taken, and by whom.
    pub child_ends: BTreeMap<RunId, RunId>,
    /// Notifications.
    pub deliveries: BTreeMap<String, DeliveryRow>,
    /// What the answers of models cost so far, in millionths.
    pub spent: u64,
    /// Whether everything is paused.
    pub paused: bool,
    /// When everything went on, if it was ever paused.
    resumed_at: Option<Timestamp>,
    keys: BTreeMap<(Namespace, PrincipalId, String), (RunId, String)>,
    /// Runs whose rows have changed since they were last asked for.
    touched: Vec<RunId>,
}

type Clock = Box<dyn Fn() -> Timestamp + Send>;

struct Shared {
    tables: Tables,
    clock: Clock,
    /// Added to the clock, in microseconds.
    offset: i64,
}

/// What all processes share. Cheap to clone.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<Shared>>);

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl Disk {
    /// An empty database with this clock.
    pub fn new(clock: impl Fn() -> Timestamp + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            tables: Tables::default(),
            clock: Box::new(clock),
            offset: 0,
        })))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0
            .lock()
            .expect("no code panics while it holds the tables")
    }

    /// The database's time.
    pub fn now(&self) -> Timestamp {
        self.shared().now()
    }

    /// Moves the database's clock, by an offset in microseconds to the one that it was made with.
    pub fn set_clock_offset(&self, micros: i64) {
        self.shared().offset = micros;
    }

    /// Pauses everything, or lets it go on (S10.6).
    pub fn pause(&self, paused: bool) {
        self.with(|tables, now| {
            if tables.paused && !paused {
                tables.resumed_at = Some(now);
            }
            tables.paused = paused;
        });
    }

    /// Looks at the tables, outside of every process.
    pub fn look<R>(&self, at: impl FnOnce(&Tables) -> R) -> R {
        at(&self.shared().tables)
    }

    /// The runs whose rows have changed since this was last asked.
    pub fn take_touched(&self) -> Vec<RunId> {
        std::mem::take(&mut self.shared().tables.touched)
    }

    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Tables, Timestamp) -> R) -> R {
        let mut shared = self.shared();
        let now = shared.now();
        work(&mut shared.tables, now)
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        (self.clock)().plus_micros(self.offset)
    }
}

/// A member of a group that the database refuses, and with it the group.
pub(super) struct Refused(pub(super) String);

impl Tables {
    /// Writes a group, all of it that can be written: the epochs, as the real statements answer.
    pub(super) fn write(
        &mut self,
        group: &[Append],
        now: Timestamp,
    ) -> Result<Vec<Option<u64>>, Refused> {
        if let Some(rated) = group
            .iter()
            .filter(|append| self.fits(append, now))
            .flat_map(|append| &append.feedback)
            .find(|feedback| self.feedback.contains_key(&feedback.approval))
        {
            return Err(Refused(format!("{} was rated before", rated.approval)));
        }
        let members = group.iter().map(|append| {
            self.fits(append, now).then(|| {
                self.touched.push(append.run.clone());
                self.apply(append, now)
            })
        });
        Ok(members.collect())
    }

    fn alive(&self, worker: &WorkerId) -> bool {
        self.workers
            .get(worker)
            .is_some_and(|row| row.ended_at.is_none())
    }

    /// Whether nobody alive holds the run.
    fn free(&self, run: &Run) -> bool {
        !run.worker.as_ref().is_some_and(|worker| self.alive(worker))
    }

    /// The conditions of an append: what stands in the `WHERE` of the real statements.
    fn fits(&self, append: &Append, now: Timestamp) -> bool {
        let in_time = append.not_after.is_none_or(|deadline| deadline > now);
        let Some(run) = self.runs.get(&append.run) else {
            let key = key_of(append);
            return append.expected == 0
                && in_time
                && !key.is_some_and(|key| self.keys.contains_key(&key));
        };
        let given_back = matches!(append.lease, LeaseChange::Release { .. })
            && planted(Fault::ReleaseWithoutSequence)
            && append.steps.is_empty();
        let unmoved = run.row.seq == append.expected || given_back;
        unmoved && lease_fits(&append.lease, &self.found(run)) && in_time
    }

    fn found(&self, run: &Run) -> FoundRow {
        FoundRow {
            seq: run.row.seq,
            epoch: run.epoch,
            held: run.worker.is_some(),
            holder_alive: !self.free(run),
            lease_append: run.lease_append,
        }
    }

    fn apply(&mut self, append: &Append, now: Timestamp) -> u64 {
        let Append { run: id, row, .. } = append;
        if let (Some(key), Some(start)) = (key_of(append), &append.start_key) {
            self.keys.insert(key, (id.clone(), start.request.clone()));
        }
        for row in &append.feedback {
            self.feedback.insert(row.approval.clone(), row.clone());
        }
        self.spent += append
            .usage
            .iter()
            .filter_map(|row| row.spent)
            .map(Money::millionths)
            .sum::<u64>();
        for row in &append.deliveries {
            let stored = self.deliveries.entry(row.id.clone());
            stored.or_insert_with(|| row.clone());
        }
        self.change_tree(append, now);
        let new = !self.runs.contains_key(id);
        let run = self.runs.entry(id.clone());
        let run = run.or_insert_with(|| Run::untouched(row));
        run.row = row.clone();
        run.last_lease = append.lease.clone();
        let code = lease_code(append);
        match code {
            1 | 4 => run.epoch += 1,
            _ => {}
        }
        match code {
            1 => run.worker = holder(append).and_then(|_| claimed_by(append)),
            3 | 4 => run.worker = None,
            _ => {}
        }
        if code != 0 {
            run.lease_append = Some(append.id);
        }
        if new || !keeps_ready(append) {
            run.ready_at = append.ready_at;
        }
        let published = append.published.unwrap_or(0).min(row.seq);
        run.published = run.published.max(published);
        run.steps.extend_from_slice(&append.steps);
        let commit = Commit {
            append: append.id,
            at: now,
        };
        run.commits.resize(run.steps.len(), commit);
        for action in &append.actions {
            let stored = run.actions.entry(action.call.clone());
            let stored = stored.or_insert_with(|| action.clone());
            stored.status = action.status;
            stored.cleared_by.clone_from(&action.cleared_by);
            stored.result.clone_from(&action.result);
            stored.denied = action.denied;
            stored.updated_at = action.updated_at;
            if stored.digest != action.digest {
                stored.args.clone_from(&action.args);
                stored.digest = action.digest;
            }
        }
        for approval in &append.approvals {
            let stored = run.approvals.entry(approval.approval.clone());
            let stored = stored.or_insert_with(|| approval.clone());
            stored.status = approval.status;
            stored.decided_by.clone_from(&approval.decided_by);
            stored.decided_at = approval.decided_at;
            stored.decision_reason.clone_from(&approval.decision_reason);
            stored.closed_cause = approval.closed_cause;
            stored.action_status = approval.action_status;
            stored.deciders.clone_from(&approval.deciders);
            stored.escalates_at = approval.escalates_at;
            stored.seq = approval.seq;
            stored.edited_by.clone_from(&approval.edited_by);
            stored.origins.clone_from(&approval.origins);
            if stored.digest != approval.digest {
                let before = std::mem::replace(&mut stored.args, approval.args.clone());
                stored.original.get_or_insert(before);
                stored.summary.clone_from(&approval.summary);
                stored.written.clone_from(&approval.written);
                stored.digest = approval.digest;
            }
            if stored.written.is_none() {
                stored.written.clone_from(&approval.written);
            }
        }
        run.epoch
    }

    fn change_tree(&mut self, append: &Append, now: Timestamp) {
        for child in &append.tree.children {
            let mut run = Run::untouched(&child.row);
            run.ready_at = Some(child.row.created_at);
            run.steps.push(child.first.clone());
            run.commits.push(Commit {
                append: append.id,
                at: now,
            });
            self.touched.push(child.row.run.clone());
            self.runs.insert(child.row.run.clone(), run);
        }
        if let Some(parent) = &append.tree.ends_child_of {
            self.child_ends.insert(append.run.clone(), parent.clone());
        }
        for child in &append.tree.taken {
            self.child_ends.remove(child);
        }
    }

    /// The ends of a run's children that it has not taken.
    pub(super) fn ended_children(&self, parent: &RunId) -> Vec<ChildEnd> {
        let ends = self.child_ends.iter().filter(|(_, of)| *of == parent);
        let ends = ends.filter_map(|(child, _)| {
            let row = &self.runs.get(child)?.row;
            Some(ChildEnd {
                run: child.clone(),
                ended_by: row.ended_by?,
                text: row
                    .output
                    .clone()
                    .or_else(|| row.error_message.clone())
                    .unwrap_or_default(),
                trust: row.trust,
            })
        });
        ends.collect()
    }

    /// The children of a run that have not ended.
    pub(super) fn live_children(&self, parent: &RunId) -> Vec<RunId> {
        let live = self.runs.values().filter(|run| {
            let of = run.row.lineage.as_ref();
            run.row.ended_at.is_none() && of.is_some_and(|of| of.parent_run == *parent)
        });
        live.map(|run| run.row.run.clone()).collect()
    }

    /// Live runs that nobody holds and that have ends of children to take.
    pub(super) fn waiting_parents(&self, limit: usize) -> Vec<RunRef> {
        let parents = self.child_ends.values().filter_map(|id| self.runs.get(id));
        let waiting = parents
            .filter(|run| run.row.ended_at.is_none() && run.worker.is_none() && !self.paused);
        waiting.take(limit).map(reference).collect()
    }

    /// Runs that have ended for good, with ends of children that are not on their record yet.
    pub(super) fn late_parents(&self, limit: usize) -> Vec<RunRef> {
        let parents = self.child_ends.values().filter_map(|id| self.runs.get(id));
        let late =
            parents.filter(|run| matches!(run.row.status, Status::Completed | Status::Cancelled));
        late.take(limit).map(reference).collect()
    }

    /// Runs that have ended with calls under way whose worker is marked dead.
    pub(super) fn lost(&self, limit: usize) -> Vec<RunRef> {
        let ended = self
            .runs
            .values()
            .filter(|run| run.row.ended_at.is_some() && run.row.open_calls && run.worker.is_some());
        let lost = ended.filter(|run| self.free(run));
        lost.take(limit).map(reference).collect()
    }

    /// Live runs whose parent has ended.
    pub(super) fn parentless(&self, limit: usize) -> Vec<RunRef> {
        let live = self.runs.values().filter(|run| run.row.ended_at.is_none());
        let parentless = live.filter(|run| {
            let parent = run.row.lineage.as_ref().map(|of| &of.parent_run);
            parent
                .and_then(|id| self.runs.get(id))
                .is_some_and(|parent| parent.row.ended_at.is_some())
        });
        parentless.take(limit).map(reference).collect()
    }

    pub(super) fn find(&self, append: &Append, now: Timestamp) -> Finding {
        let run = self.runs.get(&append.run);
        let place = usize::try_from(append.expected).ok();
        Finding {
            step: run
                .zip(place)
                .and_then(|(run, place)| run.commits.get(place))
                .map(|commit| commit.append),
            row: run.map(|run| self.found(run)),
            same_key: key_of(append).and_then(|key| self.keys.get(&key).cloned()),
            now: now.micros(),
        }
    }

    pub(super) fn mark(&mut self, marks: &[(RunId, u64)]) {
        for (id, seq) in marks {
            if let Some(run) = self.runs.get_mut(id) {
                run.published = run.published.max((*seq).min(run.row.seq));
            }
        }
    }

    pub(super) fn lease(&self, run: &Run) -> LeaseRow {
        LeaseRow {
            epoch: run.epoch,
            worker: run.worker.clone(),
            worker_alive: !self.free(run),
            ready_at: run.ready_at,
            published: run.published,
            paused: self.paused,
        }
    }

    /// A new start of `name`; the one before is marked dead at once.
    pub(super) fn register(&mut self, name: &str, now: Timestamp) -> Option<WorkerId> {
        let starts = self.workers.values().filter(|row| row.worker.name == name);
        let id = WorkerId::new(format!("{name}:{}", starts.count() + 1)).ok()?;
        for row in self.workers.values_mut() {
            if row.worker.name == name && row.ended_at.is_none() {
                row.ended_at = Some(now);
            }
        }
        let worker = Worker {
            id: id.clone(),
            name: name.to_owned(),
            counter: 0,
            started_at: now,
            renewed_at: now,
        };
        let ended_at = None;
        self.workers
            .insert(id.clone(), WorkerRow { worker, ended_at });
        Some(id)
    }

    pub(super) fn renew(&mut self, worker: &WorkerId, now: Timestamp) -> bool {
        let row = self.workers.get_mut(worker);
        row.filter(|row| row.ended_at.is_none())
            .map(|row| {
                row.worker.counter += 1;
                row.worker.renewed_at = now;
            })
            .is_some()
    }

    pub(super) fn end(&mut self, worker: &WorkerId, seen: Option<u64>, now: Timestamp) -> bool {
        let row = self.workers.get_mut(worker);
        row.filter(|row| row.ended_at.is_none())
            .filter(|row| seen.is_none_or(|seen| seen == row.worker.counter))
            .map(|row| row.ended_at = Some(now))
            .is_some()
    }

    pub(super) fn live_workers(&self) -> Vec<Worker> {
        let live = self.workers.values().filter(|row| row.ended_at.is_none());
        live.map(|row| row.worker.clone()).collect()
    }

    pub(super) fn orphans(&mut self, limit: usize, now: Timestamp) -> Vec<RunRef> {
        let lost: Vec<RunId> = self
            .runs
            .values()
            .filter(|run| run.worker.is_some() && run.ready_at.is_none())
            .filter(|run| run.row.ended_at.is_none() && self.free(run))
            .map(|run| run.row.run.clone())
            .take(limit)
            .collect();
        self.touched.extend_from_slice(&lost);
        let mut found = Vec::with_capacity(lost.len());
        for id in lost {
            if let Some(run) = self.runs.get_mut(&id) {
                run.ready_at = Some(now);
                found.push(reference(run));
            }
        }
        found
    }

    /// Runs ready since `before` or longer that nobody alive holds, the longest first.
    pub(super) fn ready(&self, before: Timestamp, limit: usize) -> Vec<RunRef> {
        let since = |run: &Run| run.ready_at.filter(|at| *at <= before);
        self.sorted(limit, |run| {
            since(run).filter(|_| self.free(run) && !self.paused)
        })
    }

    pub(super) fn expired(&self, now: Timestamp, limit: usize) -> Vec<RunRef> {
        let due = |row: &&ApprovalRow| {
            let widens = row.escalates_at.is_some_and(|at| at <= now);
            row.status == ApprovalStatus::Pending && (row.expires_at <= now || widens)
        };
        self.sorted(limit, |run| {
            let mut approvals = run.approvals.values();
            approvals.find(due).map(|row| row.expires_at)
        })
    }

    pub(super) fn unpublished(&self, before: Timestamp, limit: usize) -> Vec<RunRef> {
        self.sorted(limit, |run| {
            let lags = run.published < run.row.seq && run.row.updated_at <= before;
            lags.then_some(run.row.updated_at)
        })
    }

    /// Runs still `running` whose worker was marked dead before, and that were not paused since.
    pub(super) fn abandoned(&self, before: Timestamp, limit: usize) -> Vec<RunRef> {
        if self.paused || self.resumed_at.is_some_and(|at| at > before) {
            return Vec::new();
        }
        self.sorted(limit, |run| {
            let worker = self.workers.get(run.worker.as_ref()?)?;
            let ended_at = worker.ended_at.filter(|at| *at <= before)?;
            (run.row.status == Status::Running).then_some(ended_at)
        })
    }

    fn sorted(&self, limit: usize, since: impl Fn(&Run) -> Option<Timestamp>) -> Vec<RunRef> {
        let mut found: Vec<(Timestamp, &Run)> = self
            .runs
            .values()
            .filter_map(|run| Some((since(run)?, run)))
            .collect();
        found.sort_by_key(|(at, _)| *at);
        let found = found.into_iter().take(limit);
        found.map(|(_, run)| reference(run)).collect()
    }
}

fn reference(run: &Run) -> RunRef {
    RunRef {
        run: run.row.run.clone(),
        namespace: run.row.namespace.clone(),
        agent: run.row.agent.clone(),
    }
}

fn key_of(append: &Append) -> Option<(Namespace, PrincipalId, String)> {
    let key = append.start_key.as_ref()?;
    let row = &append.row;
    Some((
        row.namespace.clone(),
        row.principal.clone(),
        key.key.clone(),
    ))
}

fn claimed_by(append: &Append) -> Option<WorkerId> {
    claimer(append).and_then(|worker| WorkerId::new(worker).ok())
}

/// The time that long before.
pub(super) fn before(now: Timestamp, time: Duration) -> Timestamp {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    now.plus_micros(micros.saturating_neg())
}
