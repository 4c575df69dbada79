//! Where acknowledgements of many records arrive together, for a door that answers many clients from one thread.
//!
//! A callback that wakes its door wakes it for the first record of a batch: the door takes that one, finds nothing
//! more, and sleeps again before the writer has come to the second. An inbox is filled with all that was written
//! together, and whoever reads it is woken once, at the end.
//!
//! It holds what was delivered and not yet taken, so no more than its owner has under way.

use crate::batch::{Outcome, Wake};
use crate::error::AppendError;
use std::fmt;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tokens of records that are safe, or are not going to be. See `Receipt::deliver`.
pub struct Inbox<T> {
    /// Filled by the writer, emptied by the reader, each for a moment.
    notes: Mutex<Vec<(T, Outcome)>>,
    /// The reader waits here.
    came: Condvar,
}

impl<T> Inbox<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(T, Outcome)>> {
        // Nothing that can panic runs under this lock.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds without waking anybody.
    pub(crate) fn add(&self, token: T, outcome: Outcome) {
        self.lock().push((token, outcome));
    }

    /// Puts a token in by hand, and wakes the reader.
    pub fn put(&self, token: T, outcome: Result<(), AppendError>) {
        self.add(token, outcome);
        self.came.notify_one();
    }

    /// Waits until something is there, and takes all of it, in the order of acceptance. What `taken` held is dropped,
    /// and its room is used for what comes next.
    pub fn take(&self, taken: &mut Vec<(T, Result<(), AppendError>)>) {
        taken.clear();
        let mut notes = self.lock();
        while notes.is_empty() {
            notes = self.came.wait(notes).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(&mut *notes, taken);
    }

    /// The same, for so long at most: `taken` is empty if nothing came.
    pub fn take_timeout(&self, taken: &mut Vec<(T, Result<(), AppendError>)>, timeout: Duration) {
        taken.clear();
        let deadline = Instant::now().checked_add(timeout);
        let mut notes = self.lock();
        while notes.is_empty() {
            let left = deadline.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            notes = self.came.wait_timeout(notes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        mem::swap(&mut *notes, taken);
    }

    /// How many wait to be taken; it may be stale at once.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Send> Wake for Inbox<T> {
    fn wake(&self) {
        self.came.notify_one();
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { notes: Mutex::default(), came: Condvar::new() }
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_taken_at_once_and_nothing_comes_of_nothing() {
        let inbox = Inbox::new();
        let mut taken = vec![("old", Ok(()))];
        inbox.take_timeout(&mut taken, Duration::from_millis(1));
        assert_eq!(taken, []);
        inbox.put("a", Ok(()));
        inbox.put("b", Err(AppendError::Closed));
        assert_eq!(inbox.len(), 2);
        inbox.take_timeout(&mut taken, Duration::MAX);
        assert_eq!(taken, [("a", Ok(())), ("b", Err(AppendError::Closed))]);
        assert!(inbox.is_empty());
    }
}
