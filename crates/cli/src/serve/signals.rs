//! Ctrl-C and SIGTERM, counted: the first asks the daemon to drain, the second to stop.
//!
//! Other commands end at the second one (`interrupt.rs`); a daemon has children to end first.

use crate::failure::Failure;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often the daemon was asked to end.
#[derive(Clone, Debug)]
pub(super) struct Signals(Arc<(Mutex<u32>, Condvar)>);

impl Signals {
    /// From now on Ctrl-C and SIGTERM are counted. To be called once.
    pub(super) fn listen() -> Result<Self, Failure> {
        let signals = Self(Arc::default());
        let counted = signals.clone();
        ctrlc::set_handler(move || {
            *counted.lock() += 1;
            counted.0.1.notify_all();
        })
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be listened to: {error}")))?;
        Ok(signals)
    }

    /// How many came.
    pub(super) fn count(&self) -> u32 {
        *self.lock()
    }

    /// Waits for the first.
    pub(super) fn wait(&self) {
        let none_came = |count: &mut u32| *count == 0;
        drop(self.0.1.wait_while(self.lock(), none_came).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
