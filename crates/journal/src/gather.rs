//! How long the writer lets those it has just called back come again, before it takes the next batch.
//!
//! A door that is told by a call mostly has its next record at hand. If the writer took the batch at once, it would get
//! the first few of those, the rest would wait for another sync, and each sync would carry half of what it could. So
//! the writer sleeps until everybody it knows of is in the batch.
//!
//! Bounded twice: half the time of a sync is the most, and after a wait that was not worth it the next few batches are
//! taken at once, more of them each time. A submitter who is alone is never waited for, nor is a thread that waits:
//! those fill the batch while they are being woken.
//!
//! Not here: the sleep itself (`writer.rs`), who is woken or called (`batch.rs`).

use std::mem;
use std::time::Duration;

/// After so many vain waits in a row the pauses grow no more.
const MISSES_MAX: u32 = 6;

/// When the next batch is full enough. The writer's own, and nobody else's.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// How many were called after the last batch.
    called: usize,
    /// How many appends were in the next batch before those calls.
    waiting: usize,
    /// How long the last sync took.
    sync: Duration,
    /// Waits in a row that were not worth it.
    misses: u32,
    /// So many batches more are taken at once.
    pause: u32,
}

/// A batch that is worth a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// With so many appends it is full enough.
    pub(crate) appends: usize,
    pub(crate) at_most: Duration,
}

impl Gather {
    /// A sync took so long.
    pub(crate) fn synced(&mut self, time: Duration) {
        self.sync = time;
    }

    /// So many were called, and so many had appended before that.
    pub(crate) fn called(&mut self, called: usize, waiting: usize) {
        (self.called, self.waiting) = (called, waiting);
    }

    /// The wait for the next batch, if it gets one. Asked once after each batch.
    pub(crate) fn next(&mut self) -> Option<Wait> {
        let appends = self.called + self.waiting;
        if mem::take(&mut self.called) == 0 || appends < 2 {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        Some(Wait { appends, at_most: self.sync / 2 })
    }

    /// The wait is over, with so many appends in the batch. It was worth it if three of four came again.
    pub(crate) fn ended(&mut self, wait: Wait, appends: usize) {
        let (came, called) = (appends.saturating_sub(self.waiting), wait.appends - self.waiting);
        self.misses = if came * 4 >= called * 3 { 0 } else { (self.misses + 1).min(MISSES_MAX) };
        self.pause = (1 << self.misses) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(2);

    fn after(called: usize, waiting: usize) -> Gather {
        let mut gather = Gather::default();
        gather.synced(SYNC);
        gather.called(called, waiting);
        gather
    }

    #[test]
    fn a_submitter_who_is_alone_is_never_waited_for() {
        assert_eq!(after(1, 0).next(), None);
    }

    #[test]
    fn threads_that_wait_are_not_waited_for() {
        assert_eq!(after(0, 64).next(), None);
    }

    #[test]
    fn everybody_who_was_called_may_come_again_for_half_a_sync() {
        let mut gather = after(40, 24);
        assert_eq!(gather.next(), Some(Wait { appends: 64, at_most: SYNC / 2 }));
        assert_eq!(gather.next(), None, "once for each batch");
    }

    #[test]
    fn vain_waits_become_rare_and_one_that_is_worth_it_brings_them_back() {
        let mut gather = after(4, 1);
        let mut batches_until_a_wait = |came: usize| {
            for batch in 1.. {
                gather.called(4, 1);
                if let Some(wait) = gather.next() {
                    gather.ended(wait, 1 + came);
                    return batch;
                }
            }
            unreachable!("the pauses are bounded")
        };
        let vain: Vec<u32> = (0..8).map(|_| batches_until_a_wait(2)).collect();
        assert_eq!(vain, [1, 2, 4, 8, 16, 32, 64, 64]);
        let worth_it: Vec<u32> = (0..3).map(|_| batches_until_a_wait(3)).collect();
        assert_eq!(worth_it, [64, 1, 1]);
    }
}
