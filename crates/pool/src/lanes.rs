//! The shared queue: one bounded lane for each priority, where tasks from outside wait for any worker.
//!
//! Each lane is a `Gate`, so that a submitter can wait for room, and so that closing is exact: a task is either
//! taken in before the close and will be seen to, or handed back. Which lane comes first follows the weights; the
//! bound on starvation is that of `LanePattern`.
//!
//! Not here: which queue a task goes to (`route.rs`).

use crate::options::Priority;
use crate::task::Task;
use millpond_queue::{CapacityError, Claimed, Gate, GateConfig, GateStats, LanePattern, LaneTurn, Refusal};
use std::cell::Cell;
use std::time::Duration;

/// How long a submitter waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    AtMost(Duration),
    Forever,
}

/// Where one worker is in the order of lanes.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    lanes: Cell<LaneTurn>,
    /// The lane that had a task last.
    warm: Cell<usize>,
}

#[derive(Debug)]
pub(crate) struct Lanes {
    gates: [Gate<Task>; 3],
    pattern: LanePattern,
}

impl Lanes {
    pub(crate) fn new(capacity: usize, weights: [u32; 3]) -> Result<Self, CapacityError> {
        let gate = || Gate::start(GateConfig { capacity, ..GateConfig::default() });
        Ok(Self { gates: [gate()?, gate()?, gate()?], pattern: LanePattern::new(&weights) })
    }

    #[inline(always)]
    pub(crate) fn try_push(&self, priority: Priority, task: Task) -> Result<(), Refusal<Task>> {
        self.gates[priority.lane()].try_enqueue(task)
    }

    /// Waits for room, and hands the task back as *full* when `otherwise` says that there is a place elsewhere.
    pub(crate) fn push(
        &self,
        priority: Priority,
        task: Task,
        timeout: Option<Duration>,
        otherwise: impl Fn() -> bool,
    ) -> Result<(), Refusal<Task>> {
        self.gates[priority.lane()].enqueue_unless(task, timeout, otherwise)
    }

    /// Wakes one submitter that waits for room in a lane, because there is a place elsewhere.
    pub(crate) fn nudge(&self, priority: Priority) {
        self.gates[priority.lane()].nudge();
    }

    /// Claims the oldest task of the lane whose turn it is, or else of the most urgent lane that has one.
    #[inline(always)]
    pub(crate) fn claim(&self, turn: &Turn) -> Option<Claimed<'_, Task>> {
        let mut lanes = turn.lanes.get();
        let order = self.pattern.order(&mut lanes);
        turn.lanes.set(lanes);
        for lane in order {
            let gate = &self.gates[lane];
            // Where the last task came from, more is on its way, and an attempt lingers for it (`Gate`); at the other
            // lanes a glance will do.
            if (lane == turn.warm.get() || !gate.seems_empty())
                && let Ok(claimed) = gate.try_claim()
            {
                turn.warm.set(lane);
                return Some(claimed);
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gates.iter().all(Gate::is_empty)
    }

    pub(crate) fn len(&self) -> usize {
        self.gates.iter().map(Gate::len).sum()
    }

    /// Takes nothing more in. What was taken in can still be popped.
    pub(crate) fn close(&self) {
        self.gates.iter().for_each(Gate::close);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gates[0].is_closed()
    }

    pub(crate) fn stats(&self, priority: Priority) -> GateStats {
        self.gates[priority.lane()].stats()
    }
}
