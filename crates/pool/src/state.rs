//! The state word of a task: where it is, who holds it, and who may touch what it is made of.
//!
//! ```text
//!                              wake
//!             ┌──────────────────────────────────┐
//!             ▼                                  │
//! new ──► QUEUED ──start──► RUNNING ──suspend──► IDLE     (only a future is ever idle)
//!          │  ▲               │ │ │               │
//!          │  └─suspend, woken┘ │ │ finish        │ cancel, deadline
//!          │ cancel, deadline,  │ └────► DONE     │
//!          │ discard            │ decide  ▲       │
//!          └──────────────► CLOSING ──────┴───────┘
//!                                  conclude
//!
//! word  ┌──────────────────┬───────┬─────────┬───────┬─────────┬────────┬─────────┬───────┬───────┐
//!       │ references       │ 4 bit │ verdict │ waker │ sleeper │ ticket │ started │ woken │ phase │
//!       └──────────────────┴───────┴─────────┴───────┴─────────┴────────┴─────────┴───────┴───────┘
//!        63             16          11     8     7        6        5         4        3    2     0
//! ```
//!
//! Every change is one read-modify-write of this one word, so every race has one winner. Leaving QUEUED, IDLE or
//! RUNNING decides how the task goes on; whoever took it to RUNNING or CLOSING is the only one to touch its body
//! until it passes it on. There is one exception: a running closure cannot be stopped, so when its time is up
//! somebody else takes it to CLOSING, and then the body stays with whoever runs it.
//!
//! *verdict* is how it ended, from CLOSING on. Before, it is what somebody asked for while the task ran.
//! *ticket*: the ticket is there and the result is its own. *waker*, *sleeper*: the ticket waits to be told.
//!
//! A future is idle only while somebody else than its ticket refers to it: nobody else could ever wake it. The last
//! such reference ends it.
//!
//! Not here: the memory behind the references (`cell.rs`).

use crate::counters::Ending;
use crate::edge::{Edge, acq_rel, left_out};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::fmt;

/// What was done to a task, and what a waker did before it woke it, reaches the next one to take it.
static STATE_PASS: Edge = Edge::new("STATE_PASS");
/// The result reaches the ticket.
static STATE_FINISH: Edge = Edge::new("STATE_FINISH");
/// The waker of a ticket reaches whoever finishes the task.
static STATE_WAITER: Edge = Edge::new("STATE_WAITER");
/// What was done before a task was asked to stop is seen by the task that notices.
static STATE_ASK: Edge = Edge::new("STATE_ASK");
/// All use of the memory is over before the last reference frees it.
static STATE_REFERENCES: Edge = Edge::new("STATE_REFERENCES");

const PHASE: u64 = 0b111;
const IDLE: u64 = 0;
const QUEUED: u64 = 1;
const RUNNING: u64 = 2;
const CLOSING: u64 = 3;
const DONE: u64 = 4;
const WOKEN: u64 = 1 << 3;
const STARTED: u64 = 1 << 4;
const TICKET: u64 = 1 << 5;
const SLEEPER: u64 = 1 << 6;
const WAKER: u64 = 1 << 7;
const VERDICT_SHIFT: u32 = 8;
const VERDICT: u64 = 0b1111 << VERDICT_SHIFT;
const REFERENCE_SHIFT: u32 = 16;
const REFERENCE: u64 = 1 << REFERENCE_SHIFT;

/// How a task ended, as its ticket is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Completed = 1,
    Panicked = 2,
    Cancelled = 3,
    TimedOut = 4,
    Expired = 5,
    /// Nobody was left who could wake it.
    Abandoned = 6,
    /// There was no room for it any longer, or never was.
    Dropped = 7,
}

impl Verdict {
    /// How it is counted.
    pub(crate) fn ending(self) -> Ending {
        match self {
            Self::Completed => Ending::Completed,
            Self::Panicked => Ending::Panicked,
            Self::Cancelled | Self::Abandoned => Ending::Cancelled,
            Self::TimedOut => Ending::TimedOut,
            Self::Expired => Ending::Expired,
            Self::Dropped => Ending::Dropped,
        }
    }

