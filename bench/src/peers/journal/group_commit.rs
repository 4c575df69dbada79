//! One writer for a store that commits transactions: everything that waits goes into the next one.
//!
//! The same way of waiting as in our own journal, so that the stores are compared and not the waiting.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Commits all of these payloads, durably.
pub(super) type Commit = Box<dyn FnMut(&[Vec<u8>]) -> Result<(), String> + Send>;

/// The submitters' end.
pub(super) struct GroupCommit {
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    work: Condvar,
}

#[derive(Default)]
struct Waiting {
    payloads: Vec<Vec<u8>>,
    fate: Arc<Fate>,
    closing: bool,
}

#[derive(Default)]
struct Fate {
    outcome: Mutex<Option<Result<(), String>>>,
    ended: Condvar,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupCommit {
    pub(super) fn start(mut commit: Commit) -> Self {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            while let Some((payloads, fate)) = theirs.next() {
                *held(&fate.outcome) = Some(commit(&payloads));
                fate.ended.notify_all();
            }
        });
        Self { shared, writer }
    }

    pub(super) fn submit(&self, payload: &[u8]) -> Result<(), String> {
        let fate = {
            let mut waiting = held(&self.shared.waiting);
            waiting.payloads.push(payload.to_vec());
            Arc::clone(&waiting.fate)
        };
        self.shared.work.notify_one();
        let mut outcome = held(&fate.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = fate.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the writer end, and with it whatever it holds of the store.
    pub(super) fn close(self) -> Result<(), String> {
        held(&self.shared.waiting).closing = true;
        self.shared.work.notify_one();
        self.writer.join().map_err(|_| "the writer panicked; its message stands above".to_owned())
    }
}

impl Shared {
    fn next(&self) -> Option<(Vec<Vec<u8>>, Arc<Fate>)> {
        let mut waiting = held(&self.waiting);
        loop {
            if !waiting.payloads.is_empty() {
                return Some((mem::take(&mut waiting.payloads), mem::take(&mut waiting.fate)));
            }
            if waiting.closing {
                return None;
            }
            waiting = self.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
