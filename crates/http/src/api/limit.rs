//! So many at once and no more: a count with a limit, for whatever strangers can make the door hold.
//!
//! What is held gives itself back when it is dropped, however its request ends.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// A count with a limit. A cheap clone of the same count.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    now: Arc<AtomicUsize>,
    max: usize,
}

/// A part of a limit.
#[derive(Debug)]
pub(crate) struct Held {
    now: Arc<AtomicUsize>,
    count: usize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self { now: Arc::default(), max }
    }

    /// Takes so much; none if there is not so much left.
    pub(crate) fn take(&self, count: usize) -> Option<Held> {
        let fits = |now: usize| now.checked_add(count).filter(|then| *then <= self.max);
        self.now.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(Held { now: Arc::clone(&self.now), count })
    }

    /// How much is held now.
    pub(crate) fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// How much may be held.
    pub(crate) fn max(&self) -> usize {
        self.max
    }
}

impl Held {
    /// Holds what the other one held, of the same limit.
    pub(super) fn join(&mut self, mut other: Self) {
        self.count += std::mem::take(&mut other.count);
    }

    /// Gives back what is more than so much.
    pub(super) fn shrink_to(&mut self, count: usize) {
        let more = self.count.saturating_sub(count);
        self.count -= more;
        self.now.fetch_sub(more, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.now.fetch_sub(self.count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_back_and_the_limit_is_exact() {
        let limit = Limit::new(3);
        let mut first = limit.take(2).unwrap();
        assert!(limit.take(2).is_none());
        assert_eq!(limit.now(), 2, "who was refused holds nothing");
        first.join(limit.take(1).unwrap());
        assert!(limit.take(1).is_none());
        assert!(limit.take(usize::MAX).is_none());
        assert_eq!(limit.now(), 3);
        first.shrink_to(9);
        assert_eq!(limit.now(), 3, "there is no more to give back");
        first.shrink_to(1);
        assert_eq!(limit.now(), 1);
        drop(first);
        assert_eq!(limit.now(), 0);
        assert!(limit.take(3).is_some());
    }
}
