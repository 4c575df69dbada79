//! How a task ends: decided once under its lock, written down if there is a journal, and only then told.
//!
//! Whoever decides (an answer, a cancel, the end of its time, the end of the daemon) sets the stage; the others find
//! nothing to do. Without a journal the outcome is set in the same step. With one, that waits until the end is kept, so
//! that nobody hears of an end that a crash could undo; what the task held (its place in the queue, timers, memory, its
//! handler) is let go at once in any case.
//!
//! A daemon that stops ends nothing that its journal keeps: such a task is told to those who wait for it as postponed,
//! and goes on after the restart.
//!
//! Not here: the steps before (`attempt.rs`), where outcomes are kept (`results.rs`).

use crate::attempt::guarded;
use crate::call::StopCause;
use crate::dead::DeadLetter;
use crate::error::{ErrorCode, TaskFailure};
use crate::ledger::Ended;
use crate::outcome::Outcome;
use crate::task::{EndHook, Stage, State, StopHook, Task};
use crate::timer::TimerKey;
use crate::watch::Known;
use millpond::Ticket;
use serde_json::value::RawValue;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// How a task ends.
pub(crate) struct Ending {
    pub(crate) result: Result<Box<RawValue>, TaskFailure>,
    /// What its handler is told, if it runs.
    pub(crate) stop: Option<StopCause>,
    /// Whether a failure is kept as a dead letter: its last attempt failed by itself.
    pub(crate) may_die: bool,
}

impl Ending {
    /// Without a last attempt.
    pub(crate) fn unrun(failure: TaskFailure) -> Self {
        Self { result: Err(failure), stop: None, may_die: false }
    }
}

/// What a task holds until its end.
struct Loose {
    ticket: Option<Ticket<()>>,
    timers: [Option<TimerKey>; 2],
    hook: Option<StopHook>,
}

/// Whom an end is told to.
struct Farewell {
    readers: Vec<Known>,
    on_end: Vec<EndHook>,
    /// Whether whoever submitted it is among them, or nobody waits.
    is_told: bool,
}

