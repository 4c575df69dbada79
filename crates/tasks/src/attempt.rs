//! How a task moves: into the queue, onto a worker, through its attempts, to its end.
//!
//! Every step is taken under the task's lock and looks at the stage first, so steps that race (an answer, a
//! cancel, the end of the time allowed) have one winner and the others find nothing to do. What follows from
//! a step for others is done after the lock is released.
//!
//! Not here: whether a request is accepted at all (`submit.rs`).

use crate::call::{Call, StopCause, Stopped};
use crate::config::RetrySettings;
use crate::dead::DeadLetter;
use crate::error::{ErrorCode, TaskFailure};
use crate::outcome::Outcome;
use crate::service::Shared;
use crate::status::keep_try;
use crate::stream::{Push, Said};
use crate::task::{EndHook, Stage, State, Task};
use crate::watch::Known;
use millpond::{Priority, SubmitError, TaskOptions};
use serde_json::value::RawValue;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a task that is due waits for room in a full queue before it tries again.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// A task in the pool's queue. If the pool lets go of it unrun, it still ends.
struct Queued(Option<Arc<Task>>);

impl Queued {
    fn run(mut self) {
        if let Some(task) = self.0.take() {
            task.begin();
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.was_let_go();
        }
    }
}

/// How a task ends.
struct Ending {
    result: Result<Box<RawValue>, TaskFailure>,
    /// What its handler is told, if it runs.
    stop: Option<StopCause>,
    /// Whether a failure is kept as a dead letter: its last attempt failed by itself.
    may_die: bool,
}

impl Ending {
    /// Without a last attempt.
    fn unrun(failure: TaskFailure) -> Self {
        Self { result: Err(failure), stop: None, may_die: false }
    }
}

/// Why a task cannot be queued now.
pub(crate) enum NoRoom {
    Full,
    Closed,
}

impl Task {
    /// Begins the life of an accepted task: into the queue, or to the timer if it asked for a delay.
    pub(crate) fn launch(self: &Arc<Self>, delay: Duration) -> Result<(), NoRoom> {
        if let Some(expires) = self.expires {
            self.expire_after(expires);
        }
        if delay.is_zero() {
            return self.queue(Stage::Delayed);
        }
        let mut state = self.lock();
        if state.stage != Stage::Ended {
            self.wait_for_time(&mut state, Stage::Delayed, delay);
        }
        Ok(())
    }

    /// Takes back a task that found no room; false if it has ended already. Somebody may have found it by its
    /// id in the meantime, so it gets an outcome, but it counts as refused and not as ended.
    pub(crate) fn withdraw(self: &Arc<Self>, failure: &TaskFailure) -> bool {
        let mut state = self.lock();
        if state.stage == Stage::Ended {
            return false;
        }
        self.set_stage(&mut state, Stage::Ended);
        let waited = self.accepted_at.elapsed();
        let outcome = Outcome { result: Err(failure.clone()), attempts: 0, waited, ran: Duration::ZERO };
        let set = self.outcome.set(outcome);
        debug_assert!(set.is_ok(), "a task ends once");
        self.shared.events.tell(self, Stage::Ended);
        let owner = state.owner;
        let expiry = state.expiry.take();
        state.regions = None;
        let readers = mem::take(&mut state.readers);
        let on_end = mem::take(&mut state.on_end);
        self.wake_waiting(&state);
        drop(state);
        if let Some(expiry) = expiry {
            self.shared.timer.cancel(expiry);
        }
        // Whoever submitted it hears of it by the refusal.
        self.tell(readers.into_iter().filter(|known| Some(known.number) != owner), on_end);
        true
    }

