//! What the service has done and has to do, in figures: for `millpond stats`, `top` and the tests.
//!
//! Counters are kept where things happen and put together when somebody asks. No task is looked at for that,
//! so it costs the same however many there are.
//!
//! Not here: the pool (`pool_stats.rs`), buckets of times (`latency.rs`).

use crate::dead::DeadStats;
use crate::door::{DoorCounts, DoorName};
use crate::error::{ErrorCode, TABLE};
use crate::latency::{Buckets, LATENCY_BOUNDS_US};
use crate::ledger::JournalHealth;
use crate::pool_stats::PoolStats;
use crate::quick::QuickCounts;
use crate::registry::Registered;
use crate::results::ResultStats;
use crate::schedule::ScheduleInfo;
use crate::service::ServiceHandle;
use crate::task::{Stage, Task};
use millpond::policy::histogram::Histogram;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters of the service.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By door.
    pub(crate) accepted: DoorCounts,
    pub(crate) retried: AtomicU64,
    /// By place in the table of errors; the first is success.
    ended: [AtomicU64; TABLE.len()],
    refused: [AtomicU64; TABLE.len()],
}

impl Counts {
    /// How many tasks have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.iter().map(|count| count.load(Relaxed)).sum()
    }

    pub(crate) fn was_refused(&self, code: ErrorCode) {
        self.refused[place(code)].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_end(&self, code: ErrorCode) {
        self.ended[place(code)].fetch_add(1, Relaxed);
    }

    pub(crate) fn has_ended(&self, task: &Task) {
        let Some(outcome) = task.outcome() else { return };
        let code = outcome.result().map_or_else(|failure| failure.code, |_| ErrorCode::Ok);
        self.count_end(code);
        let Registered { succeeded, failed, waited, ran, .. } = &*task.handler;
        let of_handler = if code == ErrorCode::Ok { succeeded } else { failed };
        of_handler.fetch_add(1, Relaxed);
        if outcome.attempts > 0 {
            record(waited, outcome.waited.as_nanos());
            record(ran, outcome.ran.as_nanos());
        }
    }
}

fn place(code: ErrorCode) -> usize {
    TABLE.iter().position(|row| row.code == code).expect("every code is in the table")
}

fn record(histogram: &Mutex<Histogram>, nanoseconds: u128) {
    let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
    histogram.lock().unwrap_or_else(PoisonError::into_inner).record(nanoseconds);
}

/// The service at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// For how long it has been running.
    pub uptime_ms: u64,
    /// Whether it refuses requests because it ends.
    pub is_draining: bool,
    /// Requests that became tasks.
    pub accepted: u64,
    /// The same by the door by which they came.
    pub doors: BTreeMap<&'static str, u64>,
    /// Tasks that succeeded.
    pub succeeded: u64,
    /// Tasks that ended in another way, by the name of the error.
    pub failed: BTreeMap<&'static str, u64>,
    /// Requests that were refused, by the name of the error.
    pub refused: BTreeMap<&'static str, u64>,
    /// Attempts that failed and were followed by another.
    pub retried: u64,
    /// Tasks that ended in the last second.
    pub rate: u64,
    /// Tasks under way, and how many there may be.
    pub live: usize,
    /// The setting `tasks_max`.
    pub tasks_max: usize,
    /// Tasks by where they stand.
    pub stages: BTreeMap<&'static str, usize>,
    /// Outcomes that are kept.
    pub results: ResultStats,
    /// Idempotency keys that are remembered.
    pub keys: usize,
    /// Of the tasks that wait for a worker, those that found no room in the pool's queue.
    pub backlog: usize,
    /// The journal, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalHealth>,
    /// Dead letters, if they are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<DeadStats>,
    /// What the clock asks for, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub schedules: BTreeMap<String, ScheduleStats>,
    /// Unique keys of tasks under way.
    pub unique_keys: usize,
    /// Acts that the timer still has before it.
    pub timers: usize,
    /// Named regions of memory.
    pub regions: usize,
    /// The door of shared memory, if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_door: Option<MemoryDoorStats>,
    /// The NATS door, if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsStats>,
    /// The pool.
    pub pool: PoolStats,
    /// By name.
    pub handlers: BTreeMap<String, HandlerStats>,
}

