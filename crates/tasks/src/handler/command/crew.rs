//! All that the processes of one handler have in common, and the threads that keep them.
//!
//! A thread is made when a call finds every place busy and there may be one more. It lives until the handler
//! closes, also if it panics: a mistake of ours costs one task and one process, and not the handler.

use super::desk::{Desk, Job, Place, Refusal};
use super::keeper::Keeper;
use super::launch::Launch;
use crate::config::HandlerSettings;
use crate::error::{ErrorCode, TaskFailure};
use crate::log::{Level, Log};
use rustix::process::Signal;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long to wait for processes that were killed: the kernel has to take them away.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// More patience than this is the same as any.
const PATIENCE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// One handler and its processes.
pub(super) struct Crew {
    pub(super) name: String,
    pub(super) settings: HandlerSettings,
    pub(super) launch: Launch,
    pub(super) log: Log,
    pub(super) desk: Desk,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    pub(super) fn new(name: &str, settings: HandlerSettings, log: Log) -> Self {
        Self {
            name: name.to_owned(),
            launch: Launch::new(name, &settings),
            desk: Desk::new(settings.concurrency),
            settings,
            log,
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Makes a thread that keeps `place`.
    pub(super) fn staff(self: &Arc<Self>, place: Place) {
        let (crew, kept) = (Arc::clone(self), place.clone());
        let thread = thread::Builder::new().name(format!("millpond-{}", self.name));
        match thread.spawn(move || crew.keep(kept)) {
            Ok(thread) => self.threads().push(thread),
            Err(error) => {
                let failure = self.refusal(Refusal::NoKeeper(error));
                self.log.warn(&failure.message);
                for job in self.desk.unkept(&place) {
                    job.call.finish(Err(failure.clone()));
                }
            }
        }
    }

    fn keep(self: Arc<Self>, place: Place) {
        let mut keeper = Keeper::new(Arc::clone(&self), place.clone());
        // Whatever a panic leaves half done goes with the process, which dies with its owner.
        while catch_unwind(AssertUnwindSafe(|| keeper.run())).is_err() {
            self.say(Level::Error, "the thread that keeps a process panicked");
            keeper.recover();
        }
        for job in self.desk.unkept(&place) {
            job.call.finish(Err(self.refusal(Refusal::Closed)));
        }
    }

    /// A call has to wait again.
    pub(super) fn give_back(self: &Arc<Self>, job: Job) {
        match self.desk.give_back(job) {
            Ok(None) => {}
            Ok(Some(place)) => self.staff(place),
            Err(job) => job.call.finish(Err(self.refusal(Refusal::Closed))),
        }
    }

    /// Says something about this handler in the log.
    pub(super) fn say(&self, level: Level, words: &str) {
        self.log.say(level, &format!("handler {}: {words}", self.name));
    }

    /// A process said something on stderr.
    pub(super) fn heard(&self, pid: u32, line: &str) {
        self.log.info(&format!("handler {} (pid {pid}): {line}", self.name));
    }

    pub(super) fn refusal(&self, refusal: Refusal) -> TaskFailure {
        let name = &self.name;
        match refusal {
            Refusal::Closed => TaskFailure::new(ErrorCode::Draining, format!("handler {name} has closed")),
            Refusal::Broken(why, rest) => Self::broken(&why, rest),
            Refusal::NoKeeper(error) => {
                let message = format!("handler {name}: another process cannot be kept: {error}");
                TaskFailure::new(ErrorCode::HandlerCrashed, message)
            }
        }
    }

    /// What a task is told if the program cannot be started.
    pub(super) fn broken(why: &str, rest: Duration) -> TaskFailure {
        TaskFailure::new(ErrorCode::HandlerCrashed, format!("{why}; it is tried again in {rest:.1?}"))
    }

    /// Ends everything: an end of input first, then SIGTERM, then SIGKILL.
    pub(super) fn close(&self, within: Duration) {
        let begin = Instant::now();
        let within = within.min(PATIENCE_MAX);
        for job in self.desk.close() {
            job.call.finish(Err(self.refusal(Refusal::Closed)));
        }
        let threads = mem::take(&mut *self.threads());
        // The last task that knows the handler may end on one of our own threads. It cannot wait for itself.
        if threads.iter().any(|thread| thread.thread().id() == thread::current().id()) {
            return self.desk.doom_all();
        }
        let ended = self.desk.wait_ended(begin + within / 2) || {
            self.desk.signal_all(Signal::TERM);
            self.desk.wait_ended(begin + within / 10 * 9)
        };
        let ended = ended || {
            self.desk.doom_all();
            self.desk.wait_ended((begin + within).max(Instant::now() + KILL_WAIT))
        };
        if ended {
            threads.into_iter().for_each(|thread| drop(thread.join()));
        } else {
            self.say(Level::Error, "a process was killed and is not gone yet");
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
