//! The queue and the loop that empties it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use sayso_driver::{Append, AppendError, Appended};
use sayso_run::RunId;
use tokio::sync::{mpsc, oneshot};

use super::check::check;
use super::settle::{Settle, message};
use super::{Member, Target};
use crate::open::StoreConfig;

type Answer<T> = oneshot::Sender<Result<T, AppendError>>;

#[derive(Debug)]
enum Command {
    Append(Box<Member>),
    Mark(Vec<(RunId, u64)>, Answer<()>),
}

/// A handle on the writer of this process.
#[derive(Debug)]
pub(crate) struct Writer(mpsc::UnboundedSender<Command>);

impl Writer {
    /// A writer that is a task of this runtime.
    pub(crate) fn on_task<T: Target>(target: T, config: &StoreConfig) -> Self {
        let (writer, work) = Self::new(target, config);
        tokio::spawn(work);
        writer
    }

    /// A writer and its work, for whoever runs it.
    pub(crate) fn new<T: Target>(
        target: T,
        config: &StoreConfig,
    ) -> (Self, impl Future<Output = ()> + Send + use<T>) {
        let (send, receive) = mpsc::unbounded_channel();
        (Self(send), run(target, receive, Limits::of(config)))
    }

    /// A writer that has a thread of its own, for a target that blocks.
    pub(crate) fn on_thread<T: Target>(target: T, config: &StoreConfig) -> Self {
        let (send, receive) = mpsc::unbounded_channel();
        let limits = Limits::of(config);
        std::thread::Builder::new()
            .name("sayso-journal".into())
            .spawn(move || futures::executor::block_on(run(target, receive, limits)))
            .expect("the system starts one thread");
        Self(send)
    }

    pub(crate) async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        check(&append)?;
        let (answer, answered) = oneshot::channel();
        let member = Member {
            unclear: append.again,
            append,
            answer,
        };
        self.send(Command::Append(Box::new(member)))?;
        answered.await.map_err(|_| stopped())?
    }

    pub(crate) async fn mark_published(&self, marks: Vec<(RunId, u64)>) -> Result<(), AppendError> {
        if marks.is_empty() {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        self.send(Command::Mark(marks, answer))?;
        answered.await.map_err(|_| stopped())?
    }

    fn send(&self, command: Command) -> Result<(), AppendError> {
        self.0.send(command).map_err(|_| stopped())
    }
}

fn stopped() -> AppendError {
    AppendError::Unavailable("the journal's writer has stopped".into())
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    group: usize,
    patience: Duration,
}

impl Limits {
    fn of(config: &StoreConfig) -> Self {
        Self {
            group: config.group.max(1),
            patience: config.patience,
        }
    }
}

/// Ends when the last handle is gone and the queue is empty.
async fn run<T: Target>(target: T, mut commands: mpsc::UnboundedReceiver<Command>, limits: Limits) {
    let mut settle = Settle::new(target, limits.patience);
    let mut queue = VecDeque::new();
    let mut marks = Vec::new();
    loop {
        if queue.is_empty() && marks.is_empty() {
            match commands.recv().await {
                Some(command) => sort(command, &mut queue, &mut marks),
                None => return,
            }
        }
        while let Ok(command) = commands.try_recv() {
            sort(command, &mut queue, &mut marks);
        }
        mark(&mut settle, std::mem::take(&mut marks)).await;
        let group = next_group(&mut queue, limits.group);
        if !group.is_empty() {
            settle.group(group).await;
        }
    }
}

type Marks = Vec<(Vec<(RunId, u64)>, Answer<()>)>;

fn sort(command: Command, queue: &mut VecDeque<Box<Member>>, marks: &mut Marks) {
    match command {
        Command::Append(member) => queue.push_back(member),
        Command::Mark(runs, answer) => marks.push((runs, answer)),
    }
}

/// Takes up to `limit` appends, the first one of each run, and sorts them by run.
fn next_group(queue: &mut VecDeque<Box<Member>>, limit: usize) -> Vec<Member> {
    let mut runs = HashSet::with_capacity(limit.min(queue.len()));
    let mut group = Vec::with_capacity(limit.min(queue.len()));
    let mut later = VecDeque::new();
    while group.len() < limit {
        let Some(member) = queue.pop_front() else {
            break;
        };
        if runs.insert(member.append.run.clone()) {
            group.push(*member);
        } else {
            later.push_back(member);
        }
    }
    while let Some(member) = later.pop_back() {
        queue.push_front(member);
    }
    group.sort_unstable_by(|a, b| a.append.run.cmp(&b.append.run));
    group
}

async fn mark<T: Target>(settle: &mut Settle<T>, requests: Marks) {
    if requests.is_empty() {
        return;
    }
    let mut all: Vec<(RunId, u64)> = requests
        .iter()
        .flat_map(|(runs, _)| runs.iter().cloned())
        .collect();
    all.sort_unstable_by(|a, b| {
        (&a.0, std::cmp::Reverse(a.1)).cmp(&(&b.0, std::cmp::Reverse(b.1)))
    });
    all.dedup_by(|later, first| later.0 == first.0);
    let done = settle.mark(&all).await;
    for (_, answer) in requests {
        let told = match &done {
            Ok(()) => Ok(()),
            Err(failure) => Err(message(failure)),
        };
        answer.send(told).unwrap_or_default();
    }
}