    /// Puts it into the queue of the pool. If there is no room, it stands at `otherwise`.
    fn queue(self: &Arc<Self>, otherwise: Stage) -> Result<(), NoRoom> {
        {
            let mut state = self.lock();
            if state.stage == Stage::Ended {
                return Ok(());
            }
            self.set_stage(&mut state, Stage::Queued);
        }
        let queued = Queued(Some(Arc::clone(self)));
        let pool = &self.shared.pool;
        let work = move || queued.run();
        let answer = if self.priority == Priority::Normal && self.affinity.is_none() {
            if self.shared.full_queue_waits() { pool.try_submit(work) } else { pool.submit(work) }
        } else {
            let options =
                TaskOptions { priority: self.priority, affinity: self.affinity, ..TaskOptions::default() };
            let with = pool.with(&options);
            if self.shared.full_queue_waits() { with.try_submit(work) } else { with.submit(work) }
        };
        match answer {
            Ok(ticket) => {
                let mut state = self.lock();
                if state.stage == Stage::Queued {
                    state.ticket = Some(ticket);
                }
                Ok(())
            }
            Err(refused) => {
                // The stage first: what comes back with the refusal must not end the task when it is dropped.
                let mut state = self.lock();
                if state.stage == Stage::Ended {
                    return Ok(());
                }
                self.set_stage(&mut state, otherwise);
                drop(state);
                Err(if matches!(refused, SubmitError::Closed(_)) { NoRoom::Closed } else { NoRoom::Full })
            }
        }
    }

    /// Holds it until `wait` is over.
    fn wait_for_time(self: &Arc<Self>, state: &mut State, stage: Stage, wait: Duration) {
        self.set_stage(state, stage);
        let task = Arc::clone(self);
        state.timer = Some(self.shared.timer.after(wait, move || task.is_due()));
    }

    /// Its delay or its pause is over.
    fn is_due(self: &Arc<Self>) {
        let stage = {
            let mut state = self.lock();
            if !matches!(state.stage, Stage::Delayed | Stage::Retrying) {
                return;
            }
            state.timer = None;
            state.queued_since = Some(Instant::now());
            state.stage
        };
        let Err(no_room) = self.queue(stage) else { return };
        let mut state = self.lock();
        // Somebody may have cancelled it meanwhile.
        if state.stage == stage {
            match no_room {
                NoRoom::Full => self.wait_for_time(&mut state, stage, FULL_QUEUE_PAUSE),
                NoRoom::Closed => self.end(state, Ending::unrun(stopped_unrun())),
            }
        }
    }

    /// Ends it if no attempt begins within this time.
    fn expire_after(self: &Arc<Self>, expires: Duration) {
        let mut state = self.lock();
        if state.stage != Stage::Ended {
            let task = Arc::clone(self);
            state.expiry = Some(self.shared.timer.after(expires, move || task.has_expired()));
        }
    }

    fn has_expired(self: &Arc<Self>) {
        let mut state = self.lock();
        state.expiry = None;
        if state.attempt == 0 && matches!(state.stage, Stage::Delayed | Stage::Queued) {
            let message =
                format!("it did not begin within {} ms", self.expires.unwrap_or_default().as_millis());
            self.end(state, Ending::unrun(TaskFailure::new(ErrorCode::Expired, message)));
        }
    }

    /// Begins this attempt on the thread that calls.
    pub(crate) fn begin_here(self: &Arc<Self>, attempt: u32) {
        self.lock().attempt = attempt.saturating_sub(1);
        self.begin();
    }

    /// A worker has it: begins an attempt.
    fn begin(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.stage != Stage::Queued {
            return;
        }
        self.set_stage(&mut state, Stage::Running);
        state.ticket = None;
        state.attempt += 1;
        let attempt = state.attempt;
        let now = Instant::now();
        state.began_at = Some(now);
        let worker = millpond::current_worker();
        state.worker = worker;
        self.set_live(&mut state, attempt);
        state.deadline = None;
        if !self.handler.handler.begins_late() {
            self.limit_time(&mut state, now);
        }
        let regions = state.regions.clone();
        let expiry = state.expiry.take();
        drop(state);
        if let Some(expiry) = expiry {
            self.shared.timer.cancel(expiry);
        }
        let _having = self.shared.at_work.has(worker, self.sequence);
        self.handler.handler.start(Call::new(Arc::clone(self), attempt, regions));
    }

