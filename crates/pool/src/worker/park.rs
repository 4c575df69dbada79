//! What a worker does when its own places are empty: it searches for a bounded while, then sleeps.
//!
//! Searching costs a processor, so at most half of the workers do it while others sleep, and only for
//! [`spin`](crate::PoolConfig::spin). It pays because waking a sleeper costs the submitter a system call, many times
//! what a task costs. A searcher offers its processor to others now and then: on a busy machine whoever is to submit
//! may be waiting for it.
//!
//! Not here: the protocol of falling asleep and waking (`sleep.rs`, `SLEEP.md`).

use super::find::{Found, Keep};
use super::parts::Parts;
use super::run::RunHere;
use super::{Standing, Worker};
use crate::counters::bump;
use crate::shared::attention;
use crate::stack::OnTop;
use crate::task::{PartOf, Task};
use std::time::{Duration, Instant};

/// Pauses of the processor between two looks.
const PAUSES: u32 = 8;
/// After so many looks the processor is offered to others, and the clock is read.
const LOOKS_PER_YIELD: usize = 16;
/// The first time so many.
const LOOKS_AT_FIRST: usize = 4;
/// The first time after it has risen: whoever waits for the task that it rose for often waits for this very processor.
const LOOKS_AFTER_RISING: usize = 1;
/// The same, counted in seats looked at.
const SEATS_PER_YIELD: usize = 256;
/// After so many looks, such a wait apart, at which no worker could go on, the pool is taken to be at a stand: one that
/// is about to go on looks so for a moment.
const LOOKS_AT_A_STAND: u32 = 3;
/// A worker that nobody can stand in for looks this often whether there is something it could run meanwhile.
const UNRELIEVED_WAIT: Duration = Duration::from_millis(1);

impl Worker {
    /// Finds a task elsewhere and runs it, or sleeps until there may be one.
    #[cold]
    pub(super) fn search_or_sleep(&self) {
        let sleep = &self.shared.sleep;
        let started = Instant::now();
        // Who comes to search has gone on.
        self.looks_at_a_stand.set(0);
        // While nobody sleeps there is nobody to be spared a wake-up, so the search need not be announced.
        let mut looked = self.search(started, || sleep.asleep() > 0);
        let mut searches = false;
        if let Looked::Elsewhere = looked {
            searches = sleep.start_search((self.shared.crew.wanted() / 2).max(1));
            looked = if searches { self.search(started, || false) } else { Looked::InVain };
        }
        loop {
            match looked {
                Looked::Found(task) => {
                    self.end_search(searches);
                    return RunHere(self).task(task);
                }
                _ if self.shared.calls_worker(self.number) => return self.end_search(searches),
                _ => self.sleep(searches),
            }
            // Whoever rises is searching.
            searches = true;
            looked = self.search(Instant::now(), || false);
            self.mail_is_ripe.set(false);
        }
    }

    fn end_search(&self, searches: bool) {
        if searches {
            self.shared.sleep.end_search(|| self.shared.anything_waits());
        }
    }

    /// Sleeps until somebody wakes this worker, unless there is something to do after all.
    fn sleep(&self, searches: bool) {
        let shared = &self.shared;
        self.own.shrink_to_fit();
        let anything_waits = || shared.anything_waits_for(self.number) || shared.calls_worker(self.number);
        let slept = shared.sleep.park(self.number, searches, anything_waits, || {
            bump(&self.counters().sleeps, 1);
            self.seat.pace.note_idle(shared.now().as_nanos());
            if shared.attention() & attention::DRAINING != 0 {
                shared.crew.tell_drainers();
            }
            self.wait_for_mail()
        });
        self.mail_is_ripe.set(slept);
        self.has_risen.set(true);
    }

    /// Looks everywhere, again and again, until the configured time is over; at least once.
    fn search(&self, started: Instant, elsewhere: impl Fn() -> bool) -> Looked {
        // A look at many seats takes as long as many looks at few.
        let looks_most = (SEATS_PER_YIELD / self.shared.seats_used().max(1)).clamp(1, LOOKS_PER_YIELD);
        let spins = !self.shared.config.spin.is_zero();
        let mut looks = match self.has_risen.get() {
            _ if !spins => looks_most,
            true => LOOKS_AFTER_RISING,
            false => looks_most.min(LOOKS_AT_FIRST),
        };
        loop {
            for look in 0..looks {
                if look > 0 {
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                }
                if self.shared.calls_worker(self.number) {
                    return Looked::InVain;
                }
                if let Some(task) = self.find(Keep).or_else(|| self.rob()) {
                    return Looked::Found(task);
                }
                if elsewhere() {
                    return Looked::Elsewhere;
                }
            }
            // Who waits for the pool to run dry waits for everybody to sleep.
            let drains = self.shared.attention() & attention::DRAINING != 0;
            if drains || started.elapsed() >= self.shared.config.spin {
                return Looked::InVain;
            }
            std::thread::yield_now();
            self.has_risen.set(false);
            looks = looks_most;
        }
    }
}

