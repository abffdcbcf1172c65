//! One thread that runs everything: tasks, processes, time.
//!
//! A task is polled once and then another one is drawn by lot among those that are ready, so every
//! order that an await allows can come about. Time stands still while anything is ready and jumps to
//! the next timer when nothing is. A process is a group of tasks: killing it drops them all, between
//! any two polls; freezing it sets them aside until it thaws.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Arguments;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering as Order};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::random::Random;
use crate::trace::Trace;

/// One incarnation of a process; a restart is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pid(usize);

/// What belongs to no process: people, the network, the world itself.
pub(crate) const OUTSIDE: Pid = Pid(0);

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Runs,
    Frozen,
    Dead,
}

#[derive(Debug)]
struct Process {
    condition: Condition,
    /// Tasks that became ready while it was frozen.
    aside: Vec<usize>,
}

struct Timer {
    at: u64,
    order: u64,
    sleeper: Arc<Sleeper>,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

#[derive(Default)]
struct Sleeper {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

struct State {
    now: u64,
    order: u64,
    timers: BinaryHeap<Timer>,
    spawned: Vec<(Pid, BoxFuture<'static, ()>)>,
    processes: Vec<Process>,
    killed: Vec<Pid>,
    ready: Ready,
    random: Random,
    trace: Trace,
    violation: Option<String>,
}

type Ready = Arc<Mutex<Vec<usize>>>;

/// A handle on the machine. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Kernel(Arc<Mutex<State>>);

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Kernel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("no code panics while it holds the machine")
    }

    /// Microseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    /// Draws.
    pub(crate) fn draw<R>(&self, draw: impl FnOnce(&mut Random) -> R) -> R {
        draw(&mut self.state().random)
    }

    /// Writes down what happened.
    pub(crate) fn note(&self, what: Arguments<'_>) {
        let mut state = self.state();
        let now = state.now;
        state.trace.note(now, what);
    }

    /// Writes down what somebody says of it, for who reads the trace.
    pub(crate) fn say(&self, what: Arguments<'_>) {
        self.state().trace.say(what);
    }

    /// A promise is broken: the machine stops. Only the first one counts.
    pub(crate) fn broken(&self, promise: String) {
        self.note(format_args!("BROKEN {promise}"));
        self.state().violation.get_or_insert(promise);
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub(crate) fn trace<R>(&self, read: impl FnOnce(&Trace) -> R) -> R {
        read(&self.state().trace)
    }

    /// A new process, without tasks.
    pub(crate) fn process(&self) -> Pid {
        let mut state = self.state();
        state.processes.push(Process {
            condition: Condition::Runs,
            aside: Vec::new(),
        });
        Pid(state.processes.len() - 1)
    }

    /// Starts a task of a process; nothing happens if it is dead.
    pub(crate) fn spawn(&self, pid: Pid, task: impl Future<Output = ()> + Send + 'static) {
        self.state().spawned.push((pid, Box::pin(task)));
    }

    /// Whether a process was not killed; a frozen one is alive.
    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.state().processes[pid.0].condition != Condition::Dead
    }

    /// Ends a process here and now.
    pub(crate) fn kill(&self, pid: Pid) {
        let mut state = self.state();
        state.processes[pid.0].condition = Condition::Dead;
        state.killed.push(pid);
    }

    /// Stops a process for a while, as SIGSTOP does.
    pub(crate) fn freeze(&self, pid: Pid, time: Duration) {
        {
            let mut state = self.state();
            let process = &mut state.processes[pid.0];
            if process.condition != Condition::Runs {
                return;
            }
            process.condition = Condition::Frozen;
        }
        let kernel = self.clone();
        self.spawn(OUTSIDE, async move {
            kernel.sleep(time).await;
            kernel.thaw(pid);
        });
    }

    fn thaw(&self, pid: Pid) {
        let mut state = self.state();
        let process = &mut state.processes[pid.0];
        if process.condition == Condition::Frozen {
            process.condition = Condition::Runs;
            let mut aside = std::mem::take(&mut process.aside);
            let mut ready = state.ready.lock().expect("no code panics here");
            ready.append(&mut aside);
            drop(ready);
            let now = state.now;
            state.trace.note(now, format_args!("{pid} thaws"));
        }
    }

    /// Waits.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        Sleep {
            kernel: self.clone(),
            time: micros(time),
            sleeper: None,
        }
    }

    /// Waits for a drawn number of microseconds.
    pub(crate) fn sleep_between(&self, from: u64, to: u64) -> Sleep {
        let time = self.draw(|random| random.micros(from, to));
        self.sleep(time)
    }
}