    fn bits(self) -> u64 {
        (self as u64) << VERDICT_SHIFT
    }
}

/// The word as it was at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    fn phase(self) -> u64 {
        self.0 & PHASE
    }

    pub(crate) fn is_done(self) -> bool {
        self.phase() == DONE
    }

    pub(crate) fn is_queued(self) -> bool {
        self.phase() == QUEUED
    }

    pub(crate) fn is_running(self) -> bool {
        self.phase() == RUNNING
    }

    /// Whether the task came to an end by itself, and so left an outcome.
    pub(crate) fn has_outcome(self) -> bool {
        self.is_done() && matches!(self.verdict(), Some(Verdict::Completed | Verdict::Panicked))
    }

    /// Whether it is decided how the task ends.
    pub(crate) fn is_decided(self) -> bool {
        matches!(self.phase(), CLOSING | DONE)
    }

    pub(crate) fn is_started(self) -> bool {
        self.0 & STARTED != 0
    }

    pub(crate) fn has_ticket(self) -> bool {
        self.0 & TICKET != 0
    }

    pub(crate) fn has_sleeper(self) -> bool {
        self.0 & SLEEPER != 0
    }

    pub(crate) fn has_waker(self) -> bool {
        self.0 & WAKER != 0
    }

    pub(crate) fn references(self) -> u64 {
        self.0 >> REFERENCE_SHIFT
    }

    /// How it ended, or what was asked for while it ran.
    pub(crate) fn verdict(self) -> Option<Verdict> {
        Some(match (self.0 & VERDICT) >> VERDICT_SHIFT {
            1 => Verdict::Completed,
            2 => Verdict::Panicked,
            3 => Verdict::Cancelled,
            4 => Verdict::TimedOut,
            5 => Verdict::Expired,
            6 => Verdict::Abandoned,
            7 => Verdict::Dropped,
            _ => return None,
        })
    }

    fn to(self, phase: u64) -> Self {
        Self((self.0 & !PHASE) | phase)
    }

    fn judged(self, verdict: Verdict) -> Self {
        Self((self.0 & !VERDICT) | verdict.bits())
    }

    fn without(self, bits: u64) -> Self {
        Self(self.0 & !bits)
    }

    fn with(self, bits: u64) -> Self {
        Self(self.0 | bits)
    }

    fn less_one_reference(self) -> Self {
        Self(self.0 - REFERENCE)
    }

    /// Whether nobody but the ticket refers to it.
    fn only_its_ticket_is_left(self) -> bool {
        self.references() == u64::from(self.has_ticket())
    }

    /// A deadline that passes before the task began is another thing than one that passes later.
    fn verdict_of_deadline(self) -> Verdict {
        if self.is_started() { Verdict::TimedOut } else { Verdict::Expired }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.phase() {
            IDLE => "idle",
            QUEUED => "queued",
            RUNNING => "running",
            CLOSING => "closing",
            _ => "done",
        })
    }
}

/// What came of taking a task from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It is the caller's to run.
    Run,
    /// It is the caller's to close.
    Close,
    /// Somebody else has taken it.
    Stale,
}

/// What came of a future that is not ready yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspended {
    /// It sleeps. The caller's reference is gone.
    Idle,
    /// It was woken meanwhile, and the caller owes it to a queue.
    Again,
    /// It is the caller's to close.
    Close,
}

/// What came of ending a task from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It is the caller's to close. `queued`: an entry of some queue still refers to it.
    Close { queued: bool },
    /// It is decided, and the caller's to conclude; the body belongs to whoever runs it.
    Overtaken,
    /// It runs, and has been asked to stop.
    Asked,
    /// It had been decided before.
    TooLate,
}

/// What came of a wake-up that gives up its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The caller owes the task to a queue. The reference goes there.
    Queue,
    /// There was nothing to do. The reference is gone.
    Noted,
    /// There was nothing to do, and it was the last reference: the caller frees the task.
    Last,
}

