//! How a task moves: into the queue, onto a worker, through its attempts, to its end.
//!
//! Every step is taken under the task's lock and looks at the stage first, so steps that race (an answer, a
//! cancel, the end of the time allowed) have one winner and the others find nothing to do. What follows from
//! a step for others is done after the lock is released.
//!
//! Not here: whether a request is accepted at all (`submit.rs`), how it ends (`ending.rs`), where it waits for room
//! (`backlog.rs`).

use crate::call::{Call, StopCause, Stopped};
use crate::config::RetrySettings;
use crate::ending::Ending;
use crate::error::{ErrorCode, TaskFailure};
use crate::service::{ServiceHandle, Shared};
use crate::status::keep_try;
use crate::stream::{Push, Said};
use crate::task::{Stage, State, Task};
use millpond::{Priority, SubmitError, TaskOptions};
use serde_json::value::RawValue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
            return self.queue();
        }
        let mut state = self.lock();
        if state.stage != Stage::Ended {
            self.hold(&mut state, Stage::Delayed, delay);
        }
        Ok(())
    }

    /// As [`launch`](Self::launch), for one that was promised to run: if there is no room, it waits for some.
    pub(crate) fn begin_life(self: &Arc<Self>, is_held: bool) {
        if let Some(expires) = self.expires {
            self.expire_after(expires.saturating_sub(self.accepted_at.elapsed()));
        }
        if !is_held {
            self.queue_or_wait();
        }
    }

    /// Goes on with a task that came back after a restart: it waits for its time, or for room.
    pub(crate) fn go_on(self: &Arc<Self>, wait: Option<Duration>) {
        let mut state = self.lock();
        if let Some(expires) = self.expires.filter(|_| state.attempt == 0) {
            let now = self.shared.wall.unix_ns(Instant::now());
            let age = Duration::from_nanos(now.saturating_sub(self.accepted_unix_ns));
            drop(state);
            self.expire_after(expires.saturating_sub(age));
            state = self.lock();
        }
        match wait {
            Some(wait) => {
                let stage = state.stage;
                self.hold(&mut state, stage, wait);
            }
            None => {
                drop(state);
                self.shared.backlog.add(self);
            }
        }
    }

    /// Puts it into the queue, or lets it wait for room.
    fn queue_or_wait(self: &Arc<Self>) {
        // Others came before it.
        if self.shared.backlog.len() > 0 {
            return self.shared.wait_for_room(self);
        }
        match self.queue() {
            Ok(()) => {}
            Err(NoRoom::Full) => self.shared.wait_for_room(self),
            Err(NoRoom::Closed) => self.stops_unrun(),
        }
    }

    /// Puts it into the queue of the pool. If there is no room, it stands where it stood.
    pub(crate) fn queue(self: &Arc<Self>) -> Result<(), NoRoom> {
        let stood = {
            let mut state = self.lock();
            if state.stage == Stage::Ended {
                return Ok(());
            }
            let stood = state.stage;
            self.set_stage(&mut state, Stage::Queued);
            state.is_in_pool = true;
            stood
        };
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
                // First of all: what comes back with the refusal must not end the task when it is dropped.
                let mut state = self.lock();
                state.is_in_pool = false;
                if state.stage == Stage::Ended {
                    return Ok(());
                }
                self.set_stage(&mut state, stood);
                drop(state);
                Err(if matches!(refused, SubmitError::Closed(_)) { NoRoom::Closed } else { NoRoom::Full })
            }
        }
    }

    /// Whether it waits for nothing any more.
    pub(crate) fn has_left(&self) -> bool {
        self.lock().stage == Stage::Ended
    }

    /// Holds it until `wait` is over.
    pub(crate) fn hold(self: &Arc<Self>, state: &mut State, stage: Stage, wait: Duration) {
        self.set_stage(state, stage);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        state.due_ms = Some(self.shared.now_ms().saturating_add(wait_ms));
        let task = Arc::clone(self);
        state.timer = Some(self.shared.timer.after(wait, move || task.is_due()));
    }

    /// Its delay or its pause is over.
    fn is_due(self: &Arc<Self>) {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Delayed | Stage::Retrying) {
            return;
        }
        state.timer = None;
        state.due_ms = None;
        state.queued_since = Some(Instant::now());
        self.set_stage(&mut state, Stage::Queued);
        drop(state);
        self.queue_or_wait();
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
        state.is_in_pool = false;
        state.attempt += 1;
        let attempt = state.attempt;
        if let Some(ledger) = self.ledger() {
            ledger.began(self, attempt);
        }
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
        // It has left a place in the queue.
        self.shared.feed();
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
                    && self.attempts_used(&state) <= self.retries
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
        let pause = self.shared.pause_before_retry(self.attempts_used(&state), settings);
        self.hold(&mut state, Stage::Retrying, pause);
        if let (Some(ledger), Some(due_ms)) = (self.ledger(), state.due_ms) {
            ledger.failed(self, state.attempt, due_ms);
        }
        drop(state);
        if let Some(timer) = timer {
            self.shared.timer.cancel(timer);
        }
        if let (Some(hook), Some(cause)) = (hook, stop) {
            guarded(|| hook(cause));
        }
    }

    /// How many attempts count against its retries: one in which the daemon died does not.
    fn attempts_used(&self, state: &State) -> u32 {
        state.attempt.saturating_sub(state.crashes).max(1)
    }

    /// What is told if this attempt was the last of several.
    fn last_word(
        &self,
        state: &State,
        result: Result<Box<RawValue>, TaskFailure>,
    ) -> Result<Box<RawValue>, TaskFailure> {
        result.map_err(|failure| {
            let has_more = self.attempts_used(state) <= self.retries;
            if self.retries == 0 || has_more || !failure.code.row().retry_may_help {
                return failure;
            }
            let message = format!("{} attempts failed; the last: {failure}", state.attempt);
            TaskFailure { code: ErrorCode::RetriesExhausted, message, at: failure.at }
        })
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

impl ServiceHandle {
    /// How long to wait before the next attempt of a task of this handler, after so many that failed. For a door that
    /// keeps count of them itself.
    pub fn pause_before_retry(&self, handler: &str, failures: u32) -> Duration {
        let registered = self.shared.registry.named(handler);
        let own = registered.and_then(|registered| registered.retry.get());
        self.shared.pause_before_retry(failures.max(1), own.unwrap_or(&self.shared.config.retry))
    }
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