/// A wait.
pub(crate) struct Sleep {
    kernel: Kernel,
    time: u64,
    sleeper: Option<Arc<Sleeper>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(sleeper) = &self.sleeper {
            if sleeper.rung.load(Order::Relaxed) {
                return Poll::Ready(());
            }
            let mut waker = sleeper.waker.lock().expect("wakers do not panic");
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let sleeper = Arc::new(Sleeper::default());
        *sleeper.waker.lock().expect("wakers do not panic") = Some(context.waker().clone());
        {
            let mut state = self.kernel.state();
            state.order += 1;
            let (at, order) = (state.now.saturating_add(self.time), state.order);
            state.timers.push(Timer {
                at,
                order,
                sleeper: Arc::clone(&sleeper),
            });
        }
        self.sleeper = Some(sleeper);
        Poll::Pending
    }
}

struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Order::Relaxed) {
            self.ready
                .lock()
                .expect("no code panics here")
                .push(self.id);
        }
    }
}

struct Task {
    pid: Pid,
    future: BoxFuture<'static, ()>,
    waker: Arc<TaskWaker>,
}

/// What one step of the machine was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// A task was polled.
    Polled,
    /// Time went on.
    Passed,
    /// Nothing is left to do, ever.
    Idle,
}

/// The machine itself: whoever holds it runs it.
pub(crate) struct Machine {
    kernel: Kernel,
    ready: Ready,
    tasks: BTreeMap<usize, Task>,
    born: usize,
}

/// What tasks hold holds the machine's state, and what is spawned stands in it: whatever is left is let
/// go, or it would be there for ever.
impl Drop for Machine {
    fn drop(&mut self) {
        loop {
            self.tasks.clear();
            let spawned = std::mem::take(&mut self.kernel.state().spawned);
            if spawned.is_empty() {
                return;
            }
        }
    }
}

impl Machine {
    pub(crate) fn new(seed: u64, keep_trace: bool) -> Self {
        let outside = Process {
            condition: Condition::Runs,
            aside: Vec::new(),
        };
        let ready = Ready::default();
        let state = State {
            ready: Arc::clone(&ready),
            now: 0,
            order: 0,
            timers: BinaryHeap::new(),
            spawned: Vec::new(),
            processes: vec![outside],
            killed: Vec::new(),
            random: Random::new(seed),
            trace: Trace::new(keep_trace),
            violation: None,
        };
        Self {
            kernel: Kernel(Arc::new(Mutex::new(state))),
            ready,
            tasks: BTreeMap::new(),
            born: 0,
        }
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Polls one task, or lets time pass.
    pub(crate) fn step(&mut self) -> Stepped {
        loop {
            self.bury();
            self.bear();
            let Some(id) = self.draw_ready() else {
                return self.pass_time();
            };
            if self.poll(id) {
                return Stepped::Polled;
            }
        }
    }

    /// Drops the tasks of killed processes.
    fn bury(&mut self) {
        let killed = std::mem::take(&mut self.kernel.state().killed);
        for pid in killed {
            let dead: Vec<usize> = self
                .tasks
                .iter()
                .filter(|(_, task)| task.pid == pid)
                .map(|(id, _)| *id)
                .collect();
            for id in dead {
                self.tasks.remove(&id);
            }
        }
    }

    fn bear(&mut self) {
        loop {
            let spawned = std::mem::take(&mut self.kernel.state().spawned);
            if spawned.is_empty() {
                return;
            }
            for (pid, future) in spawned {
                if !self.kernel.is_alive(pid) {
                    continue;
                }
                self.born += 1;
                let waker = Arc::new(TaskWaker {
                    id: self.born,
                    queued: AtomicBool::new(true),
                    ready: Arc::clone(&self.ready),
                });
                self.ready
                    .lock()
                    .expect("no code panics here")
                    .push(self.born);
                let task = Task { pid, future, waker };
                self.tasks.insert(self.born, task);
            }
        }
    }

    fn draw_ready(&self) -> Option<usize> {
        let mut ready = self.ready.lock().expect("no code panics here");
        if ready.is_empty() {
            return None;
        }
        let at = self.kernel.draw(|random| random.place(ready.len()));
        Some(ready.swap_remove(at))
    }

    /// Polls a task; false if it is gone or its process is frozen.
    fn poll(&mut self, id: usize) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else {
            return false;
        };
        {
            let mut state = self.kernel.state();
            let process = &mut state.processes[task.pid.0];
            if process.condition == Condition::Frozen {
                process.aside.push(id);
                return false;
            }
        }
        task.waker.queued.store(false, Order::Relaxed);
        let waker = Waker::from(Arc::clone(&task.waker));
        let mut context = Context::from_waker(&waker);
        if task.future.as_mut().poll(&mut context).is_ready() {
            self.tasks.remove(&id);
        }
        true
    }

    fn pass_time(&mut self) -> Stepped {
        let timer = {
            let mut state = self.kernel.state();
            let Some(timer) = state.timers.pop() else {
                return Stepped::Idle;
            };
            state.now = state.now.max(timer.at);
            timer
        };
        timer.sleeper.rung.store(true, Order::Relaxed);
        let waker = timer
            .sleeper
            .waker
            .lock()
            .expect("wakers do not panic")
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Stepped::Passed
    }
}