/// What came of giving up a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Others are left.
    Kept,
    /// It was the last one: the caller frees the task.
    Last,
    /// Nobody else could wake it: the caller owes it to a queue, to be closed there. The reference goes there.
    Queue,
}

/// The word. See the head of the file.
pub(crate) struct State(AtomicU64);

impl State {
    /// A task on its way into a queue. The entry holds a reference, and so does the ticket if there is one.
    pub(crate) fn new(ticket: bool) -> Self {
        let ticket = if ticket { TICKET + REFERENCE } else { 0 };
        Self(AtomicU64::new(QUEUED + REFERENCE + ticket))
    }

    /// The word as it is or was a moment ago.
    pub(crate) fn look(&self) -> Snapshot {
        Snapshot(self.0.load(Relaxed))
    }

    /// Takes the step from what `next` is given to what it returns, as one change. `None` changes nothing.
    #[inline(always)]
    fn step(
        &self,
        order: crate::sync::Ordering,
        mut next: impl FnMut(Snapshot) -> Option<Snapshot>,
    ) -> Result<Snapshot, Snapshot> {
        let mut seen = self.look();
        loop {
            let Some(next) = next(seen) else { return Err(seen) };
            match self.0.compare_exchange_weak(seen.0, next.0, order, Relaxed) {
                Ok(_) => return Ok(seen),
                Err(now) => seen = Snapshot(now),
            }
        }
    }
}

/// Whoever runs it.
impl State {
    /// Takes the task from its queue, if it is still to be had. The queue has passed on the step that queued it, so a
    /// word that says something else was changed by somebody who was faster.
    #[inline]
    pub(crate) fn start(&self) -> Start {
        let taken = self.step(STATE_PASS.acquire(), |seen| match seen.phase() {
            QUEUED if seen.verdict().is_some() => Some(seen.to(CLOSING)),
            QUEUED => Some(seen.to(RUNNING).with(STARTED)),
            RUNNING if left_out("STATE_ONE_STARTS") => Some(seen),
            _ => None,
        });
        match taken {
            Ok(seen) if seen.verdict().is_some() => Start::Close,
            Ok(_) => Start::Run,
            Err(_) => Start::Stale,
        }
    }

    /// Leaves a future that is not ready yet to its wakers. `woke_itself`: it was woken by the very step that just
    /// ended, which needed no change of the word.
    #[inline]
    pub(crate) fn suspend(&self, woke_itself: bool) -> Suspended {
        let mut came_of_it = Suspended::Idle;
        let _ = self.step(STATE_PASS.release(), |seen| {
            let asleep = seen.to(IDLE).less_one_reference();
            let (next, came) = if seen.verdict().is_some() && !left_out("STATE_ASKED_IS_CLOSED") {
                (seen.to(CLOSING), Suspended::Close)
            } else if (woke_itself || seen.0 & WOKEN != 0) && !left_out("STATE_WOKEN_RUNS_AGAIN") {
                (seen.to(QUEUED).without(WOKEN), Suspended::Again)
            } else if asleep.only_its_ticket_is_left() && !left_out("STATE_ABANDONED_IS_CLOSED") {
                (seen.to(CLOSING).judged(Verdict::Abandoned), Suspended::Close)
            } else {
                (asleep, Suspended::Idle)
            };
            came_of_it = came;
            Some(next)
        });
        came_of_it
    }

    /// Decides how a running task ends, where a deadline might have decided before. Then the caller may conclude it.
    pub(crate) fn decide(&self, verdict: Verdict) -> bool {
        self.step(Relaxed, |seen| (seen.phase() == RUNNING).then(|| seen.to(CLOSING).judged(verdict))).is_ok()
    }