/// One schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleStats {
    /// How many times became a task since the start.
    pub fired: u64,
    /// How many were left out, because the task of the time before had not ended.
    pub skipped: u64,
    /// How many were refused.
    pub refused: u64,
    /// The next time, in Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<u64>,
}

impl From<ScheduleInfo> for ScheduleStats {
    fn from(info: ScheduleInfo) -> Self {
        let next_ms = info.next_ms.first().copied();
        Self { fired: info.fired, skipped: info.skipped, refused: info.refused, next_ms }
    }
}

/// How it stands at the door of shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryDoorStats {
    /// Programs that are attached now.
    pub clients: usize,
    /// Programs that came in since the start.
    pub attached: u64,
    /// Programs that were sent away.
    pub refused: u64,
    /// Tasks of theirs that are under way, quick ones left out.
    pub under_way: usize,
    /// Answers that wait for a program to read.
    pub answers_waiting: usize,
}

/// How it stands at the NATS door. Counters are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NatsStats {
    /// Whether the server can be reached now.
    pub connected: bool,
    /// The server, without a password.
    pub url: String,
    /// The queue.
    pub queue: String,
    /// What this daemon is called among the others.
    pub daemon: String,
    /// The server's version.
    pub server_version: String,
    /// How many tasks would be held now if there were enough.
    pub slots: usize,
    /// How many are held.
    pub in_flight: usize,
    /// Tasks that were given to this daemon.
    pub fetched: u64,
    /// Of these, how many had been given out before.
    pub redelivered: u64,
    /// Of these, how many had ended already, so that they were not run.
    pub duplicates: u64,
    /// Ends that came too late: another daemon, or a cancel, was first.
    pub fenced: u64,
    /// Tasks whose end the server has.
    pub acked: u64,
    /// Tasks that were given back, to be given out again.
    pub nacked: u64,
    /// Tasks that became dead letters.
    pub dead: u64,
    /// Attempts that failed and are followed by another.
    pub retried: u64,
    /// Results that the server keeps.
    pub results: u64,
    /// Signs of life for tasks that take long.
    pub renewals: u64,
    /// Questions for tasks that the server never answered.
    pub lost_pulls: u64,
    /// How often the connection was made anew.
    pub reconnects: u64,
    /// How often the watchdog had to start the loop anew.
    pub restarts: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Tasks that were moved from one lane to another.
    pub moved: u64,
    /// Pieces of what tasks said that were left out, because they came faster than they could be sent.
    pub chunks_dropped: u64,
    /// Ends that are still to be told to the server.
    pub unsent: usize,
}

/// Whoever can say how it stands there; none if it is closed by now.
pub(crate) type AskNats = Box<dyn Fn() -> Option<NatsStats> + Send + Sync>;
/// As above, of shared memory.
pub(crate) type AskMemoryDoor = Box<dyn Fn() -> Option<MemoryDoorStats> + Send + Sync>;

/// One handler.
#[derive(Clone, Debug, Serialize)]
pub struct HandlerStats {
    /// Tasks accepted for it.
    pub accepted: u64,
    /// Of these, succeeded.
    pub succeeded: u64,
    /// Of these, ended in another way.
    pub failed: u64,
    /// How long they waited for their last attempt.
    pub waited: Times,
    /// How long their last attempt took.
    pub ran: Times,
    /// As `waited`, in buckets up to [`LATENCY_BOUNDS_US`]. Not in JSON, where the times above say it
    /// shorter.
    #[serde(skip)]
    pub waited_buckets: Buckets,
    /// As `ran`, in the same way.
    #[serde(skip)]
    pub ran_buckets: Buckets,
    /// What the handler says of itself: its processes, for a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<serde_json::Value>,
}

/// One handler, for somebody who looks for one.
#[derive(Clone, Debug, Serialize)]
pub struct HandlerInfo {
    /// What requests call it.
    pub name: String,
    /// What it does, in a sentence; empty if it does not say.
    pub summary: String,
    /// Arguments to try it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Box<RawValue>>,
    /// The opcodes that call it.
    pub opcodes: Vec<u32>,
    /// What it did.
    #[serde(flatten)]
    pub stats: HandlerStats,
}

