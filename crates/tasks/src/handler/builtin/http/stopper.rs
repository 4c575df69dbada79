//! Lets go of whatever a request waits for, from another thread.
//!
//! A request waits for one thing at a time: a name, a connection, bytes. Whoever begins to wait says how the
//! wait is ended; a stop does that, and everything that begins later finds it and does not wait at all.

use std::fmt;
use std::sync::{Mutex, PoisonError};

type Act = Box<dyn FnOnce() + Send>;

/// Ends the waits of one request.
#[derive(Default)]
pub(super) struct Stopper(Mutex<State>);

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// How the present wait is ended.
    act: Option<Act>,
}

/// The request was stopped.
#[derive(Debug)]
pub(super) struct IsStopped;

impl Stopper {
    /// From now on a stop does `act`, and no longer what it would have done before.
    pub(super) fn begin_wait(&self, act: impl FnOnce() + Send + 'static) -> Result<(), IsStopped> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped {
            return Err(IsStopped);
        }
        state.act = Some(Box::new(act));
        Ok(())
    }

    /// Ends the present wait and all that would follow.
    pub(super) fn stop(&self) {
        let act = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_stopped = true;
            state.act.take()
        };
        if let Some(act) = act {
            act();
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_stopped
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stopper").field("is_stopped", &self.is_stopped()).finish()
    }
}
