//! Where a worker looks for its next task: its own queue, what was sent to it, the shared lanes.
//!
//! Own work first keeps a task's data warm. Every 64th look goes to the shared lanes or to the inbox first, so that a
//! worker that feeds itself cannot starve those who submit from outside; and a task that comes next because it was
//! just woken may do so three times in a row at most, so that two tasks that wake each other cannot starve the rest
//! of the queue.
//!
//! Not here: taking from others (`steal.rs`), which is part of the search (`park.rs`).

use super::Worker;
use crate::job::Job;
use crate::sync::fence_after_swap;
use crate::task::Task;
use millpond_queue::Claimed;

/// One look in so many begins elsewhere than at this worker's own queue.
const OTHERS_FIRST_EVERY: u32 = 64;
/// So often in a row a woken task may come before the others.
const NEXT_IN_A_ROW_MAX: u32 = 3;

/// What is to be done with a task that was found.
pub(super) trait Found {
    type Done;

    fn task(self, task: Task) -> Self::Done;

    /// As `task`, with one that is still in its slot.
    fn claimed(self, claimed: Claimed<'_, Task>) -> Self::Done;
}

/// Hands it to the caller.
pub(super) struct Keep;

impl Found for Keep {
    type Done = Task;

    fn task(self, task: Task) -> Task {
        task
    }

    fn claimed(self, claimed: Claimed<'_, Task>) -> Task {
        claimed.take()
    }
}

impl Worker {
    /// Does what is to be done with the next task from this worker's own places or from the shared ones.
    ///
    /// A task is seven words. It is taken out where it is used, because handing it up from place to place would cost
    /// more than finding it.
    #[inline(always)]
    pub(super) fn find<F: Found>(&self, found: F) -> Option<F::Done> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if tick.is_multiple_of(OTHERS_FIRST_EVERY)
            && let Some(task) = self.find_among_others(tick)
        {
            self.tell_of_own();
            return Some(found.task(task));
        }
        if let Some(job) = self.find_next() {
            self.tell_of_own();
            return Some(found.task(Task::new(job)));
        }
        // A glance first: taking from an empty queue also tidies up behind thieves, which need not be done every time.
        if !self.own.is_empty() {
            let mut found = Some(found);
            let did = self.own.pop_oldest_with(|task| {
                if self.gave_way.replace(false) && !self.own.is_empty() {
                    // As `tell_of_own`. Taking this one was a swap, and came after the other was put there.
                    fence_after_swap();
                    self.shared.sleep.work_is_seen();
                }
                found.take().expect("it is done once").task(task)
            });
            return match (did, found) {
                (None, Some(found)) => self.find_elsewhere(tick, found),
                (did, _) => did,
            };
        }
        self.find_elsewhere(tick, found)
    }

    /// As `find`, when this worker's own queue is empty.
    #[inline(always)]
    fn find_elsewhere<F: Found>(&self, tick: u32, found: F) -> Option<F::Done> {
        if !self.seat.inbox.seems_empty()
            && let Ok(claimed) = self.seat.inbox.try_claim()
        {
            return Some(found.claimed(claimed));
        }
        if let Some(assigned) = self.seat.assigned()
            && !assigned.seems_empty()
            && !self.lanes_come_first(tick)
            && let Ok(claimed) = assigned.try_claim()
        {
            return Some(found.claimed(claimed));
        }
        // Woken tasks that found every queue full have waited longest; but they must not keep the lanes waiting.
        if !tick.is_multiple_of(2)
            && let Some(task) = self.shared.overflow.pop()
        {
            return Some(found.task(task));
        }
        if let Some(claimed) = self.shared.lanes.claim(&self.turn) {
            return Some(found.claimed(claimed));
        }
        self.shared.overflow.pop().map(|task| found.task(task))
    }

    /// Whether the shared lanes come before what was given to this worker: every second time, so that what found no
    /// room at a worker is not overtaken for ever; or as often as the urgent lane weighs, if something is urgent.
    fn lanes_come_first(&self, tick: u32) -> bool {
        let lanes = &self.shared.lanes;
        let [high, normal, _] = self.shared.config.lane_weights;
        if lanes.anything_urgent() {
            return tick % (high + normal) < high;
        }
        !tick.is_multiple_of(2) && !lanes.is_empty()
    }

    /// A task that gave way waits in this worker's own queue, and another comes first here: somebody else may run it.
    #[inline(always)]
    pub(super) fn tell_of_own(&self) {
        if self.gave_way.replace(false) {
            self.shared.sleep.work_came();
        }
    }

    /// The places that a worker with work of its own, or with a lane that is never empty, would not come to: mostly the
    /// shared ones, now and then its inbox, and what waits behind a worker that stands still.
    #[cold]
    fn find_among_others(&self, tick: u32) -> Option<Task> {
        match (tick / OTHERS_FIRST_EVERY) % 4 {
            0 => self.seat.take_mail(),
            1 => self.rob_one(),
            _ => self.shared.overflow.pop().or_else(|| Some(self.shared.lanes.claim(&self.turn)?.take())),
        }
    }

    #[inline(always)]
    fn find_next(&self) -> Option<Job> {
        let job = self.next.take()?;
        let in_a_row = self.next_in_a_row.get();
        if in_a_row < NEXT_IN_A_ROW_MAX {
            self.next_in_a_row.set(in_a_row + 1);
            return Some(job);
        }
        // It has had its turns: it goes to the end of the queue, and the oldest comes first.
        self.next_in_a_row.set(0);
        if self.own.is_empty() {
            return Some(job);
        }
        self.push_job(job);
        None
    }

    /// Xorshift: cheap, and good enough to keep thieves apart.
    pub(super) fn next_random(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }
}
