//! Errands for a thread that waits for sockets: left in a box, and a bell that rings only if it sleeps on it.
//!
//! Whoever finds the box empty rings. Whoever finds something in it knows that the bell was rung and not yet
//! answered, so a burst costs one ring. Whoever finds it full has to help itself.

use mio::Waker;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The box and its bell.
#[derive(Debug)]
pub(crate) struct Mail<T> {
    errands: Mutex<Vec<T>>,
    max: usize,
    bell: Waker,
}

impl<T> Mail<T> {
    /// `bell` wakes the thread that reads; so many errands may wait for it.
    pub(crate) fn new(bell: Waker, max: usize) -> Self {
        Self { errands: Mutex::default(), max, bell }
    }

    /// Leaves an errand, unless the box is full: then it comes back.
    pub(crate) fn send(&self, errand: T) -> Result<(), T> {
        let errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        if errands.len() >= self.max {
            return Err(errand);
        }
        self.put(errands, errand);
        Ok(())
    }

    /// Leaves an errand that must be run.
    pub(crate) fn send_in_any_case(&self, errand: T) {
        self.put(self.errands.lock().unwrap_or_else(PoisonError::into_inner), errand);
    }

    fn put(&self, mut errands: MutexGuard<'_, Vec<T>>, errand: T) {
        let was_empty = errands.is_empty();
        errands.push(errand);
        drop(errands);
        if was_empty {
            let rung: io::Result<()> = self.bell.wake();
            debug_assert!(rung.is_ok(), "the bell cannot be full: {rung:?}");
        }
    }

    /// Takes all that is there.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.errands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
