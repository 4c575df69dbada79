//! When an updater wants help, and how long it waits before it ends: decided from what it saw, told the time.
//!
//! An updater wants help when it has gone from one mailbox to the next without a pause for a while and still
//! finds another one waiting. Mailboxes that wait for a full service do not count: the updater sleeps beside
//! those, and more updaters would not make room.
//!
//! Not here: how a domain is shared or given away (`domains.rs`).

use std::time::{Duration, Instant};

/// How busy one updater is.
#[derive(Debug)]
pub(super) struct Load {
    split_after: Duration,
    merge_after: Duration,
    /// Since when it has had no pause.
    busy_since: Instant,
    /// It is the only one; there is nobody to whom it could give its domain.
    alone: bool,
}

impl Load {
    pub(super) fn new(split_after: Duration, merge_after: Duration, now: Instant) -> Self {
        Self { split_after, merge_after, busy_since: now, alone: false }
    }

    /// It served a mailbox. Says whether it wants help, if another mailbox waits; asks again only after as
    /// long a time, so that an updater that gets no help does not ask after every letter.
    pub(super) fn wants_help(&mut self, rested: bool, another_waits: bool, now: Instant) -> bool {
        // Only an updater that had work can have company again.
        self.alone = false;
        if rested {
            self.busy_since = now;
        }
        let wants = another_waits && now.saturating_duration_since(self.busy_since) >= self.split_after;
        if wants {
            self.busy_since = now;
        }
        wants
    }

    /// It wanted to end and is the last.
    pub(super) fn must_stay(&mut self) {
        self.alone = true;
    }

    /// How long it waits for work before it wants to end; for ever if it is alone.
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.alone).then_some(self.merge_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_millis(10);

    #[test]
    fn help_is_wanted_after_a_while_without_a_pause() {
        let start = Instant::now();
        let mut load = Load::new(AFTER, AFTER, start);
        assert!(!load.wants_help(false, true, start + AFTER / 2), "too early");
        assert!(!load.wants_help(false, false, start + AFTER), "nobody else waits");
        assert!(load.wants_help(false, true, start + AFTER));
        assert!(!load.wants_help(false, true, start + AFTER + AFTER / 2), "it has just asked");
        assert!(!load.wants_help(true, true, start + 3 * AFTER), "it had a pause");
        assert!(load.wants_help(false, true, start + 4 * AFTER));
    }

    #[test]
    fn the_last_one_waits_for_ever_until_it_had_work() {
        let now = Instant::now();
        let mut load = Load::new(AFTER, AFTER, now);
        assert_eq!(load.patience(), Some(AFTER));
        load.must_stay();
        assert_eq!(load.patience(), None);
        load.wants_help(true, false, now);
        assert_eq!(load.patience(), Some(AFTER));
    }
}
