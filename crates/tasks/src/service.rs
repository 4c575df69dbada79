//! The service: everything between a door and the pool, started and ended as one.
//!
//! A door hands in the text of a request and gets a task or a refusal; it never waits. The task is then found
//! by its id, watched, cancelled. Whoever owns the [`Service`] drains and stops it; doors have a
//! [`ServiceHandle`], which is a cheap clone.
//!
//! ```
//! use millpond_tasks::{Registry, Service, ServiceConfig, Submit, Symbols, function};
//! use std::time::Duration;
//!
//! let mut registry = Registry::new();
//! registry.add("echo", function(|call| Ok(call.args().to_owned())))?;
//! let service = Service::start(ServiceConfig::default(), registry, Symbols::new())?;
//! let accepted = service.handle().submit(br#"{"handler": "echo", "args": {"n": 1}}"#, Submit::default())?;
//! let outcome = accepted.task.wait(Duration::from_secs(60)).expect("it ends at once");
//! assert_eq!(outcome.result().expect("echo succeeds").get(), r#"{"n": 1}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: how a request becomes a task (`submit.rs`), how a task moves (`attempt.rs`), lists of tasks
//! (`page.rs`).

use crate::at_work::AtWork;
use crate::attempt::guarded;
use crate::backlog::Backlog;
use crate::call::StopCause;
use crate::checkpoint::OnCheckpoint;
use crate::config::{
    DeadSettings, JournalSettings, KeySettings, ResultSettings, ResultsFull, RetrySettings, ScheduleSettings,
    StreamSettings,
};
use crate::dead::DeadLetters;
use crate::error::{ErrorCode, TaskFailure};
use crate::events::Bus;
use crate::keys::Keys;
use crate::ledger::{JournalError, Ledger};
use crate::list::TaskList;
use crate::registry::Registry;
use crate::request::{Limits, TaskId};
use crate::results::Results;
use crate::schedule::Schedules;
use crate::stats::{AskMemoryDoor, AskNats, Counts};
use crate::symbols::Symbols;
use crate::task::{Stage, Task};
use crate::timer::Timer;
use crate::tracer::Tracer;
use crate::uniques::Uniques;
use crate::wall::Wall;
use millpond::{BackPressure, Pool, PoolConfig, PoolHandle};
use millpond_journal::{Disk, RealDisk};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often outcomes that are too old are let go, and the rate is measured.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How a service is made.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The pool that runs the tasks.
    pub pool: PoolConfig,
    /// Limits of requests.
    pub request: Limits,
    /// How many tasks may be under way at once, delayed ones and those between attempts counted.
    pub tasks_max: usize,
    /// Limits of the store of outcomes.
    pub results: ResultSettings,
    /// Limits of what a task says while it runs.
    pub stream: StreamSettings,
    /// How long a failed task waits for its next attempt.
    pub retry: RetrySettings,
    /// How many idempotency keys are remembered, and for how long.
    pub keys: KeySettings,
    /// Which tasks that failed for good are kept.
    pub dead_letters: DeadSettings,
    /// What the clock asks for, by name.
    pub schedules: BTreeMap<String, ScheduleSettings>,
    /// Where accepted tasks are kept, if anywhere.
    pub journal: Option<JournalSettings>,
}

impl Default for ServiceConfig {
    /// The defaults of the configuration, as `docs/configuration.md` lists them.
    fn default() -> Self {
        let loaded = crate::config::load(&crate::config::ConfigSources::default());
        Self::from(&loaded.settings().expect("the defaults are right"))
    }
}

impl From<&crate::config::Settings> for ServiceConfig {
    fn from(settings: &crate::config::Settings) -> Self {
        Self {
            pool: settings.pool.clone(),
            request: settings.request.clone(),
            tasks_max: settings.tasks_max,
            results: settings.results.clone(),
            stream: settings.stream.clone(),
            retry: settings.retry.clone(),
            keys: settings.keys.clone(),
            dead_letters: settings.dead_letters.clone(),
            schedules: settings.schedules.clone(),
            journal: settings.journal.clone(),
        }
    }
}

