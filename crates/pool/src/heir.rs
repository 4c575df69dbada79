//! The heir of a task: another that takes its place in the queue when it is no longer to be run.
//!
//! ```text
//!             appoint
//!   nobody ◄───────────────► somebody ─────┐ leave: the entry has left its queue,
//!      │      withdraw                     │        with whoever was appointed
//!      └───────────────────────────────────┴──► gone
//! ```
//!
//! A task that is cancelled while it waits leaves its entry behind in the queue, in the middle of others. The entry
//! cannot be removed from there, but it can be given to the next task that finds the queue full: it waits in the
//! place of the one that was cancelled. An heir that is cancelled in its turn is withdrawn, and the place is
//! free once more; so there are no heirs of heirs. Who comes first, the heir or the worker that takes the entry out, is
//! decided by one word.

use crate::edge::Edge;
use crate::sync::{AtomicPtr, Ordering::Relaxed};
use crate::task::Task;
use std::ptr;

/// The heir's bytes travel to whoever takes the entry out.
static HEIR_APPOINT: Edge = Edge::new("HEIR_APPOINT");

/// Who inherits one entry of a queue. Appointed by any thread, taken by the one that takes the entry out.
#[derive(Debug)]
pub(crate) struct Heir(AtomicPtr<Task>);

/// Stands for "gone": the address of something that is no task.
fn gone() -> *mut Task {
    static GONE: u64 = 0;
    ptr::from_ref(&GONE).cast_mut().cast()
}

impl Heir {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts `task` in the place of the one whose entry this is; hands it back if the place is taken or gone.
    pub(crate) fn appoint(&self, task: Task) -> Result<(), Task> {
        let heir = Box::into_raw(Box::new(task));
        // HEIR_APPOINT, submitter's end (Release).
        match self.0.compare_exchange(ptr::null_mut(), heir, HEIR_APPOINT.release(), Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the pointer was made from a box above, and nobody else has seen it.
            Err(_) => Err(*unsafe { Box::from_raw(heir) }),
        }
    }

    /// The entry has left its queue. Returns whoever was appointed; nobody can be from here on.
    pub(crate) fn leave(&self) -> Option<Task> {
        // HEIR_APPOINT, worker's end (Acquire).
        let heir = self.0.swap(gone(), HEIR_APPOINT.acquire());
        if heir.is_null() || heir == gone() {
            return None;
        }
        // SAFETY: it is neither of the two marks, so `appoint` made it from a box, and the swap gave it to this
        // thread alone.
        Some(*unsafe { Box::from_raw(heir) })
    }

    /// Whether the entry has left its queue.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Relaxed) == gone()
    }

    /// The heir has ended too, and its place is free again. Returns it, unless the entry has left its queue with it.
    pub(crate) fn withdraw(&self) -> Option<Task> {
        // HEIR_APPOINT, the other taker's end (Acquire).
        let mut heir = self.0.load(HEIR_APPOINT.acquire());
        loop {
            if heir.is_null() || heir == gone() {
                return None;
            }
            match self.0.compare_exchange(heir, ptr::null_mut(), HEIR_APPOINT.acquire(), Relaxed) {
                // SAFETY: it was neither of the two marks, so `appoint` made it from a box, and the exchange gave it to
                // this thread alone.
                Ok(_) => return Some(*unsafe { Box::from_raw(heir) }),
                Err(now) => heir = now,
            }
        }
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        // An entry that was never taken out went with its queue, and so does its heir. A look first: most have none.
        if !self.0.load(Relaxed).is_null() {
            drop(self.leave());
        }
    }
}
