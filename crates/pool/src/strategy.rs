//! Which worker a task from outside is given to, where the pool was asked to choose.
//!
//! By default nobody chooses: tasks wait in one queue, and whoever is free takes the oldest, which no choice made
//! beforehand can beat. A strategy gives each task to one worker instead; others may still take it over when they have
//! nothing to do ([`stealing`](crate::PoolConfig::stealing)).
//!
//! The strategies are `millpond_policy::choose`; here the picture they choose from is kept. Whether a worker takes
//! tasks is noted when it changes, and of the rest only what the strategy reads is looked up, for each task anew.
//! Choosing and giving are one step under one lock: the next one to choose sees the task where it was put, so that
//! submitters do not all run to the same worker, and a swap happens between two tasks.
//!
//! A strategy is called under its lock. It may submit to the pool, without being asked about that, but not change or
//! ask for the strategy.
//!
//! A strategy that wants to hear of tasks that end is told by the worker that ran them. A closure that a waiting task
//! runs itself is part of that task, and not told.
//!
//! Not here: tasks with an affinity key (`affinity.rs`), and those of tasks, which stay with their worker (`route.rs`).

use crate::route::Route;
use crate::seat::Seat;
use crate::shared::Shared;
use crate::task::{Task, drop_panic};
use crate::why::{self, Placed};
use millpond_policy::choose::{Choose, RoundRobin};
use millpond_policy::registry::{self, Chooser, STRATEGIES};
use millpond_policy::view::{Columns, TaskView, Views, WorkerState, WorkerView};
use millpond_policy::{BadSetting, Moment};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The name of the default: nobody chooses.
const SHARED: &str = "shared";
/// Utilisation is measured over about so long.
const WINDOW: Duration = Duration::from_millis(500);

type Make = Arc<dyn Fn() -> Box<dyn Choose> + Send + Sync>;

/// How workers are chosen. The default is `shared`: nobody chooses, tasks wait in one queue for whoever is free.
#[derive(Clone)]
pub struct Strategy {
    name: String,
    /// `None`: nobody chooses.
    make: Option<Make>,
}

impl Strategy {
    /// Tasks wait in one queue, and whoever is free takes the oldest.
    pub fn shared() -> Self {
        Self { name: SHARED.to_owned(), make: None }
    }

    /// The strategy of this name: `shared`, or one of
    /// [`STRATEGIES`](millpond_policy::registry::STRATEGIES).
    ///
    /// ```
    /// use millpond::{Pool, PoolConfig, Strategy};
    /// let config = PoolConfig { strategy: Strategy::named("least-busy")?, ..PoolConfig::default() };
    /// let pool = Pool::start(config)?;
    /// assert_eq!(pool.submit(|| 6 * 7)?.wait()?, 42);
    /// let unknown = Strategy::named("leest-busy").unwrap_err().to_string();
    /// assert!(unknown.contains("one of shared, round-robin, least-used"), "{unknown}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, BadSetting> {
        if name == SHARED {
            return Ok(Self::shared());
        }
        let made = registry::by_name(name, 0).map_err(|unknown| BadSetting {
            expected: unknown.expected.replacen("one of ", "one of shared, ", 1),
            ..unknown
        })?;
        let name = made.name().to_owned();
        let entry = STRATEGIES.iter().find(|entry| entry.name == name);
        let make = entry.expect("what is made by name is in the table").make;
        Ok(Self::custom(&name, move || make(seed())))
    }

    /// A strategy of the caller's own: `make` makes one whenever it comes into force.
    pub fn custom(name: &str, make: impl Fn() -> Box<dyn Choose> + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), make: Some(Arc::new(make)) }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All names that [`named`](Self::named) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(SHARED).chain(STRATEGIES.iter().map(|strategy| strategy.name))
    }
}

/// Something else each time, for strategies that draw lots.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl Default for Strategy {
    fn default() -> Self {
        Self::shared()
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Strategy").field(&self.name).finish()
    }
}