/// Why a service did not start.
#[derive(Debug)]
pub enum StartError {
    /// The pool did not.
    Pool(millpond::StartError),
    /// The timer's thread could not be started.
    Timer(io::Error),
    /// The journal could not be opened, or not be read.
    Journal(JournalError),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(error) => error.fmt(formatter),
            Self::Timer(error) => write!(formatter, "the timer's thread could not be started: {error}"),
            Self::Journal(error) => error.fmt(formatter),
        }
    }
}

impl Error for StartError {}

/// What is shared by handle, tasks and timers.
pub(crate) struct Shared {
    pub(crate) config: ServiceConfig,
    pub(crate) pool: PoolHandle,
    pub(crate) timer: Timer,
    pub(crate) registry: Registry,
    pub(crate) symbols: Symbols,
    pub(crate) list: TaskList,
    pub(crate) results: Results,
    pub(crate) keys: Keys,
    pub(crate) uniques: Uniques,
    pub(crate) dead: DeadLetters,
    pub(crate) schedules: Schedules,
    /// What is written down, if there is a journal.
    pub(crate) ledger: Option<Ledger>,
    /// Tasks that were accepted and found no room in the queue.
    pub(crate) backlog: Backlog,
    pub(crate) counts: Counts,
    pub(crate) started_at: Instant,
    pub(crate) wall: Wall,
    /// Who listens.
    pub(crate) events: Bus,
    /// Set once, if ever.
    pub(crate) tracer: OnceLock<Arc<dyn Tracer>>,
    /// As above.
    pub(crate) memory_door: OnceLock<AskMemoryDoor>,
    /// Tells how it stands at the NATS door, if it is open.
    pub(crate) nats: OnceLock<AskNats>,
    /// As above.
    pub(crate) on_checkpoint: OnceLock<OnCheckpoint>,
    /// Which task each worker has.
    pub(crate) at_work: AtWork,
    /// Tasks under way. A client that was told of an end finds its place free.
    pub(crate) live: AtomicUsize,
    /// Tasks under way, and those that ended and whose readers are still being told.
    pub(crate) untold: AtomicUsize,
    /// Tasks that ended in the last second.
    pub(crate) rate: AtomicU64,
    /// No more requests are taken.
    pub(crate) is_draining: AtomicBool,
    /// What has not ended is being cancelled.
    pub(crate) is_stopping: AtomicBool,
    random: RandomState,
    random_count: AtomicU64,
    /// For [`Service::drain`], which waits until `untold` is 0.
    idle: Mutex<()>,
    became_idle: Condvar,
}

/// The owner: ends the service, at the latest when it is dropped.
pub struct Service {
    pub(crate) shared: Arc<Shared>,
    /// Taken by the end.
    pool: Option<Pool>,
}

/// Hands in requests and finds tasks. A cheap clone.
#[derive(Clone)]
pub struct ServiceHandle {
    pub(crate) shared: Arc<Shared>,
}

/// What became of the tasks when a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// How many ended by themselves since the drain began.
    pub ended: u64,
    /// How many had not ended when the time was over, or were cancelled by the stop.
    pub left: usize,
    /// How many of those go on after the restart, as the journal has them. Of a drain: those that wait for their time,
    /// so that waiting for them gains nothing.
    pub postponed: usize,
}

impl Service {
    /// Starts the pool and the timer. A timer that handlers may use too is
    /// [`start_with_timer`](Self::start_with_timer)'s.
    pub fn start(config: ServiceConfig, registry: Registry, symbols: Symbols) -> Result<Self, StartError> {
        let timer = Timer::start().map_err(StartError::Timer)?;
        Self::start_with_timer(config, registry, symbols, timer)
    }

