//! The cell: the one heap allocation a task lives in, from submit to result, and the tokens that say who may do what.
//!
//! ```text
//!   ┌──────────────────────────────────────────────────┬──────────┬──────────────────────────────┐
//!   │ header: state, waiter, bell, heir, table, extras │ schedule │ body: work, outcome or empty │
//!   └──────────────────────────────────────────────────┴──────────┴──────────────────────────────┘
//!     ▲ one word points here: the entry of a queue, the ticket, each waker, the timer; all are counted
//! ```
//!
//! What a thread may do with a cell it shows by what it holds: [`TaskRef`] may look and ask, [`Running`] and
//! [`Closing`] own the body, [`Claim`] owns the outcome once the task is done. Each is made only where the state word
//! was seen to say so. All the unsafe code about cells rests on that, and is in this file and the folder beside it.
//!
//! Field by field: `state`, `bell` and `heir` are for any thread. `waiter` is the ticket's while the waker bit is
//! unset, and from then on that of whoever finishes the task, unless the ticket takes it back first. The body is
//! that of the one `Running` or `Closing`, then of the `Claim`, if there is one. All else is written once, before
//! anybody else knows of the cell.
//!
//! Not here: the word itself (`state.rs`), what a body is (`work.rs`), running and closing (`cell/running.rs`).

mod claim;
mod running;
mod table;

pub(crate) use claim::Claim;
pub(crate) use running::{Begun, Closing, Running};
pub(crate) use table::{claimed, detached};

use crate::edge::left_out;
use crate::error::CancelAnswer;
use crate::futex::{self, Scope};
use crate::heir::Heir;
use crate::job::Job;
use crate::options::Priority;
use crate::schedule::End;
use crate::state::{Released, Snapshot, Start, State, Stopped, Verdict, Woken};
use crate::sync::{AtomicPtr, AtomicU32, Ordering::Relaxed, UnsafeCell};
use crate::task::{Task, drop_quietly};
use crate::token;
use running::Holds;
use std::borrow::Cow;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::task::Waker;
use std::time::{Duration, Instant};
use table::Table;

/// What a caller said about a task.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) priority: Priority,
    pub(crate) due: Option<Instant>,
    pub(crate) expected: Option<Duration>,
}

impl Details {
    /// Whether a closure needs no cell to keep them.
    pub(crate) fn is_plain(&self) -> bool {
        self.name.is_none() && self.due.is_none() && self.expected.is_none()
    }
}

/// What few tasks have, so that the others need no room for it.
struct Extras {
    name: Option<Cow<'static, str>>,
    due: Option<Instant>,
    expected: Option<Duration>,
}

/// The place of a future that is in no book (`futures.rs`).
pub(crate) const NOT_NOTED: u32 = u32::MAX;

/// What all cells begin with.
pub(crate) struct Header {
    state: State,
    /// Who is told when the task is done.
    waiter: UnsafeCell<Option<Waker>>,
    /// Rung when the task is done and somebody sleeps.
    bell: AtomicU32,
    /// Who takes its place in the queue, should it end there.
    heir: Heir,
    /// A counted reference to the one in whose place it waits, if it does. Written before it is appointed, taken by
    /// whoever ends it or frees it.
    root: AtomicPtr<Header>,
    /// Where a future that has waited is noted (`futures.rs`); written by whoever runs it.
    place: AtomicU32,
    priority: Priority,
    table: &'static Table,
    extras: Option<Box<Extras>>,
}

/// A counted reference to a task: to look, to ask, to wake.
pub(crate) struct TaskRef(NonNull<Header>);