/// The strategy in force, and its picture of the workers.
#[derive(Debug)]
pub(crate) struct Choosing {
    /// Whether anybody chooses; read for every task.
    is_on: AtomicBool,
    /// Whether every task's run is to be timed; read for every task.
    is_timed: AtomicBool,
    panics: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    chooser: Option<Chooser>,
    reads: Columns,
    wants_task_done: bool,
    /// One row for each seat, by its number.
    workers: Views,
    /// How busy each was when it was last measured.
    windows: Vec<Window>,
    /// As they were given, by the number of the seat.
    weights: Vec<u32>,
}

/// A worker's run time at the begin of the present window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since: Moment,
    run_ns: u64,
}

impl Choosing {
    pub(crate) fn new(weights: Vec<u32>) -> Self {
        let inner = Inner {
            name: SHARED.to_owned(),
            chooser: None,
            reads: Columns::NONE,
            wants_task_done: false,
            workers: Views::default(),
            windows: Vec::new(),
            weights,
        };
        Self {
            is_on: AtomicBool::new(false),
            is_timed: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            inner: Mutex::new(inner),
        }
    }

    /// Whether anybody chooses.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Whether every task's run is to be timed.
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed.load(Relaxed)
    }

    /// From now on `strategy` chooses. Returns the name of the one before.
    pub(crate) fn swap(&self, strategy: &Strategy, now: Moment) -> String {
        let made = strategy.make.as_ref().map(|make| make());
        let reads = made.as_ref().map_or(Columns::NONE, |made| made.reads());
        let wants_task_done = made.as_ref().is_some_and(|made| made.wants_task_done());
        let is_timed =
            wants_task_done || reads.contain(Columns::RUN_TIME) || reads.contain(Columns::UTILISATION);
        let _asked = Asked::again();
        let mut inner = self.inner();
        let next = made.map(|made| {
            // It takes the place of one that never chooses, since a swap tells it of all workers.
            let mut chooser = Chooser::new(Box::new(RoundRobin::new()));
            drop(chooser.swap(made, &inner.workers, now));
            chooser
        });
        self.is_timed.store(is_timed, Relaxed);
        self.is_on.store(next.is_some(), Relaxed);
        let last = std::mem::replace(&mut inner.chooser, next);
        (inner.reads, inner.wants_task_done) = (reads, wants_task_done);
        let name = std::mem::replace(&mut inner.name, strategy.name.clone());
        drop(inner);
        // It is the user's, and may do anything when it is dropped.
        drop(last);
        name
    }

    pub(crate) fn name(&self) -> String {
        self.inner().name.clone()
    }

    pub(crate) fn worker_came(&self, number: usize, now: Moment) {
        let mut inner = self.inner();
        let Inner { chooser, workers, windows, weights, .. } = &mut *inner;
        while workers.len() <= number {
            let id = workers.len() as u32;
            let weight = weights.get(id as usize).copied().unwrap_or(0);
            workers.push(WorkerView { id, weight, state: WorkerState::Terminated, ..WorkerView::default() });
            windows.push(Window { since: now, run_ns: 0 });
        }
        workers.set_state(number, WorkerState::Ready);
        workers.set_idle_since(number, now);
        if let Some(chooser) = chooser {
            self.call(|| chooser.worker_added(&workers.row(number), now));
        }
    }

    /// A worker waits for something other than work, or goes on.
    pub(crate) fn worker_stands(&self, number: usize, stands_still: bool) {
        let mut inner = self.inner();
        if number < inner.workers.len() && inner.workers.states()[number] != WorkerState::Terminated {
            let state = if stands_still { WorkerState::Warming } else { WorkerState::Ready };
            inner.workers.set_state(number, state);
        }
    }

    pub(crate) fn worker_left(&self, number: usize) {
        let mut inner = self.inner();
        if number < inner.workers.len() && inner.workers.states()[number] != WorkerState::Terminated {
            inner.workers.set_state(number, WorkerState::Terminated);
            if let Some(chooser) = &mut inner.chooser {
                self.call(|| chooser.worker_removed(number as u32));
            }
        }
    }

    /// A worker has run a timed task to its end.
    pub(crate) fn task_done(&self, number: usize, ran: Duration, now: Moment) {
        let mut inner = self.inner();
        if inner.wants_task_done
            && let Some(chooser) = &mut inner.chooser
        {
            self.call(|| chooser.task_done(number as u32, ran, now));
        }
    }

    /// Tells the strategy something, on a thread that has nobody to tell of a panic.
    fn call(&self, tell: impl FnOnce()) {
        let _asked = Asked::again();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(tell)) {
            drop_panic(payload);
            self.panics.fetch_add(1, Relaxed);
        }
    }

    /// How often the strategy panicked when it was told something.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Looks up what the strategy reads.
    fn refresh(&mut self, shared: &Shared, now: Moment) {
        if self.reads == Columns::NONE {
            return;
        }
        for (at, seat) in shared.seats().enumerate().take(self.workers.len()) {
            if self.reads.contain(Columns::LOAD) {
                let running = seat.counters.busy.load(Relaxed) as u32;
                self.workers.set_load(at, running, seat.len() as u32);
            }
            if self.reads.contain(Columns::COMPLETED) {
                self.workers.set_completed(at, seat.completed());
            }
            if self.reads.contain(Columns::RUN_TIME) {
                let total_ns = seat.pace.run_total_ns(now.as_nanos());
                self.workers.set_run_time(at, total_ns, seat.pace.run_mean_ns());
            }
            if self.reads.contain(Columns::UTILISATION) {
                self.refresh_utilisation(at, seat, now);
            }
        }
    }

    /// The busy share since the window began. A window that has lasted long enough gives half of its weight away.
    fn refresh_utilisation(&mut self, at: usize, seat: &Seat, now: Moment) {
        let window = &mut self.windows[at];
        let run_ns = seat.pace.run_total_ns(now.as_nanos());
        let elapsed_ns = now.since(window.since).as_nanos() as u64;
        let busy_ns = run_ns.saturating_sub(window.run_ns);
        let share = (busy_ns.saturating_mul(10_000) / elapsed_ns.max(1)).min(10_000);
        self.workers.set_utilisation(at, share as u16);
        if now.since(window.since) >= 2 * WINDOW {
            *window = Window {
                since: Moment::from_nanos(now.as_nanos() - elapsed_ns / 2),
                run_ns: run_ns - busy_ns / 2,
            };
        }
    }
}

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// This thread calls a strategy, under its lock. One that submits to a pool meanwhile is not asked about that.
struct Asked {
    before: bool,
}

