//! Where a worker is in its life, and whether others may take all that waits at it.
//!
//! ```text
//!   cold ──► warming ──► ready ──► terminating ──► terminated ──► warming, if it is recruited again
//! ```
//!
//! What waits at a worker that stands still, or that has left, is for everybody. There is one race: a task that is sent
//! to a worker just as it leaves. Whoever sends one puts it into the worker's seat, looks afterwards whether the worker
//! leaves, and if so wakes somebody else. A worker that leaves says so, and passes on what it finds afterwards. With a
//! fence between the two steps on both sides one of them sees to the task: none is forgotten in an empty seat.
//!
//! Not here: whether a worker is busy; its counters say so.

use crate::edge::left_out;
use crate::sync::{AtomicU32, Ordering::Relaxed, full_fence};
use millpond_policy::view::WorkerState;

/// Written by the worker itself; read by anybody.
#[derive(Debug)]
pub(crate) struct Presence {
    /// A `WorkerState` other than `Busy`.
    state: AtomicU32,
    /// 1 while it waits for something other than work.
    stands_still: AtomicU32,
}

impl Presence {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(WorkerState::Cold as u32), stands_still: AtomicU32::new(0) }
    }

    /// It may be stale.
    pub(crate) fn get(&self) -> WorkerState {
        const STATES: [WorkerState; 6] = [
            WorkerState::Cold,
            WorkerState::Warming,
            WorkerState::Ready,
            WorkerState::Busy,
            WorkerState::Terminating,
            WorkerState::Terminated,
        ];
        STATES[self.state.load(Relaxed) as usize]
    }

    pub(crate) fn set(&self, state: WorkerState) {
        self.state.store(state as u32, Relaxed);
    }

    /// Says whether it waits for something other than work. One that begins to looks afterwards whether anything waits
    /// at it, and tells of that.
    pub(crate) fn set_standing(&self, stands_still: bool) {
        self.stands_still.store(u32::from(stands_still), Relaxed);
        // Meets the fence of a sender that looks at the sleepers: what it sent is seen here, or its call is followed
        // by a look that sees this.
        if !left_out("PRESENCE_STAND_FENCES") {
            full_fence();
        }
    }

    /// Whether others may take all that waits at it. It may be stale.
    pub(crate) fn is_open(&self) -> bool {
        self.stands_still.load(Relaxed) == 1 || self.is_leaving()
    }

    fn is_leaving(&self) -> bool {
        matches!(self.get(), WorkerState::Terminating | WorkerState::Terminated)
    }

    /// The worker leaves. To be called before it passes on what was sent to it.
    pub(crate) fn leave(&self) {
        self.set(WorkerState::Terminating);
        // Meets the fence in `has_left`.
        if !left_out("PRESENCE_LEAVE_FENCES") {
            full_fence();
        }
    }

    /// Whether the worker leaves or has left. To be called after something was sent to it.
    pub(crate) fn has_left(&self) -> bool {
        // Meets the fence in `leave`.
        if !left_out("PRESENCE_SEND_FENCES") {
            full_fence();
        }
        self.is_leaving()
    }
}
