//! A task from its acceptance to its end, and after that its outcome.
//!
//! ```text
//!             ┌──────────┐ time    ┌────────┐ a worker  ┌─────────┐ answer, cancel,   ┌───────┐
//!  accepted ─►│ delayed  ├────────►│ queued ├──────────►│ running ├──time over───────►│ ended │
//!             └──────────┘         └────────┘           └────┬────┘                   └───────┘
//!                  ▲                    ▲   another attempt  │
//!                  └── (also an entry)  └────── retrying ◄───┘      cancel ends it from every stage
//! ```
//!
//! The stage changes under one lock, and the task ends exactly once: whoever sets the outcome. What is told
//! to others (readers, callbacks, the handler's stop hook) is told after the lock is released.
//!
//! Not here: who moves it from stage to stage (`attempt.rs`), what it says meanwhile (`stream.rs`), how it
//! looks from outside (`status.rs`).

use crate::call::StopCause;
use crate::door::DoorName;
use crate::error::{ErrorCode, TaskFailure};
use crate::keeping::Kept;
use crate::ledger::{Ledger, Restored};
use crate::outcome::Outcome;
use crate::registry::Registered;
use crate::request::TaskId;
use crate::service::Shared;
use crate::status::Try;
use crate::stream::{Reach, Stream};
use crate::symbols::Region;
use crate::timer::TimerKey;
use crate::tracer::Traced;
use crate::watch::{Known, Reader, Watch};
use millpond::{Priority, Ticket};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A task that was accepted. Shared by the list, its worker, its timer and its readers.
pub struct Task {
    /// What it belongs to.
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: TaskId,
    /// Its place in the order of acceptance.
    pub(crate) sequence: u64,
    /// By which door it came.
    pub(crate) door: DoorName,
    pub(crate) handler: Arc<Registered>,
    /// What its handler is given, and shown to whoever asks, also after the end.
    pub(crate) args: Box<RawValue>,
    pub(crate) priority: Priority,
    /// A hash of the request's key.
    pub(crate) affinity: Option<u64>,
    /// How long one attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// How many more attempts a failure allows.
    pub(crate) retries: u32,
    pub(crate) traceparent: Option<Box<str>>,
    /// No other task with this key is taken in before this one has ended.
    pub(crate) unique_key: Option<Box<str>>,
    /// How long after its acceptance it must have begun.
    pub(crate) expires: Option<Duration>,
    /// Whether what happens to it is written down. The lines of a mailbox file are not: the file has them.
    pub(crate) is_durable: bool,
    /// Its idempotency key, and the fingerprint of its request.
    pub(crate) idempotency: Option<(Box<str>, u64)>,
    /// If its end is told to a tracer.
    pub(crate) traced: Option<Box<Traced>>,
    /// Whether the outcome is kept although it was told to whoever submitted the task.
    pub(crate) keep: bool,
    pub(crate) accepted_at: Instant,
    /// The same moment in Unix time.
    pub(crate) accepted_unix_ns: u64,
    /// Under which number its outcome is kept; 0 if it is not.
    pub(crate) kept_as: AtomicU64,
    /// The attempt whose words count; 0 if none runs. Written under the lock, read by anybody.
    pub(crate) live_attempt: AtomicU32,
    state: Mutex<State>,
    /// For those who wait for room in the stream or for the end. Signalled only if `State::waiting` says so.
    pub(crate) changed: Condvar,
    /// Set once, under the lock.
    pub(crate) outcome: OnceLock<Outcome>,
}

