//! Whether every task of a round has run, and run once: each thread signs its tasks in on a page of its own.
//!
//! One counter that all workers share would cost more than some of the pools that are measured with it. Here
//! a worker finds its page through a thread-local and writes to it alone; whoever waits adds the pages up. A
//! task carries a plain reference, since counting references would again be a shared counter; so ledgers are
//! never freed, and a round leaks one.
//!
//! Not here: what the sum must come to (`tally.rs`).

use crate::tally::Tally;
use crossbeam_utils::{Backoff, CachePadded};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// More threads than any peer runs tasks on.
const PAGES: usize = 64;
/// A round that takes longer than this has lost a task or a wake-up; the slowest peers need a second.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long the end of a round is waited for awake. A nap is shorter than what it could hide of a round.
const WATCHFUL: Duration = Duration::from_micros(100);
/// With the system's slack it becomes some 70 µs. A waiter that napped not at all would take a core from the
/// workers.
const NAP: Duration = Duration::from_micros(20);

/// Who ran how many tasks of one round.
pub(crate) struct Ledger {
    /// How many pages are taken; a thread takes one with its first task.
    taken: AtomicUsize,
    pages: [CachePadded<Page>; PAGES],
}

/// Written by the one thread that took it, read by whoever waits.
#[derive(Default)]
struct Page {
    count: AtomicU64,
    sum: AtomicU64,
}

thread_local! {
    /// The ledger this thread signed last, by its address, and its page there.
    static PLACE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

impl Ledger {
    /// An empty ledger, for one round.
    pub(crate) fn open() -> &'static Self {
        let pages = std::array::from_fn(|_| CachePadded::new(Page::default()));
        Box::leak(Box::new(Self { taken: AtomicUsize::new(0), pages }))
    }

    /// Says that this thread has run the task of this number.
    #[inline(always)]
    pub(crate) fn sign(&'static self, item: u64) {
        let (ledger, mut index) = PLACE.get();
        if ledger != ptr::from_ref(self).addr() {
            index = self.take_page();
        }
        let page = &self.pages[index];
        let sum = page.sum.load(Ordering::Relaxed).wrapping_add(item);
        page.sum.store(sum, Ordering::Relaxed);
        // Last, so that who sees the count sees the sum as well, and whatever the task did.
        page.count.store(page.count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    #[cold]
    fn take_page(&'static self) -> usize {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(index < PAGES, "tasks ran on more than {PAGES} threads");
        PLACE.set((ptr::from_ref(self).addr(), index));
        index
    }

    /// What has been signed so far.
    pub(crate) fn tally(&self) -> Tally {
        let pages = self.pages.iter();
        Tally::total(pages.map(|page| {
            let count = page.count.load(Ordering::Acquire);
            Tally::of(count, page.sum.load(Ordering::Relaxed))
        }))
    }

    fn count(&self) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed).min(PAGES);
        // A page may be taken meanwhile; its tasks are then seen by the next look.
        self.pages[..taken].iter().map(|page| page.count.load(Ordering::Acquire)).sum()
    }

    /// Waits for the end of a round of so many tasks: awake for a moment, then in naps.
    pub(crate) fn wait_for_end(&self, tasks: u64) -> Result<(), String> {
        let backoff = Backoff::new();
        let started = Instant::now();
        while self.count() < tasks {
            if started.elapsed() > WATCHFUL {
                return self.wait_in_naps(tasks);
            }
            backoff.snooze();
        }
        Ok(())
    }

    /// Waits until so many tasks have run, and leaves the cores to those who run them.
    pub(crate) fn wait_in_naps(&self, tasks: u64) -> Result<(), String> {
        let started = Instant::now();
        while self.count() < tasks {
            if started.elapsed() > DEADLINE {
                let ran = self.count();
                return Err(format!(
                    "{ran} of {tasks} tasks ran in {DEADLINE:?}: a task or a wake-up was lost"
                ));
            }
            thread::sleep(NAP);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_sign_adds_up() {
        let ledger = Ledger::open();
        let signers = [1..=400, 401..=1000]
            .map(|items| thread::spawn(move || items.for_each(|item| ledger.sign(item))));
        ledger.wait_for_end(1000).unwrap();
        ledger.tally().check(1000).unwrap();
        signers.into_iter().for_each(|signer| signer.join().unwrap());
    }

    #[test]
    fn a_thread_may_sign_two_ledgers_by_turns() {
        let (first, second) = (Ledger::open(), Ledger::open());
        for item in 1..=20 {
            first.sign(item);
            second.sign(item);
        }
        first.tally().check(20).unwrap();
        second.tally().check(20).unwrap();
    }
}