    /// As [`start`](Self::start), with a timer that is already there.
    pub fn start_with_timer(
        config: ServiceConfig,
        registry: Registry,
        symbols: Symbols,
        timer: Timer,
    ) -> Result<Self, StartError> {
        Self::start_on_disk(config, registry, symbols, timer, Arc::new(RealDisk))
    }

    /// As [`start_with_timer`](Self::start_with_timer), with the journal on another disk: for tests of what a disk
    /// may do wrong.
    #[doc(hidden)]
    pub fn start_on_disk(
        config: ServiceConfig,
        registry: Registry,
        symbols: Symbols,
        timer: Timer,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, StartError> {
        // Before anything else: a journal that cannot be read is a reason not to start.
        let opened =
            config.journal.as_ref().map(|settings| Ledger::open(&config, settings, disk)).transpose();
        let (ledger, table) = opened.map_err(StartError::Journal)?.unzip();
        let pool = Pool::start(config.pool.clone()).map_err(StartError::Pool)?;
        let shared = Arc::new(Shared {
            pool: pool.handle(),
            timer,
            registry,
            symbols,
            list: TaskList::new(),
            results: Results::new(config.results.clone()),
            keys: Keys::new(config.keys.clone()),
            uniques: Uniques::default(),
            dead: DeadLetters::new(config.dead_letters.clone(), config.journal.is_some()),
            schedules: Schedules::new(&config.schedules),
            ledger,
            backlog: Backlog::default(),
            counts: Counts::default(),
            started_at: Instant::now(),
            wall: Wall::new(),
            events: Bus::default(),
            tracer: OnceLock::new(),
            memory_door: OnceLock::new(),
            nats: OnceLock::new(),
            on_checkpoint: OnceLock::new(),
            at_work: AtWork::new(pool.metrics().scaling.workers_max),
            live: AtomicUsize::new(0),
            untold: AtomicUsize::new(0),
            rate: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            random: RandomState::new(),
            random_count: AtomicU64::new(0),
            idle: Mutex::new(()),
            became_idle: Condvar::new(),
            config,
        });
        let service = Self { shared, pool: Some(pool) };
        if let Some(table) = table {
            service.shared.restore(table).map_err(StartError::Journal)?;
        }
        sweep_later(&service.shared, 0);
        service.shared.start_schedules();
        Ok(service)
    }

    /// Where lines about the journal go.
    pub fn set_log(&self, log: &crate::log::Log) {
        if let Some(ledger) = &self.shared.ledger {
            ledger.set_log(log);
        }
    }

    /// A handle for a door.
    pub fn handle(&self) -> ServiceHandle {
        ServiceHandle { shared: Arc::clone(&self.shared) }
    }

    /// Takes no more requests, and waits until every task has ended, at most so long.
    pub fn drain(&self, within: Duration) -> DrainReport {
        let shared = &self.shared;
        shared.is_draining.store(true, SeqCst);
        let before = shared.ended();
        let until = Instant::now().checked_add(within);
        let mut idle = shared.lock_idle();
        let left = loop {
            // What ended the waiting is what is reported: a request that is just being refused counts for a
            // moment.
            let untold = shared.untold.load(SeqCst);
            let time = until.map_or(SWEEP_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
            if untold == 0 || time.is_zero() {
                break untold;
            }
            let woken = millpond::blocking(|| shared.became_idle.wait_timeout(idle, time));
            idle = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(idle);
        let stages = &shared.list.stages;
        let in_time =
            if shared.ledger.is_some() { [Stage::Delayed, Stage::Retrying].as_slice() } else { &[] };
        let postponed = in_time.iter().map(|&stage| stages.at(stage)).sum::<usize>().min(left);
        DrainReport { ended: shared.ended() - before, left, postponed }
    }

    /// Takes no more requests, cancels what has not ended, ends handlers and workers. Functions that run and
    /// do not look at [`Call::is_cancelled`](crate::Call::is_cancelled) are waited for, at most so long.
    pub fn stop(mut self, within: Duration) -> DrainReport {
        self.end(within)
    }

    fn end(&mut self, within: Duration) -> DrainReport {
        let Some(pool) = self.pool.take() else { return DrainReport { ended: 0, left: 0, postponed: 0 } };
        let shared = &self.shared;
        shared.is_draining.store(true, SeqCst);
        shared.is_stopping.store(true, SeqCst);
        let before = shared.ended();
        let (mut left, mut postponed) = (0, 0);
        let mut end = |task: &Arc<Task>| {
            let is_left = task.cancel(StopCause::ShuttingDown).is_ok();
            left += usize::from(is_left);
            postponed += usize::from(is_left && task.is_durable);
        };
        shared.list.all().iter().for_each(&mut end);
        let until = Instant::now().checked_add(within);
        let time_left = || until.map_or(within, |until| until.saturating_duration_since(Instant::now()));
        thread::scope(|scope| {
            for registered in shared.registry.all() {
                scope.spawn(|| guarded(|| registered.handler.close(time_left())));
            }
        });
        pool.stop(time_left());
        shared.timer.stop();
        // What was decided before is written down and told.
        if let Some(ledger) = &shared.ledger {
            ledger.close();
        }
        shared.end_events();
        // Tasks and what they belong to hold each other; this lets go. One that came in at the last moment
        // is still to be ended.
        for task in shared.list.all() {
            end(&task);
            shared.list.remove(&task);
        }
        shared.results.clear();
        DrainReport { ended: (shared.ended() - before).saturating_sub(left as u64), left, postponed }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end(Duration::from_secs(5));
    }
}

impl ServiceHandle {
    /// The task with this id.
    pub fn get(&self, id: &TaskId) -> Result<Arc<Task>, TaskFailure> {
        self.shared.list.get(id).ok_or_else(|| {
            if self.shared.list.was_assigned(id) {
                gone(id)
            } else {
                let message = format!("no task {id} is known; its outcome may have been told or dropped");
                TaskFailure::new(ErrorCode::NotFound, message)
            }
        })
    }

    /// As [`cancel`](Self::cancel), and calls `act` when it is done: at once, or once the journal has it. From any
    /// thread; it must not wait.
    pub fn cancel_then(
        &self,
        id: &TaskId,
        act: impl FnOnce(Result<Arc<Task>, TaskFailure>) + Send + 'static,
    ) {
        let task = self.get(id).and_then(|task| task.cancel(StopCause::Cancelled).map(|()| task));
        match task {
            Ok(task) => {
                let ended = Arc::clone(&task);
                task.on_end(move |_, outcome| match outcome.result() {
                    Err(failure) if failure.code == ErrorCode::Postponed => act(Err(failure.clone())),
                    _ => act(Ok(ended)),
                });
            }
            Err(failure) => act(Err(failure)),
        }
    }

    /// Cancels a task: one that waits ends at once, one that runs is ended for everybody who waits and its
    /// handler is told.
    pub fn cancel(&self, id: &TaskId) -> Result<(), TaskFailure> {
        self.get(id)?.cancel(StopCause::Cancelled)
    }

    /// The task with this id, whose outcome is then no longer kept: whoever takes it is the last to ask.
    /// Refused while it has none.
    pub fn take(&self, id: &TaskId) -> Result<Arc<Task>, TaskFailure> {
        let task = self.get(id)?;
        if !task.is_ended() {
            return Err(task.not_ended());
        }
        self.shared.results.take(&task);
        self.shared.list.remove(&task);
        if let Some(ledger) = task.ledger() {
            ledger.forgotten(&task);
        }
        Ok(task)
    }

    /// The pool's own figures.
    pub fn pool_metrics(&self) -> millpond::Metrics {
        self.shared.pool.metrics()
    }

    /// Limits of requests.
    pub fn limits(&self) -> &Limits {
        &self.shared.config.request
    }

    /// The settings the service was started with.
    pub fn config(&self) -> &ServiceConfig {
        &self.shared.config
    }

    /// Whether accepted tasks are kept in a journal.
    pub fn is_durable(&self) -> bool {
        self.shared.ledger.is_some()
    }

    /// Whether requests are refused because the service ends.
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Acquire)
    }

    /// How many tasks have been accepted and have not ended.
    pub fn live(&self) -> usize {
        self.shared.live.load(Acquire)
    }

    /// Names of all handlers, sorted.
    pub fn handlers(&self) -> Vec<&str> {
        self.shared.registry.names()
    }

    /// Named regions of memory.
    pub fn symbols(&self) -> &Symbols {
        &self.shared.symbols
    }
}

impl Shared {
    /// A task has ended: counts it, and keeps it or lets it go.
    pub(crate) fn has_ended(&self, task: &Arc<Task>, keep: bool) {
        self.counts.has_ended(task);
        self.uniques.free(task);
        if keep {
            for gone in self.results.keep(task, Instant::now()) {
                self.list.remove(&gone);
            }
        } else {
            self.list.remove(task);
            self.results.unpromise();
        }
        self.live.fetch_sub(1, AcqRel);
    }