/// What changes. Guarded by the task's lock.
pub(crate) struct State {
    pub(crate) stage: Stage,
    /// Whether it is known to be kept.
    pub(crate) kept: Kept,
    /// How many of its records are on their way to the disk and waited for.
    pub(crate) unsynced: u32,
    /// It was taken back, so nothing of it is kept.
    pub(crate) is_lost: bool,
    /// The delay it asked for, until it is kept.
    pub(crate) first_delay: Duration,
    /// Whether the pool has it, or is being asked to take it.
    pub(crate) is_in_pool: bool,
    /// How many attempts have begun.
    pub(crate) attempt: u32,
    /// In how many of them the daemon died.
    pub(crate) crashes: u32,
    /// When its delay or its pause is over, in Unix time.
    pub(crate) due_ms: Option<u64>,
    /// When its end was decided, in Unix time, if there is a journal.
    pub(crate) ended_at_ms: Option<u64>,
    /// The worker on which the last attempt began.
    pub(crate) worker: Option<usize>,
    /// Attempts that are over, the latest of them; a first one that needed no other is not among them.
    pub(crate) tries: Vec<Try>,
    /// The pool's claim while it is queued, to take it out again.
    pub(crate) ticket: Option<Ticket<()>>,
    /// The one timer of the present stage: a delay, a pause, or the time limit of the attempt.
    pub(crate) timer: Option<TimerKey>,
    /// Ends it if it does not begin in time.
    pub(crate) expiry: Option<TimerKey>,
    pub(crate) deadline: Option<Instant>,
    /// When it was queued, if not when it was accepted.
    pub(crate) queued_since: Option<Instant>,
    pub(crate) began_at: Option<Instant>,
    /// How long the last attempt took, once it is over.
    pub(crate) ran: Duration,
    pub(crate) on_stop: Option<StopHook>,
    /// What its attempts work with; let go of at its end, although its outcome may be kept.
    pub(crate) regions: Option<Arc<[Region]>>,
    /// Why the last attempt that was stopped had to stop.
    pub(crate) stop_cause: StopCause,
    pub(crate) progress: Option<f64>,
    /// What its attempts left for the next one, the latest.
    pub(crate) checkpoint: Option<Arc<RawValue>>,
    /// Made when something is said.
    pub(crate) stream: Option<Box<Stream>>,
    /// Whether the stream may lose what nobody has read, if it has no reader: none came, or none came back.
    pub(crate) unread: bool,
    /// How far readers that left have read.
    left_off: u64,
    pub(crate) readers: Vec<Known>,
    reader_number: u64,
    /// The number of the reader that came with the submission.
    pub(crate) owner: Option<u64>,
    pub(crate) on_end: Vec<EndHook>,
    /// How many threads wait on `Task::changed`.
    pub(crate) waiting: u32,
}

pub(crate) type StopHook = Box<dyn FnOnce(StopCause) + Send>;
pub(crate) type EndHook = Box<dyn FnOnce(&Task, &Outcome) + Send>;

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It waits for the delay it asked for.
    Delayed,
    /// It waits for a worker.
    Queued,
    /// An attempt runs.
    Running,
    /// An attempt failed, and the next one waits for its time.
    Retrying,
    /// It has an outcome.
    Ended,
}

impl Stage {
    /// All of them, in the order in which a task may come through them.
    pub const ALL: [Self; 5] = [Self::Delayed, Self::Queued, Self::Running, Self::Retrying, Self::Ended];

    /// As it is written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Ended => "ended",
        }
    }

    /// The stage of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// What a new task is made of.
pub(crate) struct Fresh {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: TaskId,
    pub(crate) sequence: u64,
    pub(crate) door: DoorName,
    pub(crate) handler: Arc<Registered>,
    pub(crate) regions: Vec<Region>,
    pub(crate) affinity: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) keep: bool,
    pub(crate) checkpoint: Option<Arc<RawValue>>,
    pub(crate) idempotency: Option<(Box<str>, u64)>,
    pub(crate) request: crate::request::Request,
    pub(crate) reader: Option<Reader>,
    pub(crate) is_durable: bool,
}

/// Where a task stands before anything has happened.
pub(crate) fn first_stage(delay: Duration) -> Stage {
    if delay.is_zero() { Stage::Queued } else { Stage::Delayed }
}