    /// Ends a running task that has no deadline, so that nobody else can. Unless the caller says that it keeps its
    /// reference, that is given up in the same step. If the word is no longer `seen`, nothing is done but to say so.
    #[inline]
    pub(crate) fn finish(&self, seen: Snapshot, verdict: Verdict, keep: bool) -> Result<(), Snapshot> {
        debug_assert!(seen.phase() == RUNNING, "only a running task can be finished");
        let next = seen.to(DONE).judged(verdict);
        let next = if keep { next } else { next.less_one_reference() };
        let order = acq_rel(&STATE_WAITER, &STATE_FINISH);
        self.0.compare_exchange_weak(seen.0, next.0, order, Relaxed).map(drop).map_err(Snapshot)
    }

    /// Ends a task that is closing. Returns the word as it was, which says who is to be told.
    pub(crate) fn conclude(&self) -> Snapshot {
        Snapshot(self.0.fetch_add(DONE - CLOSING, acq_rel(&STATE_WAITER, &STATE_FINISH)))
    }

    /// Whether the task has been asked to stop, or was ended under it.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        Snapshot(self.0.load(STATE_ASK.acquire())).verdict().is_some()
    }
}

/// Whoever ends it from outside.
impl State {
    /// Ends a task that waits, or asks one that runs to stop.
    pub(crate) fn cancel(&self) -> Stopped {
        self.stop(|seen| (seen.phase() != RUNNING).then_some(Verdict::Cancelled), Verdict::Cancelled)
    }

    /// As `cancel`, because its time is up. A running closure is overtaken; a future can be asked.
    pub(crate) fn deadline_passed(&self, is_future: bool) -> Stopped {
        let decides =
            |seen: Snapshot| (seen.phase() != RUNNING || !is_future).then(|| seen.verdict_of_deadline());
        self.stop(decides, Verdict::TimedOut)
    }

    /// `decides`: the verdict, if it can be given at once. `asks`: what is asked for otherwise.
    fn stop(&self, decides: impl Fn(Snapshot) -> Option<Verdict>, asks: Verdict) -> Stopped {
        // It receives what the task is made of, and gives to the task that notices.
        let taken = self.step(acq_rel(&STATE_PASS, &STATE_ASK), |seen| match decides(seen) {
            _ if seen.is_decided() => None,
            Some(verdict) => Some(seen.to(CLOSING).judged(verdict)),
            None if seen.verdict().is_some() => None,
            None => Some(seen.judged(asks)),
        });
        match taken {
            Ok(seen) if decides(seen).is_none() => Stopped::Asked,
            Ok(seen) if seen.phase() == RUNNING => Stopped::Overtaken,
            Ok(seen) => Stopped::Close { queued: seen.phase() == QUEUED },
            Err(seen) if seen.is_decided() => Stopped::TooLate,
            Err(_) => Stopped::Asked,
        }
    }

    /// Takes a task from its queue to close it unrun.
    pub(crate) fn discard(&self, verdict: Verdict) -> bool {
        self.close_queued(|_| verdict)
    }

    /// As `discard`, because its deadline has passed or cannot be met.
    pub(crate) fn discard_late(&self) -> bool {
        self.close_queued(Snapshot::verdict_of_deadline)
    }

    fn close_queued(&self, verdict: impl Fn(Snapshot) -> Verdict) -> bool {
        let next = |seen: Snapshot| seen.is_queued().then(|| seen.to(CLOSING).judged(verdict(seen)));
        self.step(STATE_PASS.acquire(), next).is_ok()
    }
}

/// Its wakers.
impl State {
    /// Wakes it. `true`: the caller owes it to a queue, with a reference that has been added for that.
    #[inline]
    pub(crate) fn wake_by_ref(&self) -> bool {
        let woken = self.step(STATE_PASS.release(), |seen| match seen.phase() {
            IDLE => Some(Snapshot(seen.to(QUEUED).0 + REFERENCE)),
            RUNNING => Some(seen.with(WOKEN)),
            // It will run anyway, but must see what the waker did: so the word is changed all the same.
            QUEUED if left_out("STATE_WAKE_TELLS_THE_QUEUED") => None,
            QUEUED => Some(seen),
            _ => None,
        });
        woken.is_ok_and(|seen| seen.phase() == IDLE)
    }

