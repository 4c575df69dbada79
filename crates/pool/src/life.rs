//! How a pool ends, and what is told about every task then: purge, drain and stop.
//!
//! Closing is exact, because it is a bit in the very words that submitters change: a task is either taken in before
//! and seen to, or handed back. After that only running tasks and woken futures can bring more work. So a pool has
//! run dry when every worker is asleep, no queue holds anything and no future lives; it is looked at under the lock
//! that a sleeper needs to rise, so that nothing can move meanwhile.
//!
//! Not here: the threads (`crew.rs`).

use crate::counters::Ending;
use crate::crew::Roll;
use crate::current;
use crate::seat::Seat;
use crate::shared::{Shared, attention};
use crate::state::Verdict;
use crate::strategy::Strategy;
use crate::sync::full_fence;
use crate::task::Task;
use crate::token;
use crate::worker::Worker;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// What happened to the tasks of a pool during a call that changes or ends it, and what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many ran to their end meanwhile.
    pub completed: u64,
    /// How many panicked meanwhile.
    pub panicked: u64,
    /// How many were cancelled meanwhile.
    pub cancelled: u64,
    /// How many were not done by their deadline meanwhile.
    pub timed_out: u64,
    /// How many had not begun by their deadline meanwhile.
    pub expired: u64,
    /// How many were dropped meanwhile because the queue was full.
    pub dropped: u64,
    /// How many still wait in a queue.
    pub waiting: usize,
    /// How many workers still run a task; a task that asks for the report runs itself.
    pub running: usize,
    /// How many futures still live.
    pub futures: usize,
}

impl Report {
    /// Whether nothing is left of what the pool took in. Never so for a task that asks for the report: it runs itself.
    pub fn is_finished(&self) -> bool {
        self.waiting == 0 && self.running == 0 && self.futures == 0
    }
}

/// How many tasks had ended, each way, when it began.
pub(crate) struct Before([u64; 6]);

const ENDINGS: [Ending; 6] = [
    Ending::Completed,
    Ending::Panicked,
    Ending::Cancelled,
    Ending::TimedOut,
    Ending::Expired,
    Ending::Dropped,
];

impl Before {
    fn now(shared: &Shared) -> Self {
        Self(ENDINGS.map(|ending| shared.endings(ending)))
    }

    pub(crate) fn report(&self, shared: &Shared) -> Report {
        let since = Self::now(shared).0;
        let [completed, panicked, cancelled, timed_out, expired, dropped] =
            std::array::from_fn(|ending| since[ending] - self.0[ending]);
        Report {
            completed,
            panicked,
            cancelled,
            timed_out,
            expired,
            dropped,
            waiting: shared.waiting(),
            running: shared.busy(),
            futures: shared.futures.live(),
        }
    }
}

impl Shared {
    pub(crate) fn begin_report(&self) -> Before {
        Before::now(self)
    }

    pub(crate) fn purge_and_report(&self) -> Report {
        let before = Before::now(self);
        self.purge();
        before.report(self)
    }

    /// Takes everything out of the queues and drops it unrun.
    fn purge(&self) {
        // As many as are there now: what comes meanwhile is not meant.
        for _ in 0..self.lanes.len() {
            let Some(task) = self.lanes.take_one() else { break };
            self.discard(task, Verdict::Cancelled);
        }
        for seat in self.seats() {
            for _ in 0..seat.len() {
                let Some(task) = seat.take_one() else { break };
                self.discard(task, Verdict::Cancelled);
            }
        }
        while let Some(task) = self.overflow.pop() {
            self.discard(task, Verdict::Cancelled);
        }
        // Halves of joins: their joiners take them back.
        while self.forks.pop().is_some() {}
    }

    /// To be called, past a fence, by who has put back what was in its hands: a stop may have looked meanwhile.
    pub(crate) fn purge_if_stopped(&self) {
        if self.attention() & attention::STOPPING != 0 {
            self.purge();
            self.crew.tell_drainers();
        }
    }

    /// Drops a task unrun, and whoever took its place.
    pub(crate) fn discard(&self, task: Task, why: Verdict) {
        let mut next = Some(task);
        while let Some(task) = next {
            if !task.counts_itself() {
                self.count(why.ending());
            }
            next = task.discard(why);
        }
    }

