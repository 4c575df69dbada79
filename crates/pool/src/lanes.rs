//! The shared queue: one bounded lane for each priority, where tasks from outside wait for any worker.
//!
//! Each lane is a `Gate`, so that a submitter can wait for room, and so that closing is exact: a task is either taken
//! in before the close and will be seen to, or handed back. Which lane comes first follows the weights; the bound on
//! starvation is that of `LanePattern`. A lane other than the normal one is made when its first task comes: few pools
//! use them all, and each is as large as the capacity says.
//!
//! Not here: which queue a task goes to (`route.rs`).

use crate::options::Priority;
use crate::task::{Run, Seed, Task};
use millpond_queue::{CapacityError, Claimed, Gate, GateConfig, GateStats, LanePattern, LaneTurn, Refusal};
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// A submitter that waits for room naps once in so many waits.
const WAITS_PER_NAP: u32 = 16;
/// A shorter nap is not to be had: the system's timers have that much slack.
const NAP_MIN: Duration = Duration::from_micros(50);
/// Longer than this nobody naps, however slow the workers are.
const NAP_MAX: Duration = Duration::from_micros(100);

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

/// How a thread has waited for room lately.
struct Patience {
    waits: Cell<u32>,
    total: Cell<Duration>,
    /// The nap that is due.
    nap: Cell<Duration>,
}

thread_local! {
    static PATIENCE: Patience = const {
        Patience { waits: Cell::new(0), total: Cell::new(Duration::ZERO), nap: Cell::new(Duration::ZERO) }
    };
}

impl Patience {
    /// The thread has waited so long for one place. After some such waits it is to nap for as long as an eighth of the
    /// queue takes to be worked off, if a nap can be as short as that.
    fn waited(&self, wait: Duration, capacity: usize) {
        let (waits, total) = (self.waits.get() + 1, self.total.get() + wait);
        self.waits.set(waits % WAITS_PER_NAP);
        self.total.set(if waits == WAITS_PER_NAP { Duration::ZERO } else { total });
        if waits == WAITS_PER_NAP {
            let nap = total / WAITS_PER_NAP * (capacity / 8).min(1 << 20) as u32;
            if nap >= NAP_MIN {
                self.nap.set(nap.min(NAP_MAX));
            }
        }
    }
}

/// Naps, if this thread had to wait for room often enough. To be called when its task has been told of.
pub(crate) fn nap_if_due() {
    let nap = PATIENCE.with(|patience| patience.nap.take());
    if !nap.is_zero() {
        thread::sleep(nap);
    }
}

#[derive(Debug)]
pub(crate) struct Lanes {
    /// The normal one is always there.
    gates: [OnceLock<Gate<Task>>; 3],
    pattern: LanePattern,
    capacity: usize,
}

impl Lanes {
    pub(crate) fn new(capacity: usize, weights: [u32; 3]) -> Result<Self, CapacityError> {
        let lanes = Self { gates: Default::default(), pattern: LanePattern::new(&weights), capacity };
        lanes.furnish(Priority::Normal)?;
        Ok(lanes)
    }

    #[inline(always)]
    pub(crate) fn try_push(&self, priority: Priority, task: Task) -> Result<(), Refusal<Task>> {
        match self.gate(priority) {
            Some(gate) => gate.try_enqueue(task),
            // There is no memory for the lane: see `is_missing`.
            None => Err(Refusal::Full(task)),
        }
    }

    /// Makes a task in its place in a lane, if there is one at once.
    #[inline(always)]
    pub(crate) fn push_at_once<R: Run>(&self, priority: Priority, seed: Seed<R>) -> Result<(), Seed<R>> {
        match self.made(priority) {
            Some(gate) => gate.enqueue_at_once(seed, Seed::into_task),
            None => Err(seed),
        }
    }