// SAFETY: what a reference lets one touch is atomic, or was written before the cell was shared, or is used by whoever
// the state word names, one at a time. Work, outcome and schedule are `Send`, and the schedule `Sync`, by the bounds
// of `allocate`.
unsafe impl Send for TaskRef {}
// SAFETY: as above; every method for a shared reference is for any number of threads.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    fn header(&self) -> &Header {
        // SAFETY: the reference is counted, so the cell lives. The header is only ever shared: what changes in it is
        // atomic or in a cell of its own.
        unsafe { self.0.as_ref() }
    }

    fn state(&self) -> &State {
        &self.header().state
    }

    fn table(&self) -> &'static Table {
        self.header().table
    }

    pub(crate) fn look(&self) -> Snapshot {
        self.state().look()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.header().extras.as_ref()?.name.as_deref()
    }

    pub(crate) fn priority(&self) -> Priority {
        self.header().priority
    }

    pub(crate) fn place(&self) -> u32 {
        self.header().place.load(Relaxed)
    }

    pub(crate) fn set_place(&self, place: u32) {
        self.header().place.store(place, Relaxed);
    }

    pub(crate) fn set_root(&self, root: Self) {
        drop(self.replace_root(ManuallyDrop::new(root).0.as_ptr()));
    }

    pub(crate) fn take_root(&self) -> Option<Self> {
        self.replace_root(std::ptr::null_mut())
    }

    fn replace_root(&self, root: *mut Header) -> Option<Self> {
        // Who may end the task learnt of it after the root was set, by the edge through which it learnt.
        let before = self.header().root.swap(root, Relaxed);
        // SAFETY: what was there came from `set_root`, with a reference of its own, which the swap gave to this thread.
        NonNull::new(before).map(|before| unsafe { Self::from_raw(before) })
    }

    pub(crate) fn heir(&self) -> &Heir {
        &self.header().heir
    }

    /// Its entry has been taken out of its queue and found stale. Returns who took its place.
    fn entry_left(&self) -> Option<Task> {
        let heir = self.heir().leave();
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.table().entry_left)(self.0, self.priority()) };
        heir
    }

    /// When it must be done.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        self.header().extras.as_ref()?.due
    }

    pub(crate) fn is_future(&self) -> bool {
        self.table().is_future
    }

    pub(crate) fn is_asked_to_stop(&self) -> bool {
        // SAFETY: the cell lives and is of the type its table was made for.
        self.state().is_asked_to_stop() || unsafe { (self.table().stops)(self.0) }
    }

    /// Tells this task from all others that live.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// One more reference to the task of this address.
    ///
    /// # Safety
    /// It is that of a cell which lives, and goes on living while this is called.
    pub(crate) unsafe fn from_address(address: usize) -> Self {
        let header = std::ptr::with_exposed_provenance_mut::<Header>(address);
        let task = Self(NonNull::new(header).expect("no cell is at address zero"));
        task.state().add_reference();
        task
    }

    /// Ends it if it waits, asks it to stop if it runs.
    pub(crate) fn cancel(&self) -> CancelAnswer {
        match self.state().cancel() {
            Stopped::Close { queued } => {
                Closing { task: self.clone(), holds: Holds::Work, left_in_queue: queued }.conclude();
                CancelAnswer::Cancelled
            }
            Stopped::Asked => CancelAnswer::Requested,
            Stopped::TooLate | Stopped::Overtaken => CancelAnswer::TooLate,
        }
    }

    /// Ends it because its time is up. A future that runs ends when it next waits; a closure that runs goes on, but
    /// its ticket is told at once.
    pub(crate) fn deadline_passed(&self) {
        let (holds, left_in_queue) = match self.state().deadline_passed(self.is_future()) {
            Stopped::Close { queued } => (Holds::Work, queued),
            Stopped::Overtaken => (Holds::Nothing, false),
            Stopped::Asked | Stopped::TooLate => return,
        };
        Closing { task: self.clone(), holds, left_in_queue }.conclude();
    }

    /// Has its deadline noticed, if it has one. Called when it has been taken in; if it has ended since then, this is
    /// undone.
    pub(crate) fn watch(&self) {
        let Some(due) = self.due() else { return };
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.table().watch)(self.0, due, self.clone()) };
        if self.look().is_decided() && !left_out("CELL_WATCH_LOOKS_AGAIN") {
            self.unwatch();
        }
    }

    fn unwatch(&self) {
        let Some(due) = self.due() else { return };
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.table().unwatch)(self.0, due, self) };
    }

    fn ended(&self, verdict: Verdict, left_in_queue: bool) {
        let (address, place, is_future) = (self.address(), self.place(), self.is_future());
        let end = End { address, place, ending: verdict.ending(), is_future, left_in_queue };
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.table().ended)(self.0, end) };
    }

    pub(crate) fn is_inside(&self) -> bool {
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.table().is_inside)(self.0) }
    }

    /// Whether it is too late to begin: its deadline has passed, or would before it is done.
    #[cold]
    fn is_late(&self, due: Instant) -> bool {
        let expected = self.header().extras.as_ref().and_then(|extras| extras.expected);
        let expected = expected.filter(|_| !self.look().is_started()).unwrap_or_default();
        Instant::now().checked_add(expected).is_none_or(|done| done > due)
    }

    /// Takes the task from its queue, for the holder of the entry (`popped`) or for somebody else.
    #[inline]
    pub(crate) fn begin(self, popped: bool) -> Begun {
        let left_in_queue = !popped;
        let stale = |task: &Self| Begun::Stale(if popped { task.entry_left() } else { None });
        if let Some(due) = self.due()
            && self.is_late(due)
        {
            if self.state().discard_late() {
                return Begun::Close(Closing { task: self, holds: Holds::Work, left_in_queue });
            }
            return stale(&self);
        }
        match self.state().start() {
            Start::Run => Begun::Run(Running { task: self, left_in_queue }),
            Start::Close => Begun::Close(Closing { task: self, holds: Holds::Work, left_in_queue }),
            Start::Stale => stale(&self),
        }
    }

    /// Takes the task from its queue, for the holder of the entry, to end it unrun. If it is stale, it returns who
    /// took its place.
    pub(crate) fn discard(self, verdict: Verdict) -> Option<Task> {
        if !self.state().discard(verdict) {
            return self.entry_left();
        }
        Closing { task: self, holds: Holds::Work, left_in_queue: false }.conclude();
        None
    }

    /// Tells whoever waits that the task is done. `seen` is the word as the last step found it.
    fn tell(&self, seen: Snapshot) {
        if seen.has_sleeper() {
            // Rung before it is heard: one who is about to sleep sees that, and does not.
            if !left_out("CELL_BELL_IS_RUNG") {
                self.header().bell.store(1, Relaxed);
            }
            futex::wake(&self.header().bell, 1, Scope::Private);
        }
        if seen.has_waker() {
            // SAFETY: the bit was set when the task became done, so the ticket has passed the waiter on to the one
            // who took that step, and never touches it again.
            let waker = self.header().waiter.with_mut(|waiter| unsafe { &mut *waiter }.take());
            // A waker is the user's and may panic.
            drop_quietly(CallOnDrop(waker));
        }
    }

    /// Wakes the task, with the reference of a waker.
    pub(crate) fn wake(self) {
        if !self.is_inside() {
            // Somebody has to keep the schedule while it queues the task.
            return self.wake_by_ref();
        }
        let table = self.table();
        match self.state().wake() {
            Woken::Queue => (table.queue_inside)(Job::new(self)),
            Woken::Noted => mem::forget(self),
            Woken::Last => ManuallyDrop::new(self).free(),
        }
    }

    pub(crate) fn wake_by_ref(&self) {
        // One that wakes itself while it runs, as one does that gives way: whoever runs it is this thread.
        if token::note_own_wake(self.0) {
            return;
        }
        if self.state().wake_by_ref() {
            // The reference was added by the step.
            self.queue(Job::new(Self(self.0)));
        }
    }

    /// Queues `job`, which is this task, while this reference keeps the schedule.
    pub(crate) fn queue(&self, job: Job) {
        if self.is_inside() {
            (self.table().queue_inside)(job);
        } else {
            // SAFETY: the cell lives and is of the type its table was made for.
            unsafe { (self.table().queue)(self.0, job) };
        }
    }

    /// Frees the cell. The caller's was the last reference.
    #[inline]
    fn free(&self) {
        // SAFETY: the state word said that there is no other reference, and this one is never used again: both
        // callers have it in a `ManuallyDrop` or are dropping it.
        unsafe { (self.table().free)(self.0) };
    }

    /// The reference as one word, for a waker or for this thread to remember.
    pub(crate) fn as_raw(&self) -> NonNull<Header> {
        self.0
    }

    /// The reference that was `as_raw`.
    ///
    /// # Safety
    /// The reference behind the word is given to the new one, or the new one is never dropped and not used for longer
    /// than it lives.
    pub(crate) unsafe fn from_raw(raw: NonNull<Header>) -> Self {
        Self(raw)
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.state().add_reference();
        Self(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        match self.state().release() {
            Released::Kept => {}
            Released::Last => self.free(),
            Released::Queue => {
                // The reference goes to the queue; another keeps the schedule meanwhile.
                let keeper = self.clone();
                keeper.queue(Job::new(Self(self.0)));
            }
        }
    }
}

/// Wakes when dropped, so that `drop_quietly` catches what that may raise.
struct CallOnDrop(Option<Waker>);

impl Drop for CallOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}