impl Task {
    /// The end of a task that has not ended.
    pub(crate) fn end<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>, ending: Ending) {
        let Ending { result, stop, may_die } = ending;
        let now = Instant::now();
        let letter = self.letter(&state, result.as_ref().err().filter(|_| may_die), now);
        let outcome = self.outcome_of(&state, result, now);
        let was_running = state.stage == Stage::Running;
        self.set_stage(&mut state, Stage::Ended);
        self.set_live(&mut state, 0);
        state.stop_cause = stop.unwrap_or(StopCause::Cancelled);
        let regions = state.regions.take();
        let loose = Loose {
            ticket: state.ticket.take(),
            timers: [state.timer.take(), state.expiry.take()],
            hook: state.on_stop.take(),
        };
        let ledger = self.ledger();
        if let Some(ledger) = ledger.filter(|_| stop != Some(StopCause::ShuttingDown)) {
            let at_ms = self.shared.wall.unix_ns(now) / 1_000_000;
            state.ended_at_ms = Some(at_ms);
            let is_kept = self.keep || !state.is_owner_told();
            ledger.end(self, &mut state, Ended { outcome, letter, is_kept, at_ms });
            drop(state);
            drop(regions);
            let hook = self.let_go(loose);
            self.stop_handler(hook, stop);
            return;
        }
        if let Some(ledger) = ledger.filter(|_| was_running) {
            ledger.held(self, state.attempt);
        }
        // Before anybody can see the end: whoever does may want the memory back.
        if regions.is_some() {
            drop(state);
            drop(regions);
            state = self.lock();
        }
        let farewell = self.settle(&mut state, outcome, letter);
        drop(state);
        let hook = self.let_go(loose);
        self.take_leave(farewell);
        self.stop_handler(hook, stop);
        self.shared.trace_end(self);
        self.shared.was_told();
    }

    /// Its end is kept: now it may be told.
    pub(crate) fn complete(self: &Arc<Self>, outcome: Outcome, letter: Option<DeadLetter>) {
        let mut state = self.lock();
        state.unsynced = state.unsynced.saturating_sub(1);
        let farewell = self.settle(&mut state, outcome, letter);
        drop(state);
        self.take_leave(farewell);
        self.shared.trace_end(self);
        self.shared.was_told();
    }

    fn outcome_of(&self, state: &State, result: Result<Box<RawValue>, TaskFailure>, now: Instant) -> Outcome {
        let began = state.began_at;
        Outcome {
            result,
            attempts: state.attempt,
            waited: began.unwrap_or(now).saturating_duration_since(self.accepted_at),
            ran: match began {
                Some(began) if state.stage == Stage::Running => now.saturating_duration_since(began),
                _ => state.ran,
            },
        }
    }

    /// Sets the outcome.
    fn settle(&self, state: &mut State, outcome: Outcome, letter: Option<DeadLetter>) -> Farewell {
        // Whoever sees the end finds the letter.
        if let Some(letter) = letter {
            self.shared.keep_letter(letter);
        }
        let set = self.outcome.set(outcome);
        debug_assert!(set.is_ok(), "a task ends once");
        self.shared.events.tell(self, Stage::Ended);
        let is_told = state.is_owner_told();
        let farewell = Farewell {
            readers: mem::take(&mut state.readers),
            on_end: mem::take(&mut state.on_end),
            is_told,
        };
        self.wake_waiting(state);
        farewell
    }

    /// Gives back its places, and what has to be told to its handler.
    fn let_go(self: &Arc<Self>, loose: Loose) -> Option<StopHook> {
        for timer in loose.timers.into_iter().flatten() {
            self.shared.timer.cancel(timer);
        }
        if self.shared.backlog.len() > 0 {
            self.shared.backlog.remove(self);
        }
        if let Some(ticket) = loose.ticket {
            ticket.cancel();
            self.shared.feed();
        }
        loose.hook
    }

    fn stop_handler(&self, hook: Option<StopHook>, stop: Option<StopCause>) {
        if let (Some(hook), Some(cause)) = (hook, stop) {
            guarded(|| hook(cause));
        }
    }

    /// Keeps or forgets it, and tells everybody.
    fn take_leave(self: &Arc<Self>, farewell: Farewell) {
        self.shared.has_ended(self, self.keep || !farewell.is_told);
        self.tell(farewell.readers, farewell.on_end);
    }

    /// What is kept of it if it dies of this failure.
    fn letter(&self, state: &State, failure: Option<&TaskFailure>, now: Instant) -> Option<DeadLetter> {
        let failure = failure.filter(|_| self.shared.dead.is_on())?;
        let mut letter = DeadLetter::of(self, state, failure, self.shared.wall.unix_ns(now) / 1_000_000);
        letter.number = self.shared.dead.next_number();
        Some(letter)
    }

    /// Tells readers and callbacks that it has ended.
    pub(crate) fn tell(self: &Arc<Self>, readers: impl IntoIterator<Item = Known>, on_end: Vec<EndHook>) {
        for known in readers {
            guarded(|| known.reader.who.told(known.reader.tag, self));
        }
        if let Some(outcome) = self.outcome.get() {
            for act in on_end {
                guarded(|| act(self, outcome));
            }
        }
    }

    /// Takes back a task that found no room; false if it has ended already. Somebody may have found it by its
    /// id in the meantime, so it gets an outcome, but it counts as refused and not as ended. Whoever submitted it
    /// is told only if it does not hear of it by the refusal.
    pub(crate) fn withdraw(self: &Arc<Self>, failure: &TaskFailure, tells_owner: bool) -> bool {
        let mut state = self.lock();
        if state.stage == Stage::Ended {
            return false;
        }
        state.is_lost = true;
        self.set_stage(&mut state, Stage::Ended);
        let waited = self.accepted_at.elapsed();
        let outcome = Outcome { result: Err(failure.clone()), attempts: 0, waited, ran: Duration::ZERO };
        let owner = state.owner;
        let expiry = state.expiry.take();
        state.regions = None;
        let farewell = self.settle(&mut state, outcome, None);
        drop(state);
        if let Some(expiry) = expiry {
            self.shared.timer.cancel(expiry);
        }
        let others = farewell.readers.into_iter().filter(|known| tells_owner || Some(known.number) != owner);
        self.tell(others, farewell.on_end);
        true
    }

    /// Ends it from whatever stage, unless it has ended.
    pub(crate) fn cancel(self: &Arc<Self>, cause: StopCause) -> Result<(), TaskFailure> {
        let state = self.lock();
        if state.stage == Stage::Ended {
            let message = format!("task {} has ended and cannot be cancelled", self.id);
            return Err(TaskFailure::new(ErrorCode::AlreadyEnded, message));
        }
        let failure = match cause {
            StopCause::ShuttingDown if self.is_durable => postponed(),
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
    pub(crate) fn was_let_go(self: &Arc<Self>) {
        let state = self.lock();
        if state.stage != Stage::Queued || !state.is_in_pool {
            return;
        }
        if self.shared.is_stopping.load(Relaxed) {
            return self.end(state, self.stopping());
        }
        let failure =
            TaskFailure::new(ErrorCode::Dropped, "the queue was full and back_pressure.policy drops tasks");
        self.end(state, Ending::unrun(failure));
    }

    /// The pool takes no more tasks, and this one waited for it.
    pub(crate) fn stops_unrun(self: &Arc<Self>) {
        let state = self.lock();
        if state.stage != Stage::Ended {
            self.end(state, self.stopping());
        }
    }

    fn stopping(&self) -> Ending {
        let failure = if self.is_durable { postponed() } else { stopped_unrun() };
        Ending { result: Err(failure), stop: Some(StopCause::ShuttingDown), may_die: false }
    }

    /// The daemon died too often while it ran.
    pub(crate) fn dies_of_crashes(self: &Arc<Self>) {
        let state = self.lock();
        let message = format!("the daemon died {} times while it ran", state.crashes);
        let failure = TaskFailure::new(ErrorCode::DaemonDied, message);
        self.end(state, Ending { result: Err(failure), stop: None, may_die: true });
    }
}

impl State {
    /// Whether whoever submitted the task hears of its end, or nobody waits for it.
    fn is_owner_told(&self) -> bool {
        self.owner.is_none_or(|owner| self.readers.iter().any(|known| known.number == owner))
    }
}

fn stopped_unrun() -> TaskFailure {
    TaskFailure::new(ErrorCode::Draining, "the daemon stopped before the task was run")
}

fn postponed() -> TaskFailure {
    let message = "the daemon stopped before the task had ended; it is kept, and goes on after the restart";
    TaskFailure::new(ErrorCode::Postponed, message)
}
