//! Where a worker looks for its next task: its own queue, what was sent to it, the shared lanes.
//!
//! Own work first keeps a task's data warm. Every 64th look goes to the shared lanes or to the inbox first, so that a
//! worker that feeds itself cannot starve those who submit from outside; and a task that comes next because it was
//! just woken may do so three times in a row at most, so that two tasks that wake each other cannot starve the rest
//! of the queue.
//!
//! While its own queue or nothing but the shared lane has tasks, they are run one after the other, without the rest of
//! the looking.
//!
//! Not here: taking from others (`steal.rs`), which is part of the search (`park.rs`).

use super::Worker;
use super::run::RunHere;
use crate::counters::Ending;
use crate::job::Job;
use crate::sync::fence_after_swap;
use crate::task::{InHand, Task, move_to_own};
use millpond_queue::{Claimed, Gate};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// One look in so many begins elsewhere than at this worker's own queue.
const OTHERS_FIRST_EVERY: u32 = 64;
/// After so many of those looks at a queue of its own that is not empty, a worker has many tasks from tasks.
const OWN_FLOW: u32 = 64;
/// What a worker takes along from the shared lanes is done within about this time.
const HAUL_TIME: Duration = Duration::from_micros(16);
/// So often in a row a woken task may come before the others.
const NEXT_IN_A_ROW_MAX: u32 = 3;

/// What is to be done with a task that was found.
pub(super) trait Found: Sized {
    type Done;

    fn in_hand(self, task: InHand<'_>) -> Self::Done;

    #[inline(always)]
    fn task(self, task: Task) -> Self::Done {
        self.in_hand(InHand::from_task(task, &mut MaybeUninit::uninit()))
    }

    /// As `task`, with one that is still in its slot.
    #[inline(always)]
    fn claimed(self, claimed: Claimed<'_, Task>) -> Self::Done {
        self.in_hand(InHand::from_slot(claimed))
    }
}

/// Hands it to the caller.
pub(super) struct Keep;

impl Found for Keep {
    type Done = Task;

    #[inline(always)]
    fn in_hand(self, task: InHand<'_>) -> Task {
        task.take()
    }
}

/// How many looks may follow before one begins elsewhere.
#[inline(always)]
fn looks_left(tick: u32) -> u32 {
    OTHERS_FIRST_EVERY - 1 - tick % OTHERS_FIRST_EVERY
}

impl Worker {
    /// Does what is to be done with the next task from this worker's own places or from the shared ones.
    #[inline(always)]
    pub(super) fn find<F: Found>(&self, found: F) -> Option<F::Done> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if tick.is_multiple_of(OTHERS_FIRST_EVERY)
            && let Some(task) = self.find_among_others(tick)
        {
            self.tell_for_certain();
            return Some(found.task(task));
        }
        if let Some(job) = self.find_next() {
            self.tell_of_own();
            return Some(found.task(Task::new(job)));
        }
        match self.find_own(found) {
            Ok(done) => Some(done),
            Err(found) => self.find_elsewhere(tick, found),
        }
    }

    /// As `find`, in this worker's own queue alone.
    #[inline(always)]
    fn find_own<F: Found>(&self, found: F) -> Result<F::Done, F> {
        // What only this worker fills it knows to be empty; taking from it would look at words that thieves change.
        if self.own.is_known_empty() {
            return Err(found);
        }
        let mut place = MaybeUninit::uninit();
        let Some(task) = InHand::from_own(&self.own, &mut place) else { return Err(found) };
        self.hauled.set(self.hauled.get().saturating_sub(1));
        if (self.gave_way.replace(false) | self.told_lightly.replace(false)) && !self.own.is_empty() {
            // As `tell_for_certain`. Taking this one was a swap, and came after the others were put there.
            fence_after_swap();
            self.shared.sleep.work_is_seen();
        }
        Ok(found.in_hand(task))
    }