    /// An attempt whose handler begins late has begun in earnest.
    pub(crate) fn attempt_begins(self: &Arc<Self>, attempt: u32) {
        let mut state = self.lock();
        if self.is_live(attempt) && state.timer.is_none() {
            let now = Instant::now();
            state.began_at = Some(now);
            self.limit_time(&mut state, now);
        }
    }

    /// From `now` on the present attempt may take as long as it is allowed to.
    fn limit_time(self: &Arc<Self>, state: &mut State, now: Instant) {
        let Some(timeout) = self.timeout else { return };
        let (task, attempt) = (Arc::clone(self), state.attempt);
        state.deadline = now.checked_add(timeout);
        state.timer = Some(self.shared.timer.after(timeout, move || task.time_is_over(attempt)));
    }

    /// The handler has answered.
    pub(crate) fn attempt_ended(self: &Arc<Self>, attempt: u32, result: Result<Box<RawValue>, TaskFailure>) {
        let result = self.shared.within_bounds(result);
        let state = self.lock();
        if self.is_live(attempt) {
            self.close_attempt(state, result, None);
        }
    }

    /// The time allowed for an attempt is over.
    fn time_is_over(self: &Arc<Self>, attempt: u32) {
        let state = self.lock();
        if !self.is_live(attempt) {
            return;
        }
        let message =
            format!("the attempt took longer than {} ms", self.timeout.unwrap_or_default().as_millis());
        let failure = TaskFailure::new(ErrorCode::TimedOut, message);
        self.close_attempt(state, Err(failure), Some(StopCause::TimedOut));
    }

    /// Ends the present attempt: another one follows, or the task ends.
    fn close_attempt(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        result: Result<Box<RawValue>, TaskFailure>,
        stop: Option<StopCause>,
    ) {
        let retry = match &result {
            Err(failure) => {
                failure.code.row().retry_may_help
                    && state.attempt <= self.retries
                    && !self.shared.is_stopping.load(Relaxed)
            }
            Ok(_) => false,
        };
        if let Err(failure) = &result
            && self.retries > 0
        {
            state.ran = state.began_at.map_or(Duration::ZERO, |began| began.elapsed());
            let over = self.last_try(&state, state.ran, Some(failure));
            keep_try(&mut state.tries, over);
        }
        if !retry {
            let result = self.last_word(&state, result);
            return self.end(state, Ending { result, stop, may_die: true });
        }
        self.shared.counts.retried.fetch_add(1, Relaxed);
        let timer = state.timer.take();
        let hook = state.on_stop.take();
        self.set_live(&mut state, 0);
        state.stop_cause = stop.unwrap_or(StopCause::Cancelled);
        let settings = self.handler.retry.get().unwrap_or(&self.shared.config.retry);
        let pause = self.shared.pause_before_retry(state.attempt, settings);
        self.wait_for_time(&mut state, Stage::Retrying, pause);
        drop(state);
        if let Some(timer) = timer {
            self.shared.timer.cancel(timer);
        }
        if let (Some(hook), Some(cause)) = (hook, stop) {
            guarded(|| hook(cause));
        }
    }

    /// What is told if this attempt was the last of several.
    fn last_word(
        &self,
        state: &State,
        result: Result<Box<RawValue>, TaskFailure>,
    ) -> Result<Box<RawValue>, TaskFailure> {
        result.map_err(|failure| {
            if self.retries == 0 || state.attempt <= self.retries || !failure.code.row().retry_may_help {
                return failure;
            }
            let message = format!("{} attempts failed; the last: {failure}", state.attempt);
            TaskFailure { code: ErrorCode::RetriesExhausted, message, at: failure.at }
        })
    }

