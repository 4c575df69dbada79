//! All worker processes of a daemon, and the handler that stands in the daemon for one that runs in them.
//!
//! ```text
//!   start(call) ──► desk: who is free? ──────────────► a process's channel ──► worker process
//!                     (desk.rs)  │ nobody: it waits                              │ (worker.rs)
//!                                └──► keeper: one thread for each process ◄──────┘ answers
//!                                     (keeper.rs)
//! ```
//! No worker of the pool waits for a process: `start` only hands the call in.

use super::desk::{Desk, Refusal, Taken};
use super::fork::Reaped;
use super::keeper::Keeper;
use super::link::Link;
use super::zygote::Zygote;
use super::{IsolationError, ending};
use millpond_tasks::config::IsolationSettings;
use millpond_tasks::symbols::RegionUse;
use millpond_tasks::{About, Call, ErrorCode, Handler, Level, Log, TaskFailure, TaskId};
use serde_json::value::RawValue;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a daemon waits at its start for the first process.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// How long to wait for processes that were killed: the kernel has to take them away.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// The processes.
pub(super) struct Crew {
    pub(super) desk: Desk,
    pub(super) link: Link,
    pub(super) log: Log,
    settings: IsolationSettings,
    keepers: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    /// Starts all processes, and waits for the first.
    pub(super) fn start(
        zygote: Zygote,
        settings: &IsolationSettings,
        log: &Log,
    ) -> Result<Arc<Self>, IsolationError> {
        let seats = settings.processes.max(1);
        let crew = Arc::new(Self {
            desk: Desk::new(seats),
            link: Link::new(zygote).map_err(IsolationError::NoZygote)?,
            log: log.clone(),
            settings: settings.clone(),
            keepers: Mutex::new(Vec::new()),
        });
        for seat in 0..seats {
            let of_thread = Arc::clone(&crew);
            let thread = thread::Builder::new().name(format!("millpond-keep-{}", seat + 1));
            match thread.spawn(move || of_thread.keep(seat)) {
                Ok(thread) => crew.lock_keepers().push(thread),
                Err(error) => {
                    (seat..seats).for_each(|_| crew.desk.keeper_ended());
                    crew.close(Duration::ZERO);
                    return Err(IsolationError::NoProcess(format!("a thread could not be started: {error}")));
                }
            }
        }
        match crew.desk.wait_ready(FIRST_WAIT) {
            Ok(()) => Ok(crew),
            Err(words) => {
                crew.close(Duration::ZERO);
                Err(IsolationError::NoProcess(words))
            }
        }
    }

    fn keep(self: Arc<Self>, seat: usize) {
        let mut keeper = Keeper::new(Arc::clone(&self), seat);
        // A mistake of ours costs one task and one process, and not the seat.
        while catch_unwind(AssertUnwindSafe(|| keeper.run())).is_err() {
            self.log.error("isolation: the thread that keeps a worker process panicked");
            keeper.recover();
        }
        self.desk.keeper_ended();
    }

    /// How much memory a process may use.
    pub(super) fn memory_bytes_max(&self) -> Option<u64> {
        self.settings.memory_bytes_max
    }

    /// How a process ended, in words.
    pub(super) fn ending(&self, ended: Reaped) -> String {
        ending::words(ended, self.settings.memory_bytes_max)
    }

    /// A process died that should not have.
    pub(super) fn say_died(&self, pid: i32, did: &str, with: &str) {
        let level = if self.desk.is_closing() { Level::Debug } else { Level::Warn };
        self.log.say(level, &format!("isolation: worker process {pid} {did}; {with}"));
    }

    pub(super) fn refusal(&self, refusal: Refusal) -> TaskFailure {
        match refusal {
            Refusal::Closed => TaskFailure::new(ErrorCode::Draining, "the worker processes have ended"),
            Refusal::TooLarge { bytes, bytes_max } => {
                let message = format!(
                    "expected a task of at most {bytes_max} bytes with its arguments, got {bytes}; a worker process \
                     cannot be given more"
                );
                TaskFailure::new(ErrorCode::TooLarge, message)
            }
            Refusal::Broken(why, rest) => {
                let message = format!("{why}; it is tried again in {rest:.1?}");
                TaskFailure::new(ErrorCode::HandlerCrashed, message)
            }
        }
    }

    /// Ends all processes: those without a task are told, the others killed when the time is over. Then the zygote.
    pub(super) fn close(&self, within: Duration) {
        let begin = Instant::now();
        for job in self.desk.close() {
            job.call.finish(Err(self.refusal(Refusal::Closed)));
        }
        let keepers = mem::take(&mut *self.lock_keepers());
        if keepers.is_empty() {
            return;
        }
        let ended = self.desk.wait_ended(begin + within.min(Duration::from_secs(86_400))) || {
            self.desk.kill_all();
            self.desk.wait_ended(Instant::now() + KILL_WAIT)
        };
        // The last task that knows the crew may end on a keeper's thread. It cannot wait for itself.
        let is_keeper = keepers.iter().any(|thread| thread.thread().id() == thread::current().id());
        if ended && !is_keeper {
            keepers.into_iter().for_each(|thread| drop(thread.join()));
        } else if !is_keeper {
            self.log.error("isolation: a worker process was killed and is not gone yet");
        }
        self.link.close();
    }

    fn lock_keepers(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stands in the daemon for a handler that runs in worker processes.
pub(super) struct Isolated {
    /// What it says of itself it says here. It is started here only if it needs memory that is the daemon's own.
    pub(super) handler: Box<dyn Handler>,
    pub(super) crew: Arc<Crew>,
}

impl Handler for Isolated {
    fn start(&self, call: Call) {
        if !call.regions().is_empty() {
            call.begins();
            return self.handler.start(call);
        }
        let number = self.crew.desk.next_number();
        // The call is kept by the crew, and must not keep the crew in turn.
        let crew = Arc::downgrade(&self.crew);
        call.on_stop(move |cause| {
            if let Some(crew) = crew.upgrade() {
                crew.desk.stop(number, cause);
            }
        });
        if let Taken::Refused(call, why) = self.crew.desk.hand_in(call, number) {
            call.finish(Err(self.crew.refusal(why)));
        }
    }

    fn regions(&self, args: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        self.handler.regions(args)
    }

    fn timeout(&self) -> Option<Duration> {
        self.handler.timeout()
    }

    fn begins_late(&self) -> bool {
        true
    }

    fn why_waiting(&self, task: &TaskId) -> Option<String> {
        let before = self.crew.desk.waiting_before(task)?;
        let (desk, seats) = (self.crew.desk.stats(), self.crew.settings.processes);
        Some(format!(
            "it waits for a worker process: {} of {seats} are busy; {before} came before it and wait too",
            desk.busy
        ))
    }

    fn close(&self, within: Duration) {
        self.crew.close(within);
        self.handler.close(within);
    }

    fn about(&self) -> About {
        self.handler.about()
    }

    fn stats(&self) -> Option<serde_json::Value> {
        let desk = self.crew.desk.stats();
        Some(serde_json::json!({
            "isolation": "process",
            // As a command handler says it, so that the same pages can show both. All isolated handlers share these.
            "concurrency": self.crew.settings.processes,
            "processes": desk.processes,
            "busy": desk.busy,
            "waiting": desk.waiting,
            "answered": desk.counts.answered,
            "starts": desk.counts.starts,
            "restarts": desk.counts.starts.saturating_sub(self.crew.settings.processes as u64),
            "crashes": desk.counts.crashes,
            "stops": desk.counts.stops,
        }))
    }
}