/// How long things took, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// Half took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Times {
    fn of(histogram: &Mutex<Histogram>) -> Self {
        let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |per_10_000| histogram.quantile(per_10_000).map_or(0.0, |ns| ns as f64 / 1000.0);
        Self { p50_us: at(5_000), p99_us: at(9_900), max_us: at(10_000) }
    }
}

impl ServiceHandle {
    /// The door of shared memory shows its figures with the others from now on. False if one does already.
    pub fn show_memory_door(
        &self,
        ask: impl Fn() -> Option<MemoryDoorStats> + Send + Sync + 'static,
    ) -> bool {
        self.shared.memory_door.set(Box::new(ask)).is_ok()
    }

    /// The NATS door shows its figures with the others from now on. False if one does already.
    pub fn show_nats(&self, ask: impl Fn() -> Option<NatsStats> + Send + Sync + 'static) -> bool {
        self.shared.nats.set(Box::new(ask)).is_ok()
    }

    /// The service at this moment.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let counts = &shared.counts;
        let stage = |stage: Stage| (stage.name(), shared.list.stages.at(stage));
        let mut failed = by_name(&counts.ended);
        let succeeded = failed.remove(ErrorCode::Ok.name()).unwrap_or_default();
        // Read once, so that the figures below agree with each other.
        let mut doors = counts.accepted.by_name();
        let mut quick = 0;
        for (of, door) in shared.registry.quick_counts().flat_map(|of| DoorName::ALL.map(|door| (of, door))) {
            let answered = of.by(door);
            *doors.entry(door.name()).or_default() += answered;
            quick += answered;
        }
        Stats {
            uptime_ms: shared.started_at.elapsed().as_millis() as u64,
            is_draining: self.is_draining(),
            accepted: doors.values().sum(),
            doors,
            succeeded: succeeded + quick,
            failed,
            refused: by_name(&counts.refused),
            retried: counts.retried.load(Relaxed),
            rate: shared.rate.load(Relaxed),
            live: shared.live.load(Acquire),
            tasks_max: shared.config.tasks_max,
            stages: Stage::ALL.into_iter().map(stage).collect(),
            results: shared.results.stats(),
            keys: shared.keys.len(),
            backlog: shared.backlog.len(),
            journal: self.journal_health(),
            dead_letters: shared.dead.is_on().then(|| shared.dead.stats()),
            schedules: self.schedules().into_iter().map(|info| (info.name.clone(), info.into())).collect(),
            unique_keys: shared.uniques.len(),
            timers: shared.timer.len(),
            regions: shared.symbols.len(),
            memory_door: self.shared.memory_door.get().and_then(|ask| ask()),
            nats: self.shared.nats.get().and_then(|ask| ask()),
            pool: self.pool_stats(),
            handlers: shared.registry.all().map(|of| (of.name.to_string(), handler_stats(of))).collect(),
        }
    }
}

impl ServiceHandle {
    /// All handlers by name, with what they say of themselves and what they did.
    pub fn handler_infos(&self) -> Vec<HandlerInfo> {
        let registry = &self.shared.registry;
        let info = |of: &Arc<Registered>| {
            let about = of.handler.about();
            HandlerInfo {
                name: of.name.to_string(),
                summary: about.summary.into_owned(),
                example: about.example,
                opcodes: registry.opcodes(of),
                stats: handler_stats(of),
            }
        };
        let mut infos: Vec<_> = registry.all().map(info).collect();
        infos.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        infos
    }
}

fn by_name(counts: &[AtomicU64; TABLE.len()]) -> BTreeMap<&'static str, u64> {
    let counted = TABLE.iter().zip(counts).map(|(row, count)| (row.name, count.load(Relaxed)));
    counted.filter(|(_, count)| *count > 0).collect()
}

fn handler_stats(of: &Registered) -> HandlerStats {
    let quick = of.quick.as_ref().map_or(0, QuickCounts::sum);
    HandlerStats {
        accepted: of.accepted.load(Relaxed) + quick,
        succeeded: of.succeeded.load(Relaxed) + quick,
        failed: of.failed.load(Relaxed),
        waited: Times::of(&of.waited),
        ran: Times::of(&of.ran),
        waited_buckets: Buckets::of_locked(&of.waited, LATENCY_BOUNDS_US),
        ran_buckets: Buckets::of_locked(&of.ran, LATENCY_BOUNDS_US),
        own: of.handler.stats(),
    }
}