    fn close(&self) {
        self.lanes.close();
        // Meets the fence in `furnish`: a seat is seen here, or sees that the lanes are closed.
        full_fence();
        self.seats().for_each(Seat::close);
    }

    pub(crate) fn drain(&self, within: Duration) -> Report {
        let before = Before::now(self);
        let deadline = Instant::now().checked_add(within);
        self.attention.fetch_or(attention::DRAINING, Relaxed);
        // Meets the fence of a future that ends.
        full_fence();
        self.close();
        self.crew.set_paused(self, false);
        // Who sees it first may go on with something before another looks, or be waited for by that one.
        let dried = self.crew.roll().dried.get();
        let dry = self.wait_as_ender(deadline, |roll| {
            if roll.dried.get() == dried && self.is_dry(roll) {
                roll.dried.set(dried + 1);
            }
            roll.dried.get() != dried
        });
        if dry {
            self.crew.tell_drainers();
        }
        let mut report = before.report(self);
        if dry {
            // Whoever tries to submit now counts for the moment until it is refused.
            report.futures = 0;
        }
        report
    }

    /// Waits on whatever thread this is: another worker stands in for one of any pool, and a task of this pool is not
    /// waited for. A worker of this pool that nobody can stand in for does meanwhile what there is to do, and looks up
    /// between two tasks; if it cannot, as too many wait on its stack already, it gives up.
    fn wait_as_ender(&self, deadline: Option<Instant>, met: impl Fn(&Roll) -> bool) -> bool {
        let own = current::worker_of(self);
        let wait_until = |until| {
            let wait = || self.crew.wait_until(until, &met);
            own.map_or_else(wait, |worker| self.crew.as_ender(worker.leaves(), wait))
        };
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        let future = own.and_then(|_| token::current_future());
        let mut gives_up = false;
        self.crew.with_future_as_ender(future, || {
            // At once, and after each round, since a round may run a task instead of waiting.
            let mut is_met = wait_until(Some(Instant::now()));
            while !is_met && !is_late() && !gives_up {
                // What another pool waits for is not here; but without an end it is no use to hold this one up.
                let may_run = own.is_some() || deadline.is_none();
                current::wait_once(may_run, |at_most| {
                    gives_up = at_most.is_some() && own.is_some_and(Worker::is_stuck);
                    let pause = at_most.filter(|_| !gives_up).unwrap_or_default();
                    let until = at_most.and_then(|_| Instant::now().checked_add(pause));
                    is_met = wait_until(deadline.into_iter().chain(until).min());
                });
                // What was seen once is kept: others who saw it too may be about to go on.
                is_met = is_met || wait_until(Some(Instant::now()));
            }
            is_met
        })
    }

    /// Whether nothing is left and nothing can come any more. Tasks that wait for just that do not count.
    fn is_dry(&self, roll: &Roll) -> bool {
        self.sleep.while_asleep(|asleep| {
            roll.all_rest(asleep) && self.futures.live() == roll.enders.futures() && !self.anything_waits()
        })
    }

    /// `within`: `None` waits for as long as it takes.
    pub(crate) fn stop(&self, within: Option<Duration>) -> Report {
        let before = Before::now(self);
        let deadline = within.and_then(|within| Instant::now().checked_add(within));
        self.scaling.end();
        // In this order: no worker begins what was still taken in.
        let threads = self.crew.dismiss(self);
        self.close();
        self.purge();
        for task in self.futures.all() {
            task.cancel();
        }
        // One that waits for the pool to run dry looks again.
        self.crew.tell_drainers();
        // A task may stop its own pool: its thread is not waited for by others like it.
        let is_outside = current::worker_of(self).is_none();
        self.wait_as_ender(deadline, |roll| roll.alive <= if is_outside { 0 } else { roll.enders.threads() });
        let ended = self.crew.roll().alive == 0;
        if ended {
            for thread in threads.into_iter().chain(self.sleep.helper()) {
                // A worker's thread ends the process rather than unwind, so there is nothing to be told.
                let _ = thread.join();
            }
        }
        // What running tasks submitted before they noticed, and futures that were dropped only now.
        self.purge();
        self.crew.tell_drainers();
        self.timer.stop();
        self.events.close();
        // It may hold a handle of this pool.
        self.choosing.swap(&Strategy::shared(), self.now());
        let mut report = before.report(self);
        if ended {
            // As for a pool that is dry.
            report.futures = 0;
        }
        report
    }
}