impl Task {
    pub(crate) fn new(fresh: Fresh) -> Self {
        let Fresh { shared, id, sequence, door, handler, regions, affinity, timeout, .. } = fresh;
        let Fresh { keep, checkpoint, idempotency, request, reader, is_durable, .. } = fresh;
        let accepted_at = Instant::now();
        let mut state = State {
            stage: first_stage(request.delay),
            kept: if is_durable { Kept::Unknown(Vec::new()) } else { Kept::Yes },
            unsynced: 0,
            is_lost: false,
            first_delay: request.delay,
            is_in_pool: false,
            attempt: 0,
            crashes: 0,
            due_ms: None,
            ended_at_ms: None,
            worker: None,
            tries: Vec::new(),
            ticket: None,
            timer: None,
            expiry: None,
            deadline: None,
            queued_since: None,
            began_at: None,
            ran: Duration::ZERO,
            on_stop: None,
            regions: (!regions.is_empty()).then(|| regions.into()),
            stop_cause: StopCause::Cancelled,
            progress: None,
            checkpoint,
            stream: None,
            unread: true,
            left_off: 0,
            readers: Vec::new(),
            reader_number: 0,
            owner: None,
            on_end: Vec::new(),
            waiting: 0,
        };
        if let Some(reader) = reader {
            // Hardly any task has more readers than whoever submitted it.
            state.readers.reserve_exact(1);
            state.owner = Some(state.add_reader(reader));
        }
        Self {
            accepted_unix_ns: shared.wall.unix_ns(accepted_at),
            traced: shared.traced(request.traceparent.as_deref()),
            shared,
            id,
            sequence,
            door,
            handler,
            args: request.args,
            priority: request.priority,
            affinity,
            timeout,
            retries: request.retries,
            traceparent: request.traceparent,
            unique_key: request.unique_key,
            expires: request.expires,
            is_durable,
            idempotency,
            keep,
            accepted_at,
            kept_as: AtomicU64::new(0),
            live_attempt: AtomicU32::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
            outcome: OnceLock::new(),
        }
    }

    /// As it stood when its daemon went.
    pub(crate) fn restored(fresh: Fresh, restored: Restored) -> Self {
        let mut task = Self::new(fresh);
        let now = task.shared.wall.unix_ns(task.accepted_at);
        let age = Duration::from_nanos(now.saturating_sub(restored.accepted_unix_ns));
        // The steady clock may not reach back so far.
        task.accepted_at = task.accepted_at.checked_sub(age).unwrap_or(task.accepted_at);
        task.accepted_unix_ns = restored.accepted_unix_ns;
        let state = task.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.kept = Kept::Yes;
        state.stage = restored.stage;
        state.attempt = restored.attempt;
        state.crashes = restored.crashes;
        task
    }

