//! What a task leaves or holds, so that a test can see whether it ran and whether it still exists.
//!
//! Every witness is a count of one `Arc`; whoever made them counts those that are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a task does to show that it ran.
pub(crate) fn add(counter: &AtomicUsize, count: usize) {
    counter.fetch_add(count, Relaxed);
}

/// Counts the witnesses it handed out that have not been dropped.
#[derive(Default)]
pub(crate) struct Witnesses(Arc<()>);

/// To be moved into a task.
#[derive(Clone)]
pub(crate) struct Witness(#[allow(dead_code, reason = "held, and never read")] Arc<()>);

impl Witnesses {
    pub(crate) fn one(&self) -> Witness {
        Witness(Arc::clone(&self.0))
    }

    /// How many have not been dropped.
    pub(crate) fn left(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}