impl Asked {
    /// `None` if it does so already.
    fn once() -> Option<Self> {
        (!ASKED.get()).then(Self::again)
    }

    fn again() -> Self {
        Self { before: ASKED.replace(true) }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        ASKED.set(self.before);
    }
}

impl Shared {
    /// Gives a task to the worker that the strategy chooses; hands it back if there is none, or no room at it.
    #[cold]
    pub(crate) fn assign(&self, route: Route, task: Task) -> Result<(), Task> {
        let Some(_asked) = Asked::once() else { return Err(task) };
        let now = self.now();
        let view = TaskView { lane: route.priority.lane() as u8, key: None, expected_ns: route.expected_ns };
        let mut inner = self.choosing.inner();
        inner.refresh(self, now);
        let Inner { chooser, workers, .. } = &mut *inner;
        let chosen = catch_unwind(AssertUnwindSafe(|| chooser.as_mut()?.choose(workers, &view, now)));
        let choice = chosen.unwrap_or_else(|payload| {
            drop_panic(payload);
            self.choosing.panics.fetch_add(1, Relaxed);
            None
        });
        // A strategy of the user's may name anybody.
        let choice = choice.filter(|choice| (choice.worker as usize) < workers.len());
        let Some(choice) = choice else { return Err(task) };
        let number = choice.worker as usize;
        let Some(assigned) = self.seat(number).furnish_assigned() else { return Err(task) };
        if let Err(refusal) = assigned.try_enqueue(task) {
            return Err(refusal.into_inner());
        }
        drop(inner);
        self.mail_came(number);
        why::note(Placed::Chosen { worker: number, reason: choice.reason });
        Ok(())
    }

    /// A task was put where the worker of this seat finds it: wakes it, or somebody else if it has left.
    pub(crate) fn mail_came(&self, number: usize) {
        if self.seat(number).presence.has_left() {
            self.sleep.work_came();
        } else {
            self.sleep.work_came_for(number);
        }
    }
}
