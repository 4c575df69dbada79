//! What a worker goes on with when it may begin nothing: steps of futures, tasks of scopes, what somebody waits for.
//!
//! Tasks that wait inside the pool take workers and room on stacks. If many wait, all of it is taken at last, and what
//! they wait for lies in the queues behind others that cannot begin. Then the parts of what has begun come first, so
//! that the topmost of those who wait comes to its end, and then the next. This is for a pool that would come to a
//! stand otherwise, and only then: each look through a queue puts what waits before the part at its end, or into this
//! worker's own queue, as stealing does.
//!
//! Not here: when a worker waits, and whether it may begin something (`park.rs`).

use super::Worker;
use crate::options::Priority;
use crate::state::Verdict;
use crate::task::{PartOf, Task};

/// At so many tasks of a queue a worker looks, before it waits a little.
const LOOKED_AT_MAX: usize = 4096;

/// Which parts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    All,
    /// Futures are done with a step soon, or should be; others may go on for long.
    OfFutures,
}

impl Parts {
    fn include(self, part_of: PartOf) -> bool {
        match part_of {
            PartOf::Nothing | PartOf::Ended => false,
            PartOf::Future => true,
            PartOf::Awaited | PartOf::Scope(_) => self == Self::All,
        }
    }
}

impl Worker {
    /// A part, wherever it waits. Each time it looks elsewhere first, since one that gives way for ever would be found
    /// first every time.
    #[cold]
    pub(super) fn find_part(&self, parts: Parts) -> Option<Task> {
        let first = self.next_random() as usize;
        (0..4).find_map(|place| match (first + place) % 4 {
            0 => self.part_of_overflow(parts),
            1 => self.part_of_own(parts),
            2 => self.part_of_others(parts),
            _ => self.part_of_lanes(parts),
        })
    }

    fn part_of_overflow(&self, parts: Parts) -> Option<Task> {
        let overflow = &self.shared.overflow;
        let back = |task| {
            overflow.push(task);
            Ok(())
        };
        self.part_among(parts, overflow.len(), || overflow.pop(), back)
    }

    fn part_of_own(&self, parts: Parts) -> Option<Task> {
        self.part_among(parts, self.own.len(), || self.own.pop_oldest(), |task| self.own.push(task))
    }

    /// Of what may be stolen.
    fn part_of_others(&self, parts: Parts) -> Option<Task> {
        let steals = self.shared.config.stealing.enabled;
        let mut others = self
            .shared
            .seats()
            .enumerate()
            .filter(|&(at, seat)| at != self.number && (steals || seat.presence.is_open()));
        others.find_map(|(_, seat)| {
            self.part_among(parts, seat.stealable(), || seat.take_stealable(), |task| self.own.push(task))
        })
    }

    /// Where a place that was left is taken by another at once, the task goes to the overflow, unless many are there.
    fn part_of_lanes(&self, parts: Parts) -> Option<Task> {
        let shared = &self.shared;
        Priority::ALL.into_iter().find_map(|priority| {
            let waiting = shared.lanes.len_of(priority);
            let back = |task| match shared.lanes.try_push(priority, task) {
                Ok(()) => Ok(()),
                Err(refusal) => self.set_aside(refusal.into_inner()),
            };
            self.part_among(parts, waiting, || shared.lanes.take_oldest(priority), back)
        })
    }

    /// The first part among so many tasks at most. `back` puts the others where they are not in the way; where it
    /// cannot, that is the end of this look.
    fn part_among(
        &self,
        parts: Parts,
        waiting: usize,
        take: impl Fn() -> Option<Task>,
        back: impl Fn(Task) -> Result<(), Task>,
    ) -> Option<Task> {
        let mut has_moved = false;
        let mut look = || {
            for _ in 0..waiting.min(LOOKED_AT_MAX) {
                let mut task = take()?;
                if task.part_of() == PartOf::Ended {
                    // Somebody else has seen to it. Perhaps another waits in its place.
                    match task.discard(Verdict::Cancelled) {
                        Some(heir) => task = heir,
                        None => continue,
                    }
                }
                if parts.include(task.part_of()) {
                    return Some(task);
                }
                has_moved = true;
                if let Err(task) = back(task) {
                    self.shared.overflow.push(task);
                    return None;
                }
            }
            None
        };
        let part = look();
        if has_moved {
            // While they were in this worker's hands, one that parked saw them nowhere.
            self.shared.sleep.work_came();
            self.shared.purge_if_stopped();
        }
        part
    }
}
