//! Whether an accepted task is kept: known at once without a journal, and with one when its record is on the disk.
//!
//! A door answers only then; until then the task is known by its id and not begun. If it cannot be kept after all it is
//! taken back, and the door refuses it as if it had never been there.
//!
//! Not here: how it is written down (`ledger.rs`).

use crate::error::TaskFailure;
use crate::outcome::Refused;
use crate::submit::Accepted;
use crate::task::{Stage, Task};
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Called once, when it is known whether a task is kept.
pub(crate) type KeptHook = Box<dyn FnOnce(Result<(), Refused>) + Send>;

/// What is known of a task's being kept. Guarded by its lock.
pub(crate) enum Kept {
    Yes,
    /// It is on its way; these wait to be told.
    Unknown(Vec<KeptHook>),
    No(TaskFailure),
}

impl Accepted {
    /// Has `act` called once the task is kept, or with the reason why it cannot be and is refused after all. At once if
    /// that is known, as it always is without a journal. Else from another thread; it must not wait.
    pub fn on_kept(&self, act: impl FnOnce(Result<(), Refused>) + Send + 'static) {
        self.task.on_kept(Box::new(act));
    }

    /// Whether the task is known to be kept, as it always is without a journal.
    pub fn is_kept(&self) -> bool {
        matches!(self.task.lock().kept, Kept::Yes)
    }

    /// Waits until the task is kept, or says why it is refused after all.
    pub fn wait_kept(&self) -> Result<(), Refused> {
        self.task.wait_kept()
    }
}

impl Task {
    fn on_kept(&self, act: KeptHook) {
        let mut state = self.lock();
        match &mut state.kept {
            Kept::Unknown(hooks) => hooks.push(act),
            Kept::Yes => {
                drop(state);
                act(Ok(()));
            }
            Kept::No(failure) => {
                let refused = self.refusal(failure.clone());
                drop(state);
                act(Err(refused));
            }
        }
    }

    fn wait_kept(&self) -> Result<(), Refused> {
        let mut state = self.lock();
        loop {
            match &state.kept {
                Kept::Yes => return Ok(()),
                Kept::No(failure) => return Err(self.refusal(failure.clone())),
                Kept::Unknown(_) => {}
            }
            state.waiting += 1;
            let woken = millpond::blocking(|| self.changed.wait(state));
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn refusal(&self, failure: TaskFailure) -> Refused {
        Refused::new(failure, Some(self.id.clone())).with_patience(&self.shared)
    }

    /// It is kept: it may begin, and whoever handed it in may be told.
    pub(crate) fn was_kept(self: &Arc<Self>) {
        let mut state = self.lock();
        state.unsynced = state.unsynced.saturating_sub(1);
        let known = mem::replace(&mut state.kept, Kept::Yes);
        let delay = state.first_delay.saturating_sub(self.accepted_at.elapsed());
        // One with a delay waits for its time in the same step, so that a snapshot sees what it waits for.
        let is_delayed = state.stage == Stage::Delayed;
        if is_delayed {
            self.hold(&mut state, Stage::Delayed, delay);
        }
        let has_ended = state.stage == Stage::Ended;
        self.wake_waiting(&state);
        drop(state);
        self.shared.counts.accepted.count(self.door);
        self.handler.accepted.fetch_add(1, Relaxed);
        // Before it can end: who is told of both is told in this order.
        if let Kept::Unknown(hooks) = known {
            hooks.into_iter().for_each(|act| act(Ok(())));
        }
        if !has_ended {
            self.begin_life(is_delayed);
        }
    }

    /// It could not be kept, so it was never accepted.
    pub(crate) fn was_not_kept(self: &Arc<Self>, failure: TaskFailure) {
        // First of all: whoever is told that it was not accepted finds nothing of it.
        if self.withdraw(&failure, true) {
            self.shared.unlist(self);
            self.shared.give_back();
        }
        let mut state = self.lock();
        state.unsynced = state.unsynced.saturating_sub(1);
        let known = mem::replace(&mut state.kept, Kept::No(failure.clone()));
        self.wake_waiting(&state);
        drop(state);
        self.shared.counts.was_refused(failure.code);
        if let Kept::Unknown(hooks) = known {
            hooks.into_iter().for_each(|act| act(Err(self.refusal(failure.clone()))));
        }
    }
}