/// How a search ended.
enum Looked {
    Found(Task),
    InVain,
    /// It should go on in another way.
    Elsewhere,
}

/// Waiting for something other than work.
impl Worker {
    /// Runs `wait` while another worker stands in for this one, if there may be one more.
    pub(crate) fn stand_still<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.share_next();
        if self.standing.get() != Standing::No {
            return wait();
        }
        let standing = self.shared.crew.stand_still(&self.shared, true);
        let relieved = standing.as_ref().is_some_and(|standing| standing.relieved);
        let _before = self.note_standing(if relieved { Standing::Relieved } else { Standing::Unrelieved });
        wait()
    }

    /// As `stand_still`, for one wait in a loop that looks again. If nobody can stand in for this worker, it runs a
    /// task itself instead of waiting, since what it waits for may hang on it: any task if `may_run`, or else a step of
    /// a future, if no other worker can go on either. It waits for a moment only if there is none.
    pub(crate) fn wait_once(&self, may_run: bool, wait: impl FnOnce(Option<Duration>)) {
        self.share_next();
        if self.standing.get() == Standing::Relieved {
            return wait(None);
        }
        if self.standing.get() == Standing::No
            && let Some(_standing) = self.shared.crew.stand_still(&self.shared, false)
        {
            let _before = self.note_standing(Standing::Relieved);
            return wait(None);
        }
        let all_stand = self.shared.crew.all_others_stand();
        self.looks_at_a_stand.set(if all_stand { self.looks_at_a_stand.get().saturating_add(1) } else { 0 });
        match self.find_meanwhile(may_run) {
            Some(task) => self.run_inside(task),
            None => self.shared.crew.as_standing(|| wait(Some(UNRELIEVED_WAIT))),
        }
    }

    /// Whether, when this worker last looked, neither it nor any other could go on, and had not for a while.
    pub(crate) fn is_at_a_stand(&self) -> bool {
        self.looks_at_a_stand.get() >= LOOKS_AT_A_STAND
    }

    /// A task to be run on top of one that waits.
    fn find_meanwhile(&self, may_be_any: bool) -> Option<Task> {
        let has_room = self.stack.has_room(OnTop::Any);
        self.is_deep.set(!has_room);
        if self.shared.calls_worker(self.number) {
            return None;
        }
        if may_be_any && has_room {
            return self.find(Keep).or_else(|| self.rob()).or_else(|| self.rob_mail(|_| true));
        }
        let may_be_part = self.is_at_a_stand() && self.stack.has_room(OnTop::Part);
        may_be_part.then(|| self.find_part(if may_be_any { Parts::All } else { Parts::OfFutures }))?
    }

    /// For a worker that nobody can stand in for, and that has just found nothing to run: whether tasks wait that
    /// nobody will run before it goes on, as too much is on its stack.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_at_a_stand() && self.is_deep.get() && self.shared.anything_waits()
    }

    /// The newest task of this worker's own queue, if it is a part of a scope: such tasks compute, as a rule, and do
    /// not take long.
    pub(crate) fn pop_part(&self) -> Option<Task> {
        if self.shared.calls_worker(self.number) || !self.stack.has_room(OnTop::Any) {
            return None;
        }
        let task = self.own.pop()?;
        if let PartOf::Scope(_) = task.part_of() {
            return Some(task);
        }
        self.put_back(task);
        None
    }

    fn note_standing(&self, standing: Standing) -> impl Drop + '_ {
        /// Puts back what was there, also when the wait unwinds.
        struct Before<'a>(&'a Worker, Standing);
        impl Drop for Before<'_> {
            fn drop(&mut self) {
                self.0.standing.set(self.1);
                if self.1 == Standing::No {
                    self.0.show_standing(false);
                }
            }
        }
        if self.standing.get() == Standing::No {
            self.show_standing(true);
        }
        Before(self, self.standing.replace(standing))
    }

    /// Lets the others know whether they may take what waits here.
    fn show_standing(&self, stands_still: bool) {
        self.seat.presence.set_standing(stands_still);
        self.shared.choosing.worker_stands(self.number, stands_still);
        if stands_still && !self.seat.is_empty() {
            self.shared.sleep.work_came();
        }
    }
}
