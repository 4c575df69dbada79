//! Errands for a thread that waits for sockets: left in a box, and a bell that rings only if it sleeps on it.
//!
//! Whoever finds the box empty rings. Whoever finds something in it knows that the bell was rung and not yet
//! answered, so a burst costs one ring. It holds no more than the connections that errands are about.

use mio::Waker;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The box and its bell.
#[derive(Debug)]
pub(crate) struct Mail<T> {
    errands: Mutex<Vec<T>>,
    bell: Waker,
}

impl<T> Mail<T> {
    /// `bell` wakes the thread that reads.
    pub(crate) fn new(bell: Waker) -> Self {
        Self { errands: Mutex::default(), bell }
    }

    /// Leaves an errand.
    pub(crate) fn send(&self, errand: T) {
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
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
