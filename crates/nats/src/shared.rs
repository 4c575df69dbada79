//! What the door's loop, the workers, the watchdog and whoever opened the door have in common.
//!
//! Workers leave ends here and ring; the loop takes all of them at once. Everything else is settings, and marks that
//! are set once and read often.
//!
//! Not here: the loop itself (`engine.rs`), the numbers (`figures.rs`).

use crate::cancelled::Cancelled;
use crate::figures::Figures;
use crate::names::Queue;
use millpond_tasks::config::NatsSettings;
use millpond_tasks::{Log, ServiceHandle, Task, TaskFailure, Watch};
use serde_json::value::RawValue;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// An attempt has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The sequence of its message.
    pub(crate) sequence: u64,
    /// Which run of it.
    pub(crate) run: u64,
    /// How it ended, as every door tells it.
    pub(crate) outcome: Vec<u8>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<TaskFailure>,
    /// What it left for the next attempt.
    pub(crate) checkpoint: Option<Arc<RawValue>>,
    /// How long to wait before that.
    pub(crate) pause: Duration,
}

/// What they have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: NatsSettings,
    pub(crate) queue: Queue,
    pub(crate) service: ServiceHandle,
    pub(crate) log: Log,
    /// What this daemon is called, and the same as JSON.
    pub(crate) daemon: String,
    pub(crate) daemon_json: String,
    /// The server, without a password.
    pub(crate) url: String,
    pub(crate) figures: Figures,
    pub(crate) cancelled: Arc<Cancelled>,
    /// Ends that the loop has not seen; pushed by workers, taken by the loop.
    ended: Mutex<Vec<Ended>>,
    /// Sequences of tasks that have said something; as above.
    talking: Mutex<Vec<u64>>,
    /// Wakes the loop.
    pub(crate) bell: Notify,
    /// No more tasks are asked for. Set by the owner, read by the loop.
    pub(crate) is_draining: AtomicBool,
    /// What ends now ends because the daemon does. As above.
    pub(crate) is_stopping: AtomicBool,
    /// The loop ends once everything is told. As above.
    pub(crate) is_closing: AtomicBool,
    /// The loop ends now. As above.
    pub(crate) is_over: AtomicBool,
    /// Tasks up to this sequence may have ended although they come for the first time: the server was restarted.
    pub(crate) floor: AtomicU64,
    /// Up to this sequence the server may have tasks that it gives to nobody; 0 if it has none.
    pub(crate) leftovers: AtomicU64,
    /// When the loop last turned, and last heard from the server, in milliseconds since `started`. Written by the
    /// loop, read by the watchdog.
    pub(crate) turned_ms: AtomicU64,
    pub(crate) healthy_ms: AtomicU64,
    /// The watchdog wants the loop to begin anew.
    pub(crate) restart: Notify,
    pub(crate) started: Instant,
    pub(crate) started_ms: u64,
}

impl Shared {
    pub(crate) fn new(
        settings: NatsSettings,
        queue: Queue,
        service: ServiceHandle,
        log: Log,
        daemon: String,
    ) -> Self {
        Self {
            url: millpond_tasks::config::without_password(&settings.url),
            daemon_json: serde_json::Value::String(daemon.clone()).to_string(),
            settings,
            queue,
            service,
            log,
            daemon,
            figures: Figures::default(),
            cancelled: Arc::default(),
            ended: Mutex::default(),
            talking: Mutex::default(),
            bell: Notify::new(),
            is_draining: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            floor: AtomicU64::new(u64::MAX),
            leftovers: AtomicU64::new(0),
            turned_ms: AtomicU64::new(0),
            healthy_ms: AtomicU64::new(0),
            restart: Notify::new(),
            started: Instant::now(),
            started_ms: now_ms(),
        }
    }

    /// An attempt has ended; from any thread.
    pub(crate) fn has_ended(&self, ended: Ended) {
        let mut all = lock(&self.ended);
        let is_first = all.is_empty();
        all.push(ended);
        drop(all);
        if is_first {
            self.bell.notify_one();
        }
    }

    pub(crate) fn take_ended(&self, into: &mut Vec<Ended>) {
        std::mem::swap(into, &mut *lock(&self.ended));
    }

    /// A task has said something that is not published yet.
    pub(crate) fn is_talking(&self, sequence: u64) {
        let mut talking = lock(&self.talking);
        if !talking.contains(&sequence) {
            talking.push(sequence);
        }
        drop(talking);
        self.bell.notify_one();
    }

    pub(crate) fn take_talking(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.talking))
    }

    /// The loop has turned.
    pub(crate) fn has_turned(&self, healthy_at: Instant) {
        self.turned_ms.store(self.elapsed_ms(), Relaxed);
        let healthy = healthy_at.saturating_duration_since(self.started);
        self.healthy_ms.store(u64::try_from(healthy.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn set(&self, mark: &AtomicBool) {
        mark.store(true, Release);
        self.bell.notify_one();
    }
}

/// A task whose stream is published has said something: the tag is its sequence.
impl Watch for Shared {
    fn told(&self, tag: u64, _: &Arc<Task>) {
        self.is_talking(tag);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Now, in Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