    /// Everybody was told of an end, or a task was not accepted after all.
    pub(crate) fn was_told(&self) {
        // Either this sees that somebody drains, or they see the 0: both sides write first and then read.
        if self.untold.fetch_sub(1, SeqCst) == 1 && self.is_draining.load(SeqCst) {
            // Under the lock, so that whoever drains has not yet looked or already sleeps.
            let _idle = self.lock_idle();
            self.became_idle.notify_all();
        }
    }

    /// Whether a submitter would wait for room, were it not a door that must not.
    pub(crate) fn full_queue_waits(&self) -> bool {
        matches!(self.config.pool.back_pressure, BackPressure::Block { .. } | BackPressure::CallerRuns)
    }

    /// Whether new tasks wait for room among the outcomes.
    pub(crate) fn results_policy(&self) -> ResultsFull {
        self.config.results.full
    }

    /// At least 0, less than 1.
    pub(crate) fn random_fraction(&self) -> f64 {
        let bits = self.random.hash_one(self.random_count.fetch_add(1, Relaxed)) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    /// After which time about a tenth of what waits will be done.
    pub(crate) fn retry_after(&self) -> Duration {
        let waiting = self.live.load(Relaxed) as f64;
        // In the first second there is no last second yet.
        let so_far = self.ended() as f64 / self.started_at.elapsed().as_secs_f64().max(0.001);
        let rate = (self.rate.load(Relaxed) as f64).max(so_far).max(1.0);
        Duration::from_secs_f64((0.1 * waiting / rate).clamp(0.005, 5.0))
    }

    fn lock_idle(&self) -> MutexGuard<'_, ()> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is said of a task whose outcome is gone.
pub(crate) fn gone(id: &TaskId) -> TaskFailure {
    TaskFailure::new(ErrorCode::ResultGone, format!("task {id} has ended, and its outcome is no longer kept"))
}

/// Looks after the outcomes every second, as long as the service lives.
fn sweep_later(shared: &Arc<Shared>, ended_before: u64) {
    let weak: Weak<Shared> = Arc::downgrade(shared);
    shared.timer.after(SWEEP_INTERVAL, move || {
        let Some(shared) = weak.upgrade() else { return };
        let ended = shared.ended();
        shared.rate.store(ended - ended_before, Relaxed);
        shared.wall.correct();
        for gone in shared.results.forget_old(Instant::now()) {
            shared.list.remove(&gone);
        }
        let gone = shared.dead.forget_old(shared.now_ms());
        shared.letters_gone(&gone);
        // Whoever should have seen room has; this is for the case that it did not.
        shared.feed();
        shared.snapshot_if_wanted();
        sweep_later(&shared, ended);
    });
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("live", &self.shared.live).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServiceHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServiceHandle").field("live", &self.shared.live).finish_non_exhaustive()
    }
}