    /// Ends it from whatever stage, unless it has ended.
    pub(crate) fn cancel(self: &Arc<Self>, cause: StopCause) -> Result<(), TaskFailure> {
        let state = self.lock();
        if state.stage == Stage::Ended {
            let message = format!("task {} has ended and cannot be cancelled", self.id);
            return Err(TaskFailure::new(ErrorCode::AlreadyEnded, message));
        }
        let failure = match cause {
            StopCause::ShuttingDown if state.stage != Stage::Running => stopped_unrun(),
            StopCause::ShuttingDown => {
                TaskFailure::new(ErrorCode::Cancelled, "the daemon stopped while the task ran")
            }
            _ => TaskFailure::new(
                ErrorCode::Cancelled,
                format!("it was {} when it was cancelled", state.stage.name()),
            ),
        };
        self.end(state, Ending { result: Err(failure), stop: Some(cause), may_die: false });
        Ok(())
    }

    /// The pool let go of it unrun: a policy dropped it, or the pool has stopped.
    fn was_let_go(self: &Arc<Self>) {
        let state = self.lock();
        if state.stage == Stage::Queued {
            let failure = if self.shared.is_stopping.load(Relaxed) {
                stopped_unrun()
            } else {
                TaskFailure::new(
                    ErrorCode::Dropped,
                    "the queue was full and back_pressure.policy drops tasks",
                )
            };
            self.end(state, Ending::unrun(failure));
        }
    }

    /// The end: sets the outcome, then tells everybody who wants to know.
    fn end(self: &Arc<Self>, mut state: MutexGuard<'_, State>, ending: Ending) {
        let Ending { result, stop, may_die } = ending;
        let now = Instant::now();
        let letter = self.letter(&state, result.as_ref().err().filter(|_| may_die), now);
        let began = state.began_at;
        let outcome = Outcome {
            result,
            attempts: state.attempt,
            waited: began.unwrap_or(now).saturating_duration_since(self.accepted_at),
            ran: match began {
                Some(began) if state.stage == Stage::Running => now.saturating_duration_since(began),
                _ => state.ran,
            },
        };
        self.set_stage(&mut state, Stage::Ended);
        self.set_live(&mut state, 0);
        state.stop_cause = stop.unwrap_or(StopCause::Cancelled);
        // Whoever sees the end finds the letter.
        if let Some(letter) = letter {
            self.shared.dead.keep(letter);
        }
        let set = self.outcome.set(outcome);
        debug_assert!(set.is_ok(), "a task ends once");
        self.shared.events.tell(self, Stage::Ended);
        let readers = mem::take(&mut state.readers);
        let on_end = mem::take(&mut state.on_end);
        let is_owner_there =
            state.owner.is_some_and(|owner| readers.iter().any(|known| known.number == owner));
        let is_told = state.owner.is_none() || is_owner_there;
        let regions = state.regions.take();
        let loose = (state.ticket.take(), [state.timer.take(), state.expiry.take()], state.on_stop.take());
        self.wake_waiting(&state);
        drop(state);
        // Before anybody is told: whoever hears of the end may want the memory back.
        drop(regions);

        let (ticket, timers, hook) = loose;
        for timer in timers.into_iter().flatten() {
            self.shared.timer.cancel(timer);
        }
        if let Some(ticket) = ticket {
            ticket.cancel();
        }
        self.shared.has_ended(self, self.keep || !is_told);
        self.tell(readers, on_end);
        if let (Some(hook), Some(cause)) = (hook, stop) {
            guarded(|| hook(cause));
        }
        self.shared.trace_end(self);
        self.shared.was_told();
    }

    /// What is kept of it if it dies of this failure.
    fn letter(&self, state: &State, failure: Option<&TaskFailure>, now: Instant) -> Option<DeadLetter> {
        let failure = failure.filter(|_| self.shared.dead.is_on())?;
        let mut letter = DeadLetter::of(self, state, failure, self.shared.wall.unix_ns(now) / 1_000_000);
        letter.number = self.shared.dead.next_number();
        Some(letter)
    }

