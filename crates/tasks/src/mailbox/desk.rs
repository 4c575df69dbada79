//! What an updater has before it: mailboxes with letters, and mailboxes to look at later. Here it sleeps.
//!
//! The lists, and whether the updater is asleep, are under one lock: whoever puts a mailbox on the desk sees
//! that the owner sleeps and wakes it, or the owner sees the mailbox before it falls asleep. A waker that
//! finds it awake makes no system call.
//!
//! Not here: letters (`inbox.rs`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The desk of one updater. Anybody may put something on it; only the owner takes from it, or whoever has the
/// table of domains locked on the owner's behalf.
#[derive(Default)]
pub(super) struct Desk {
    work: Mutex<Work>,
    called: Condvar,
}

#[derive(Default)]
struct Work {
    /// Mailboxes with letters, in the order in which they got them.
    ready: VecDeque<usize>,
    /// Mailboxes whose first letter is to be offered again, soonest first.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    asleep: bool,
    over: bool,
}

/// What an updater finds on its desk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A mailbox. `rested` if the updater had to wait for it.
    Mailbox { index: usize, rested: bool },
    /// Nothing, and nothing to look at later, for as long as it was willing to wait.
    Nothing,
    /// The end.
    Over,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, mut work: MutexGuard<'_, Work>) {
        if std::mem::take(&mut work.asleep) {
            drop(work);
            self.called.notify_one();
        }
    }

    /// Puts a mailbox with letters on the desk.
    pub(super) fn list(&self, mailbox: usize) {
        let mut work = self.lock();
        work.ready.push_back(mailbox);
        self.call(work);
    }

    /// Puts a mailbox on the desk that is to be looked at when it is due.
    pub(super) fn list_later(&self, mailbox: usize, due: Instant) {
        let mut work = self.lock();
        work.later.push(Reverse((due, mailbox)));
        self.call(work);
    }

    /// Tells the owner that all is over.
    pub(super) fn end(&self) {
        let mut work = self.lock();
        work.over = true;
        self.call(work);
    }

    /// The next mailbox. Sleeps while there is none, and if `patience` is given, so long at most.
    pub(super) fn next(&self, patience: Option<Duration>) -> Next {
        let idle_until = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut rested = false;
        let mut work = self.lock();
        loop {
            if work.over {
                return Next::Over;
            }
            let due = work.recall_due();
            if let Some(index) = work.ready.pop_front() {
                return Next::Mailbox { index, rested };
            }
            // An updater with something to look at later is not idle.
            let until = due.or(idle_until);
            if due.is_none() && idle_until.is_some_and(|until| until <= Instant::now()) {
                return Next::Nothing;
            }
            rested = true;
            work.asleep = true;
            work = match until {
                None => self.called.wait(work).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let time = until.saturating_duration_since(Instant::now());
                    self.called.wait_timeout(work, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            work.asleep = false;
        }
    }

    /// Whether another mailbox waits.
    pub(super) fn has_ready(&self) -> bool {
        !self.lock().ready.is_empty()
    }

    /// The mailboxes with letters, in the order of their numbers.
    pub(super) fn ready_sorted(&self) -> Vec<usize> {
        let mut ready: Vec<_> = self.lock().ready.iter().copied().collect();
        ready.sort_unstable();
        ready
    }

    /// Moves what concerns `range` to another desk. Nobody may list one of these here any more.
    pub(super) fn move_to(&self, range: &Range<usize>, to: &Self) {
        let mut work = self.lock();
        let (ready, kept) = work.ready.drain(..).partition(|index| range.contains(index));
        work.ready = kept;
        let ready: VecDeque<usize> = ready;
        let (later, kept) = work.later.drain().partition(|Reverse((_, index))| range.contains(index));
        work.later = kept;
        let mut later: BinaryHeap<Reverse<(Instant, usize)>> = later;
        // The locks of two desks are never held together.
        drop(work);
        let mut work = to.lock();
        work.ready.extend(ready);
        work.later.append(&mut later);
        to.call(work);
    }
}

impl Work {
    /// Puts what is due among what is ready; says when the next is due.
    fn recall_due(&mut self) -> Option<Instant> {
        self.later.peek()?;
        let now = Instant::now();
        while let Some(Reverse((due, index))) = self.later.peek().copied() {
            if due > now {
                return Some(due);
            }
            self.later.pop();
            self.ready.push_back(index);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn ready(index: usize) -> Next {
        Next::Mailbox { index, rested: false }
    }

    #[test]
    fn mailboxes_come_in_the_order_in_which_they_were_listed() {
        let desk = Desk::default();
        for index in [3, 1, 2] {
            desk.list(index);
        }
        assert_eq!(desk.ready_sorted(), [1, 2, 3]);
        for index in [3, 1, 2] {
            assert_eq!(desk.next(NOW), ready(index));
        }
        assert_eq!(desk.next(NOW), Next::Nothing);
    }

    #[test]
    fn one_that_is_due_is_ready_and_one_for_later_is_waited_for() {
        let desk = Desk::default();
        let now = Instant::now();
        desk.list_later(1, now);
        assert_eq!(desk.next(NOW), ready(1));
        desk.list_later(2, now + Duration::from_millis(5));
        assert_eq!(
            desk.next(NOW),
            Next::Mailbox { index: 2, rested: true },
            "an updater that waits is not idle"
        );
    }

    #[test]
    fn what_is_moved_is_moved_whole() {
        let (from, to) = (Desk::default(), Desk::default());
        let soon = Instant::now();
        for index in 0..4 {
            from.list(index);
            from.list_later(index + 10, soon);
        }
        from.move_to(&(2..12), &to);
        assert_eq!(from.ready_sorted(), [0, 1]);
        assert_eq!(to.ready_sorted(), [2, 3]);
        let mut later = Vec::new();
        while let Next::Mailbox { index, .. } = to.next(NOW) {
            later.push(index);
        }
        assert_eq!(later, [2, 3, 10, 11]);
        from.end();
        assert_eq!(from.next(None), Next::Over);
    }
}
