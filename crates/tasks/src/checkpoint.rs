//! Checkpoints: what an attempt leaves for the one after it, should it fail.
//!
//! A long task says from time to time how far it is, in words of its own; the next attempt is given the last of
//! them and goes on from there. Only the latest is kept, and it is bounded, since it may be written to disk.
//!
//! Not here: progress, which is for people (`stream.rs`).

use crate::call::{Call, Stopped};
use crate::error::{ErrorCode, TaskFailure};
use crate::service::{ServiceHandle, Shared};
use crate::task::Task;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Whoever is told of every checkpoint of a service.
pub(crate) type OnCheckpoint = Box<dyn Fn(&Task, &RawValue) + Send + Sync>;

impl Call {
    /// Leaves something for the next attempt, should this one fail. It replaces what was left before. Refused if
    /// it is larger than `results.checkpoint_bytes_max`, or if the attempt is over.
    pub fn checkpoint(&self, value: Box<RawValue>) -> Result<(), Stopped> {
        let (task, attempt) = self.parts();
        let bytes_max = task.shared.config.results.checkpoint_bytes_max;
        let bytes = value.get().len();
        if bytes > bytes_max {
            let message = format!(
                "expected a checkpoint of at most {bytes_max} bytes, got {bytes}; leave less, or raise \
                 results.checkpoint_bytes_max"
            );
            return Err(Stopped::TooLarge(TaskFailure::new(ErrorCode::TooLarge, message)));
        }
        task.leave(attempt, value.into())
    }

    /// What an earlier attempt left, or this one: the latest.
    pub fn last_checkpoint(&self) -> Option<Arc<RawValue>> {
        self.parts().0.lock().checkpoint.clone()
    }
}

impl Task {
    /// What its attempts left for the next one, the latest.
    pub fn checkpoint(&self) -> Option<Arc<RawValue>> {
        self.lock().checkpoint.clone()
    }

    fn leave(&self, attempt: u32, value: Arc<RawValue>) -> Result<(), Stopped> {
        let mut state = self.lock();
        if !self.is_live(attempt) {
            return Err(Stopped::Over);
        }
        state.checkpoint = Some(Arc::clone(&value));
        if let Some(ledger) = self.ledger() {
            ledger.checkpoint(self, &value);
        }
        drop(state);
        self.shared.tell_of_checkpoint(self, &value);
        Ok(())
    }
}

impl Shared {
    fn tell_of_checkpoint(&self, task: &Task, value: &RawValue) {
        if let Some(tell) = self.on_checkpoint.get() {
            tell(task, value);
        }
    }
}

impl ServiceHandle {
    /// Has `act` called with every checkpoint, on the thread of the handler that leaves it. For a process that
    /// works for another, which keeps them. False if somebody does already.
    pub fn on_checkpoint(&self, act: impl Fn(&Task, &RawValue) + Send + Sync + 'static) -> bool {
        self.shared.on_checkpoint.set(Box::new(act)).is_ok()
    }
}
