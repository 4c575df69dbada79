//! What is written and synced together, and how those who wait for it are told.
//!
//! A batch has one fate, shared by everybody with a record in it: one notification wakes them all, and the writer does
//! not go from one to the next. Callbacks and inboxes (`inbox.rs`) are for doors that cannot lend a thread to each
//! record.
//!
//! Not here: when a batch is taken (`writer.rs`), what goes into it (`append.rs`).

use crate::error::AppendError;
use crate::inbox::Inbox;
use crate::record::SpillRef;
use crate::snapshot::Cut;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) type Outcome = Result<(), AppendError>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Records on their way to the writer.
pub(crate) struct Batch {
    /// Frames without stamps, one behind the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: usize,
    /// How many appends brought them.
    pub(crate) appends: usize,
    /// Payloads in files of their own that these records name.
    pub(crate) spills: Vec<u64>,
    /// Whether the log goes on in a new file behind this batch, for a snapshot.
    pub(crate) cut: Option<Arc<Cut>>,
    pub(crate) fate: Arc<Fate>,
}

impl Batch {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, records: 0, appends: 0, spills: Vec::new(), cut: None, fate: Arc::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0 && self.cut.is_none()
    }
}

/// What became of a batch.
#[derive(Default)]
pub(crate) struct Fate {
    /// Touched by those who wait and by the writer, each for a moment.
    state: Mutex<FateState>,
    ended: Condvar,
}

#[derive(Default)]
struct FateState {
    outcome: Option<Outcome>,
    /// At most one for each receipt, so no more than the batch has records.
    callbacks: Vec<Callback>,
    /// Woken behind the callbacks, each once.
    inboxes: Vec<Arc<dyn Wake>>,
}

/// Somebody who is woken once, when everybody in a batch was told.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

impl Fate {
    fn lock(&self) -> MutexGuard<'_, FateState> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of an append without records, which is as safe as it will ever be.
    pub(crate) fn ended() -> Arc<Self> {
        let fate = Self::default();
        fate.end(&Ok(()));
        Arc::new(fate)
    }

    /// Tells everybody, and says how many were told by a call. Called once, by the writer.
    pub(crate) fn end(&self, outcome: &Outcome) -> usize {
        let FateState { callbacks, inboxes, .. } = {
            let mut state = self.lock();
            let told = FateState { outcome: Some(outcome.clone()), ..FateState::default() };
            std::mem::replace(&mut *state, told)
        };
        self.ended.notify_all();
        let called = callbacks.len();
        for callback in callbacks {
            call(callback, outcome.clone());
        }
        inboxes.iter().for_each(|inbox| inbox.wake());
        called
    }
}

/// A callback that panics is its owner's mistake, and must not end the writer.
fn call(callback: Callback, outcome: Outcome) {
    let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
}

/// The claim on an acknowledgement. Dropping it leaves the records where they are: they will be written all the same.
#[must_use = "a record is safe once its receipt says so"]
pub struct Receipt {
    pub(crate) fate: Arc<Fate>,
    pub(crate) spilled: Vec<(usize, SpillRef)>,
}

impl Receipt {
    /// Waits until the records are safe, in the sense of the journal's `SyncMode`.
    pub fn wait(self) -> Result<(), AppendError> {
        let mut state = self.fate.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.fate.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for so long at most; nothing if the records were still on their way then.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<(), AppendError>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.fate.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return Some(outcome.clone());
            }
            let left =
                deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            let waited = self.fate.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What became of the records, if that is known.
    pub fn outcome(&self) -> Option<Result<(), AppendError>> {
        self.fate.lock().outcome.clone()
    }

    /// Calls back when the records are safe, or are not going to be. The call comes from the writer's thread, which
    /// syncs nothing meanwhile, so it must be quick; or at once from this one if that is known already.
    pub fn on_synced(self, callback: impl FnOnce(Result<(), AppendError>) + Send + 'static) {
        let mut state = self.fate.lock();
        match state.outcome.clone() {
            None => state.callbacks.push(Box::new(callback)),
            Some(outcome) => {
                drop(state);
                callback(outcome);
            }
        }
    }

    /// Puts the token into the inbox when the records are safe, or are not going to be. Whoever reads the inbox is
    /// woken once for all that were written together.
    pub fn deliver<T: Send + 'static>(self, inbox: &Arc<Inbox<T>>, token: T) {
        let mut state = self.fate.lock();
        if let Some(outcome) = state.outcome.clone() {
            drop(state);
            return inbox.put(token, outcome);
        }
        let same = |known: &Arc<dyn Wake>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(inbox));
        // A journal has a door or two, so this is no search.
        if !state.inboxes.iter().any(same) {
            state.inboxes.push(Arc::clone(inbox) as Arc<dyn Wake>);
        }
        let inbox = Arc::clone(inbox);
        state.callbacks.push(Box::new(move |outcome| inbox.add(token, outcome)));
    }

    /// Which records of the append got a file of their own, by their place in it.
    pub fn spilled(&self) -> &[(usize, SpillRef)] {
        &self.spilled
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn receipt(fate: &Arc<Fate>) -> Receipt {
        Receipt { fate: Arc::clone(fate), spilled: Vec::new() }
    }

    #[test]
    fn everybody_in_a_batch_is_told_the_same() {
        let fate = Arc::<Fate>::default();
        let waiters: Vec<_> =
            (0..8).map(|_| receipt(&fate)).map(|r| thread::spawn(move || r.wait())).collect();
        let (sender, inbox) = mpsc::channel();
        let late = sender.clone();
        receipt(&fate).on_synced(move |outcome| sender.send(outcome).unwrap());
        receipt(&fate).on_synced(|_| panic!("a callback's own mistake"));
        assert_eq!(receipt(&fate).outcome(), None);
        assert_eq!(receipt(&fate).wait_timeout(Duration::from_millis(1)), None);
        fate.end(&Err(AppendError::Closed));
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(AppendError::Closed));
        }
        receipt(&fate).on_synced(move |outcome| late.send(outcome).unwrap());
        assert_eq!(inbox.iter().collect::<Vec<_>>(), vec![Err(AppendError::Closed); 2]);
        assert_eq!(receipt(&fate).wait_timeout(Duration::MAX), Some(Err(AppendError::Closed)));
    }
}