    /// Tells readers and callbacks that it has ended.
    fn tell(self: &Arc<Self>, readers: impl IntoIterator<Item = Known>, on_end: Vec<EndHook>) {
        for known in readers {
            guarded(|| known.reader.who.told(known.reader.tag, self));
        }
        if let Some(outcome) = self.outcome.get() {
            for act in on_end {
                guarded(|| act(self, outcome));
            }
        }
    }

    /// Adds a partial result to the stream, and waits for room if need be.
    pub(crate) fn say_partial(self: &Arc<Self>, attempt: u32, what: &Said) -> Result<(), Stopped> {
        let patience = self.shared.config.stream.reader_wait;
        // How far the slowest reader was, and until when it is waited for; none is for ever.
        let mut waiting_for: Option<(u64, Option<Instant>)> = None;
        let mut state = self.lock();
        loop {
            if !self.is_live(attempt) {
                return Err(Stopped::Over);
            }
            let reach = state.reach();
            let limits = &self.shared.config.stream;
            if state.stream.get_or_insert_default().push(attempt, what, reach, limits) == Push::Taken {
                break;
            }
            // The patience begins anew whenever the slowest reader gets on.
            let until = match waiting_for {
                Some((read_to, until)) if read_to == reach.read_to => until,
                _ => waiting_for.insert((reach.read_to, Instant::now().checked_add(patience))).1,
            };
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                state.give_up();
                continue;
            }
            state.waiting += 1;
            let woken = millpond::blocking(|| self.changed.wait_timeout(state, left));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        self.tell_stream_readers(state);
        Ok(())
    }

    /// Adds progress or a line of the log, if there is room.
    pub(crate) fn say_in_passing(self: &Arc<Self>, attempt: u32, what: &Said) {
        let mut state = self.lock();
        if !self.is_live(attempt) {
            return;
        }
        if let Said::Progress(fraction) = what {
            state.progress = Some(*fraction);
        }
        let reach = state.reach();
        let limits = &self.shared.config.stream;
        if state.stream.get_or_insert_default().push(attempt, what, reach, limits) == Push::Taken {
            self.tell_stream_readers(state);
        }
    }

    fn tell_stream_readers(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        let readers = state.stream_readers();
        drop(state);
        for (who, tag) in readers {
            guarded(|| who.told(tag, self));
        }
    }
}

/// Calls somebody who wants to be told. A panic is theirs, and must not keep others from being told.
pub(crate) fn guarded(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

fn stopped_unrun() -> TaskFailure {
    TaskFailure::new(ErrorCode::Draining, "the daemon stopped before the task was run")
}

impl Shared {
    /// An answer that is too large to be kept is an error.
    fn within_bounds(
        &self,
        result: Result<Box<RawValue>, TaskFailure>,
    ) -> Result<Box<RawValue>, TaskFailure> {
        let value = result?;
        self.check_size(value.get().len()).map(|()| value)
    }

    pub(crate) fn check_size(&self, result_bytes: usize) -> Result<(), TaskFailure> {
        let bytes_max = self.config.results.result_bytes_max;
        if result_bytes <= bytes_max {
            return Ok(());
        }
        let message = format!(
            "expected a result of at most {bytes_max} bytes, got {result_bytes}; stream it as partial results or raise \
             results.result_bytes_max"
        );
        Err(TaskFailure::new(ErrorCode::TooLarge, message))
    }

    /// How long to wait after this attempt: doubling from `backoff_min` to `backoff_max`, and of that a
    /// random part, at least half, so that tasks that failed together do not come back together.
    fn pause_before_retry(&self, attempt: u32, settings: &RetrySettings) -> Duration {
        let doubled = settings.backoff_min.saturating_mul(1 << (attempt - 1).min(30));
        let most = doubled.min(settings.backoff_max.max(settings.backoff_min));
        most.mul_f64(0.5 + 0.5 * self.random_fraction())
    }
}