    /// Where what happens to it is written down, if anywhere.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.shared.ledger.as_ref().filter(|_| self.is_durable)
    }

    /// When its delay or its pause is over, in Unix time.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.lock().due_ms
    }

    pub(crate) fn set_due_ms(&self, due_ms: Option<u64>) {
        self.lock().due_ms = due_ms;
    }

    /// Its id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// The name of its handler.
    pub fn handler(&self) -> &str {
        &self.handler.name
    }

    /// Its arguments, as they came.
    pub fn args(&self) -> &RawValue {
        &self.args
    }

    /// Its place in the order of acceptance, from 1.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// By which door it came.
    pub fn door(&self) -> DoorName {
        self.door
    }

    /// How urgent it is.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The W3C trace context that it continues.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// When it was accepted, in Unix time, in nanoseconds.
    pub fn accepted_unix_ns(&self) -> u64 {
        self.accepted_unix_ns
    }

    /// Whether it has an outcome.
    pub fn is_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// What is said to somebody who asks for what only an ended task has.
    pub(crate) fn not_ended(&self) -> TaskFailure {
        let message = format!("task {} is still {}; wait for its end", self.id, self.lock().stage.name());
        TaskFailure::new(ErrorCode::NotEnded, message)
    }

    /// Appends its outcome as one line of JSON without a line break; false if it has none yet.
    pub fn write_outcome(&self, out: &mut Vec<u8>) -> bool {
        self.outcome.get().map(|outcome| outcome.write_json(&self.id, out)).is_some()
    }

    /// Waits for its end, at most so long.
    pub fn wait(&self, timeout: Duration) -> Option<&Outcome> {
        if !self.is_ended() {
            let mut state = self.lock();
            state.waiting += 1;
            let unended = |_: &mut State| self.outcome.get().is_none();
            let woken = millpond::blocking(|| self.changed.wait_timeout_while(state, timeout, unended));
            woken.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
        }
        self.outcome.get()
    }

    /// Has `act` called when it ends; at once if it has. It may be called from any thread and must not wait.
    pub fn on_end(&self, act: impl FnOnce(&Self, &Outcome) + Send + 'static) {
        let mut state = self.lock();
        if let Some(outcome) = self.outcome.get() {
            drop(state);
            act(self, outcome);
        } else {
            state.on_end.push(Box::new(act));
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves it to another stage.
    pub(crate) fn set_stage(&self, state: &mut State, stage: Stage) {
        if state.stage != stage {
            self.shared.list.stages.moved(state.stage, stage);
            state.stage = stage;
            // An end is told of when the outcome is set.
            if stage != Stage::Ended {
                self.shared.events.tell(self, stage);
            }
        }
    }

    /// Whether this attempt's words still count.
    pub(crate) fn is_live(&self, attempt: u32) -> bool {
        self.live_attempt.load(Acquire) == attempt
    }

    /// Whose words count from now on; 0 is nobody's.
    pub(crate) fn set_live(&self, _state: &mut State, attempt: u32) {
        self.live_attempt.store(attempt, Release);
    }

    /// Wakes those who wait for room or for the end.
    pub(crate) fn wake_waiting(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// About how much memory it takes once it has ended.
    pub(crate) fn kept_bytes(&self) -> usize {
        let outcome = self.outcome.get().map_or(0, Outcome::bytes);
        let state = self.lock();
        let tries: usize = state.tries.iter().map(Try::bytes).sum();
        let checkpoint = state.checkpoint.as_ref().map_or(0, |value| value.get().len());
        let stream = state.stream.as_ref().map_or(0, |stream| stream.bytes());
        size_of::<Self>() + self.args.get().len() + outcome + tries + stream + checkpoint
    }
}

impl State {
    pub(crate) fn add_reader(&mut self, reader: Reader) -> u64 {
        self.reader_number += 1;
        let next = match reader.wants {
            crate::watch::Wants::Stream { from } => {
                self.unread = false;
                from
            }
            crate::watch::Wants::Result => 0,
        };
        self.readers.push(Known { number: self.reader_number, reader, next, is_given_up: false });
        self.reader_number
    }

    pub(crate) fn remove_reader(&mut self, number: u64) -> Option<Known> {
        let at = self.readers.iter().position(|known| known.number == number)?;
        let gone = self.readers.swap_remove(at);
        if gone.streams() {
            self.left_off = self.left_off.max(gone.next);
        }
        Some(gone)
    }

    pub(crate) fn reader_moved(&mut self, number: u64, next: u64) {
        self.unread = false;
        match self.readers.iter_mut().find(|known| known.number == number) {
            Some(known) => {
                known.next = next;
                known.is_given_up = false;
            }
            None => self.left_off = self.left_off.max(next),
        }
    }

    /// How far readers have come.
    pub(crate) fn reach(&self) -> Reach {
        let streams = || self.readers.iter().filter(|known| known.streams());
        let slowest = streams().filter(|known| !known.is_given_up).map(|known| known.next).min();
        let read_to = match slowest {
            Some(next) => next,
            None if self.unread || streams().next().is_some() => u64::MAX,
            None => self.left_off,
        };
        let seen_to = streams().map(|known| known.next).max().unwrap_or_default().max(self.left_off);
        Reach { read_to, seen_to }
    }

    /// The patience is over: those who hold up the stream are not waited for, until they move.
    pub(crate) fn give_up(&mut self) {
        self.unread = true;
        let first = self.stream.as_ref().map_or(0, |stream| stream.first());
        for known in &mut self.readers {
            known.is_given_up |= known.next <= first;
        }
    }

    /// Those who want to know what the task says.
    pub(crate) fn stream_readers(&self) -> Vec<(Arc<dyn Watch>, u64)> {
        let streams = self.readers.iter().filter(|known| known.streams());
        streams.map(|known| (Arc::clone(&known.reader.who), known.reader.tag)).collect()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = self.lock().stage;
        formatter
            .debug_struct("Task")
            .field("id", &self.id)
            .field("handler", &self.handler.name)
            .field("stage", &stage)
            .finish()
    }
}