    /// Waits for room, and hands the task back as *full* when `otherwise` says that there is a place elsewhere.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        priority: Priority,
        task: Task,
        timeout: Option<Duration>,
        otherwise: impl Fn() -> bool,
    ) -> Result<(), Refusal<Task>> {
        // See `is_missing`. Whoever is told *full* comes back for the place elsewhere, and this will not change.
        let Some(gate) = self.gate(priority) else { return Err(Refusal::TimedOut(task)) };
        if gate.is_full() {
            self.push_into_full(gate, task, timeout, otherwise)
        } else {
            gate.enqueue_unless(task, timeout, otherwise)
        }
    }

    /// Waits for room. A submitter that waits a little for every single task keeps a processor busy with waiting, which
    /// the workers could use: now and then it naps instead, while they make room for many.
    #[cold]
    fn push_into_full(
        &self,
        gate: &Gate<Task>,
        task: Task,
        timeout: Option<Duration>,
        otherwise: impl Fn() -> bool,
    ) -> Result<(), Refusal<Task>> {
        let begun = Instant::now();
        let pushed = gate.enqueue_unless(task, timeout, otherwise);
        if timeout.is_none() && pushed.is_ok() {
            // It waited for its own place, and those that are free now came free meanwhile.
            let places = 1 + (gate.capacity() - gate.len()) as u32;
            PATIENCE.with(|patience| patience.waited(begun.elapsed() / places, self.capacity));
        }
        pushed
    }

    /// Wakes one submitter that waits for room in a lane, because there is a place elsewhere.
    pub(crate) fn nudge(&self, priority: Priority) {
        self.made(priority).into_iter().for_each(Gate::nudge);
    }

    /// Claims the oldest task of the lane whose turn it is, or else of the most urgent lane that has one.
    #[inline(always)]
    pub(crate) fn claim(&self, turn: &Turn) -> Option<Claimed<'_, Task>> {
        let mut lanes = turn.lanes.get();
        let order = self.pattern.order(&mut lanes);
        turn.lanes.set(lanes);
        for lane in order {
            let Some(gate) = self.gates[lane].get() else { continue };
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

    /// As `claim`, and claims up to `more` tasks right after it too, which are handed to `other`: unless there are
    /// several lanes, whose order each task has to follow by itself.
    #[inline(always)]
    pub(crate) fn claim_some<'a>(
        &'a self,
        turn: &Turn,
        more: usize,
        other: impl FnMut(Claimed<'a, Task>),
    ) -> Option<Claimed<'a, Task>> {
        let Some(normal) = self.only_one() else { return self.claim(turn) };
        if more > 0 { normal.try_claim_some(more, other).ok() } else { normal.try_claim().ok() }
    }

    /// The normal lane, while it is the only one.
    #[inline(always)]
    pub(crate) fn only_one(&self) -> Option<&Gate<Task>> {
        let [high, normal, low] = &self.gates;
        if high.get().is_some() || low.get().is_some() { None } else { normal.get() }
    }

    /// Whether nothing waits, nor is on its way into a slot. A worker that parks looks here last, and submitters rely
    /// on that: their swap moves a lane's tail before they look at the sleepers, though the slot may be filled later.
    /// So tails and heads are compared, and no slot is looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().all(Gate::is_empty)
    }

    pub(crate) fn len(&self) -> usize {
        self.all().map(Gate::len).sum()
    }

    pub(crate) fn len_of(&self, priority: Priority) -> usize {
        self.made(priority).map_or(0, Gate::len)
    }

    /// Whether something waits in the most urgent lane. It may be stale.
    #[inline(always)]
    pub(crate) fn anything_urgent(&self) -> bool {
        self.made(Priority::High).is_some_and(|gate| !gate.seems_empty())
    }

    /// Takes the oldest task of one lane.
    pub(crate) fn take_oldest(&self, priority: Priority) -> Option<Task> {
        self.made(priority)?.try_dequeue().ok()
    }

    /// Takes a task of any lane, waiting for those who are in the middle of their step.
    pub(crate) fn take_one(&self) -> Option<Task> {
        self.all().find_map(|gate| gate.try_dequeue().ok())
    }

    /// Takes nothing more in. What was taken in can still be claimed.
    pub(crate) fn close(&self) {
        for lane in &self.gates {
            // A lane that is missing is made now, and closed, so that none can be made open afterwards.
            let made = lane.get().is_some();
            if !made && let Ok(closed) = Gate::with_capacity(1) {
                closed.close();
                let _ = lane.set(closed);
            }
        }
        self.all().for_each(Gate::close);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.made(Priority::Normal).is_some_and(Gate::is_closed)
    }

    /// Whether a lane has not been made. If one has just refused a task, there was no memory for it.
    pub(crate) fn is_missing(&self, priority: Priority) -> bool {
        self.made(priority).is_none()
    }

    pub(crate) fn stats(&self, priority: Priority) -> GateStats {
        self.made(priority).map_or_else(
            || {
                let mut unused = GateStats::default();
                unused.capacity = self.capacity;
                unused
            },
            Gate::stats,
        )
    }

    #[inline(always)]
    fn made(&self, priority: Priority) -> Option<&Gate<Task>> {
        self.gates[priority.lane()].get()
    }

    fn all(&self) -> impl Iterator<Item = &Gate<Task>> {
        self.gates.iter().filter_map(OnceLock::get)
    }

    #[inline(always)]
    fn gate(&self, priority: Priority) -> Option<&Gate<Task>> {
        match self.made(priority) {
            None => self.furnish(priority).ok(),
            made => made,
        }
    }

    #[cold]
    fn furnish(&self, priority: Priority) -> Result<&Gate<Task>, CapacityError> {
        let gate = Gate::start(GateConfig { capacity: self.capacity, ..GateConfig::default() })?;
        // Should another have been quicker, its lane it is.
        let gate = self.gates[priority.lane()].get_or_init(|| gate);
        Ok(gate)
    }
}