    /// Wakes it, and gives up the reference of the waker.
    #[inline]
    pub(crate) fn wake(&self) -> Woken {
        let woken = self.step(STATE_PASS.release(), |seen| match seen.phase() {
            IDLE => Some(seen.to(QUEUED)),
            RUNNING => Some(seen.with(WOKEN).less_one_reference()),
            QUEUED => Some(seen.less_one_reference()),
            _ => None,
        });
        match woken {
            Ok(seen) if seen.phase() == IDLE => Woken::Queue,
            // Whoever runs it, or its queue, has a reference, so this was not the last.
            Ok(_) => Woken::Noted,
            Err(_) => match self.release() {
                Released::Last => Woken::Last,
                _ => Woken::Noted,
            },
        }
    }
}

/// Its ticket.
impl State {
    /// Whether there is a result, or a reason why there is none.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.look_for_result().is_done()
    }

    /// The word; if it says done, the result is whole.
    #[inline]
    pub(crate) fn look_for_result(&self) -> Snapshot {
        Snapshot(self.0.load(STATE_FINISH.acquire()))
    }

    /// Asks to be called by the bell; `false` if the task is done. Each time it reads the newest word, so that one
    /// who was called finds out why.
    pub(crate) fn add_sleeper(&self) -> bool {
        let seen = Snapshot(self.0.fetch_or(SLEEPER, Relaxed));
        !seen.is_done() || left_out("STATE_SLEEP_UNLESS_DONE")
    }

    /// Passes the waker to whoever finishes the task; `false` if it is done, and the waker still the ticket's.
    pub(crate) fn add_waker(&self) -> bool {
        let may_wait = |seen: Snapshot| !seen.is_done() || left_out("STATE_WAIT_UNLESS_DONE");
        let next = |seen: Snapshot| may_wait(seen).then(|| seen.with(WAKER));
        self.step(STATE_WAITER.release(), next).is_ok()
    }

    /// Takes the waker back; `false` if there was none, or whoever finished the task has it.
    pub(crate) fn remove_waker(&self) -> bool {
        let next = |seen: Snapshot| (seen.has_waker() && !seen.is_done()).then(|| seen.without(WAKER));
        self.step(Relaxed, next).is_ok()
    }

    /// Gives up the ticket and its reference; `false` if the task is done, and the result still the ticket's.
    pub(crate) fn detach(&self) -> bool {
        let may_leave = |seen: Snapshot| !seen.is_done() || left_out("STATE_SECOND_DROPS_RESULT");
        let next = |seen: Snapshot| may_leave(seen).then(|| seen.without(TICKET).less_one_reference());
        self.step(STATE_REFERENCES.release(), next).is_ok()
    }
}

/// References.
impl State {
    pub(crate) fn add_reference(&self) {
        self.0.fetch_add(REFERENCE, Relaxed);
    }

    /// Gives up a reference that is not the ticket's, or the ticket's when its task is done.
    #[inline]
    pub(crate) fn release(&self) -> Released {
        // Whoever holds the only reference to what is done has nobody to tell.
        let seen = Snapshot(self.0.load(STATE_REFERENCES.acquire()));
        if seen.is_done() && seen.references() == 1 {
            return Released::Last;
        }
        let abandons = |seen: Snapshot| {
            seen.phase() == IDLE
                && seen.less_one_reference().only_its_ticket_is_left()
                && !left_out("STATE_LAST_WAKER_ENDS")
        };
        let left = self.step(STATE_REFERENCES.release(), |seen| {
            Some(if abandons(seen) {
                seen.to(QUEUED).judged(Verdict::Abandoned)
            } else {
                seen.less_one_reference()
            })
        });
        match left.unwrap_or_else(|seen| seen) {
            seen if abandons(seen) => Released::Queue,
            seen if seen.references() == 1 => {
                self.receive_references();
                Released::Last
            }
            _ => Released::Kept,
        }
    }

    /// Receives what all others did before they gave up their references.
    pub(crate) fn receive_references(&self) {
        self.0.load(STATE_REFERENCES.acquire());
    }
}