    /// Runs tasks of this worker's own queue or, while it is the only other place that has any, of the shared lane.
    /// Tiny tasks mostly come in such flows, and take less time than a whole look.
    #[inline(always)]
    pub(super) fn run_flow(&self) {
        // Counted here, since to count in the worker's own memory takes longer than some tasks.
        let (mut ran, left) = (0, looks_left(self.tick.get()));
        while ran < left && self.shared.attention() == 0 && !self.has_next() && self.run_next_of_flow() {
            ran += 1;
        }
        // A task that waited may have looked for others meanwhile.
        let tick = self.tick.get();
        self.tick.set(tick + ran.min(looks_left(tick)));
    }

    #[inline(always)]
    fn run_next_of_flow(&self) -> bool {
        let Err(run) = self.find_own(RunHere(self)) else { return true };
        // A worker that takes several at a time does so in `find`.
        if self.haul.get() > 0 || !self.only_the_lane_may_have_any() {
            return false;
        }
        let claimed = self.shared.lanes.only_one().and_then(Gate::claim_at_once);
        claimed.map(|claimed| run.claimed(claimed)).is_some()
    }

    /// Whether no other place is to be looked at, when this worker's own queue is empty.
    #[inline(always)]
    fn only_the_lane_may_have_any(&self) -> bool {
        self.seat.inbox.seems_empty() && self.seat.assigned().is_none() && self.shared.overflow.is_empty()
    }

    #[inline(always)]
    fn has_next(&self) -> bool {
        let next = self.next.take();
        let has_next = next.is_some();
        self.next.set(next);
        has_next
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
        if let Some(claimed) = self.claim_shared() {
            return Some(found.claimed(claimed));
        }
        self.shared.overflow.pop().map(|task| found.task(task))
    }

    /// Claims the oldest task of the shared lanes. While tasks are tiny, and if it may, it takes along some that
    /// follow, to this worker's own queue, where others may steal them. Each claim moves a word that all workers
    /// want, which takes longer than such a task.
    #[inline(always)]
    fn claim_shared(&self) -> Option<Claimed<'_, Task>> {
        let mut hauled = 0;
        let claimed = self.shared.lanes.claim_some(&self.turn, self.haul.get(), |other| {
            hauled += 1;
            if let Err(other) = move_to_own(other, &self.own) {
                self.shared.overflow.push(other.take());
            }
        });
        if hauled > 0 {
            self.hauled.set(hauled);
            // While they were in this worker's hands, one that parked saw them nowhere.
            self.shared.sleep.work_came();
        }
        claimed
    }

    /// Decides how many tasks are taken along from now on: what will have been done within [`HAUL_TIME`], if tasks go
    /// on as those that ended here lately. So no long ones are hoarded; and where one comes after all, those behind it
    /// can be stolen.
    fn weigh_haul(&self) {
        let config = &self.shared.config;
        if config.batch_max == 1 || !config.stealing.enabled {
            return;
        }
        let now = Instant::now();
        let ended = self.counters().endings(Ending::Completed);
        let (ended_then, then) = self.weighed.replace((ended, now));
        let ended = ended - ended_then;
        let is_telling = ended >= u64::from(OTHERS_FIRST_EVERY / 2);
        let per_task = now.duration_since(then).as_nanos() as u64 / ended.max(1);
        let haul = (HAUL_TIME.as_nanos() as u64 / per_task.max(1)) as usize;
        self.haul.set(if is_telling { haul.min(config.batch_max - 1) } else { 0 });
    }

    /// Counts the looks that find tasks in this worker's own queue, until there have been many.
    fn note_own_flow(&self) {
        let flow = self.own_flow.get();
        if flow < OWN_FLOW && !self.own.is_known_empty() {
            self.own_flow.set(flow + 1);
            if flow + 1 == OWN_FLOW {
                self.shared.sleep.much_comes_inside();
            }
        }
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
        self.weigh_haul();
        self.note_own_flow();
        match (tick / OTHERS_FIRST_EVERY) % 4 {
            0 => self.seat.take_mail(),
            1 => self.rob_one(),
            _ => self.shared.overflow.pop().or_else(|| {
                // What this worker has taken along is from there, and older.
                let is_older = self.hauled.get() > 0;
                if is_older { None } else { Some(self.shared.lanes.claim(&self.turn)?.take()) }
            }),
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
