//! A cell as it is made, and the table by which one whose type is forgotten is used.
//!
//! Everything that knows what a cell is made of is here: making it, touching its body, asking its schedule, freeing
//! it. The others know its header, and that it is of the type its table was made for.

use super::{Claim, Details, Extras, Header, NOT_NOTED, TaskRef};
use crate::block::Block;
use crate::heir::Heir;
use crate::job::Job;
use crate::options::Priority;
use crate::schedule::{End, Schedule};
use crate::state::{State, Verdict};
use crate::sync::{AtomicPtr, AtomicU32, Ordering::Relaxed, UnsafeCell};
use crate::task::drop_quietly;
use crate::work::{Body, Outcome, Work};
use std::any::TypeId;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A cell as it is made. `repr(C)`: its address is that of its header.
#[repr(C)]
struct Cell<S, W: Work> {
    header: Header,
    /// Taken out when the cell is freed.
    schedule: ManuallyDrop<S>,
    body: UnsafeCell<Body<W>>,
}

/// As `Schedule::wait_once`.
type WaitOnce = unsafe fn(NonNull<Header>, bool, &mut dyn FnMut(Option<Duration>));

/// What to do with a cell whose type is forgotten. Each is called with a live cell of the type it was made for.
pub(super) struct Table {
    pub(super) is_future: bool,
    pub(super) type_id: fn() -> TypeId,
    /// The first three touch the body, so the caller must own it.
    pub(super) step: unsafe fn(NonNull<Header>, &Waker) -> Poll<Verdict>,
    pub(super) clear: unsafe fn(NonNull<Header>),
    /// Writes an `Option<Outcome<T>>`.
    pub(super) take: unsafe fn(NonNull<Header>, *mut ()),
    pub(super) free: unsafe fn(NonNull<Header>),
    pub(super) queue: unsafe fn(NonNull<Header>, Job),
    pub(super) queue_inside: fn(Job),
    pub(super) waits: unsafe fn(NonNull<Header>, &TaskRef),
    pub(super) ended: unsafe fn(NonNull<Header>, End),
    pub(super) entry_left: unsafe fn(NonNull<Header>, Priority),
    pub(super) wait_once: WaitOnce,
    pub(super) spin: unsafe fn(NonNull<Header>) -> Duration,
    pub(super) stops: unsafe fn(NonNull<Header>) -> bool,
    pub(super) is_inside: unsafe fn(NonNull<Header>) -> bool,
    pub(super) watch: unsafe fn(NonNull<Header>, Instant, TaskRef),
    pub(super) unwatch: unsafe fn(NonNull<Header>, Instant, &TaskRef),
}

/// Makes a cell, with one reference for a job, and if it is `claimed` one for a claim.
fn allocate<S: Schedule, W: Work>(schedule: S, details: Details, work: W, claimed: bool) -> NonNull<Header> {
    let plain = details.is_plain();
    let Details { name, priority, due, expected } = details;
    let header = Header {
        state: State::new(claimed),
        waiter: UnsafeCell::new(None),
        bell: AtomicU32::new(0),
        heir: Heir::new(),
        root: AtomicPtr::new(std::ptr::null_mut()),
        place: AtomicU32::new(NOT_NOTED),
        priority,
        table: const { &table::<S, W>() },
        extras: if plain { None } else { Some(Box::new(Extras { name, due, expected })) },
    };
    let schedule = ManuallyDrop::new(schedule);
    Block::new(Cell { header, schedule, body: UnsafeCell::new(Body::Work(work)) }).into_raw().cast()
}

/// A task on its way into a queue, and the claim on its result.
pub(crate) fn claimed<S: Schedule, W: Work>(
    schedule: S,
    details: Details,
    work: W,
) -> (Job, Claim<W::Output>) {
    let cell = allocate(schedule, details, work, true);
    // SAFETY: the cell is made for this work, whose output is asked to be `Send`, and counts a ticket.
    let claim = unsafe { Claim::new(TaskRef(cell)) };
    (Job::new(TaskRef(cell)), claim)
}

/// A task on its way into a queue, whose result nobody wants.
pub(crate) fn detached<S: Schedule, W: Work>(schedule: S, details: Details, work: W) -> Job {
    Job::new(TaskRef(allocate(schedule, details, work, false)))
}

impl TaskRef {
    /// Takes the task from its queue, for the holder of the entry, and its work out of it. It counts as never taken
    /// in. `None` if it is of another type, or somebody else has it.
    pub(crate) fn take_work<S: Schedule, W: Work>(self) -> Option<W> {
        let is_of_type = (self.table().type_id)() == TypeId::of::<Cell<S, W>>();
        if !is_of_type || self.look().is_started() || !self.state().discard(Verdict::Cancelled) {
            return None;
        }
        // SAFETY: the type was compared, so there is a `Cell<S, W>`, which lives while this reference does.
        let cell = unsafe { self.0.cast::<Cell<S, W>>().as_ref() };
        // SAFETY: `discard` made the body this thread's, and nobody else's.
        let work = cell.body.with_mut(|body| unsafe { &mut *body }.take_work());
        self.tell(self.state().conclude());
        work
    }
}

const fn table<S: Schedule, W: Work>() -> Table {
    Table {
        is_future: W::IS_FUTURE,
        type_id: TypeId::of::<Cell<S, W>>,
        step: step::<S, W>,
        clear: clear::<S, W>,
        take: take::<S, W>,
        free: free::<S, W>,
        queue: |cell, job| {
            // SAFETY: the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.queue(job);
        },
        queue_inside: S::queue_inside,
        waits: |cell, task| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.waits(task);
        },
        ended: |cell, end| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.ended(end);
        },
        entry_left: |cell, priority| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.entry_left(cell.as_ptr().expose_provenance(), priority);
        },
        wait_once: |cell, may_run, wait| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.wait_once(may_run, wait);
        },
        spin: |cell| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.spin()
        },
        stops: |cell| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.stops()
        },
        is_inside: |cell| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.is_inside()
        },
        watch: |cell, due, task| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.watch(due, task);
        },
        unwatch: |cell, due, task| {
            // SAFETY: as above, the caller of the table has a live cell of this type.
            unsafe { schedule::<S, W>(&cell) }.unwatch(due, task);
        },
    }
}

/// # Safety
/// There is a live `Cell<S, W>`, for as long as the reference is used.
unsafe fn schedule<S, W: Work>(cell: &NonNull<Header>) -> &S {
    // SAFETY: by the caller's word; the schedule is only ever shared.
    unsafe { &(*cell.cast::<Cell<S, W>>().as_ptr()).schedule }
}

/// # Safety
/// There is a live `Cell<S, W>`, whose body is the caller's.
unsafe fn step<S, W: Work>(cell: NonNull<Header>, waker: &Waker) -> Poll<Verdict> {
    // SAFETY: by the caller's word there is a live cell of this type.
    let cell = unsafe { cell.cast::<Cell<S, W>>().as_ref() };
    // SAFETY: by the caller's word nobody else touches the body.
    cell.body.with_mut(|body| W::step(unsafe { &mut *body }, waker))
}

/// # Safety
/// There is a live `Cell<S, W>`, whose body is the caller's.
unsafe fn clear<S, W: Work>(cell: NonNull<Header>) {
    // SAFETY: by the caller's word there is a live cell of this type.
    let cell = unsafe { cell.cast::<Cell<S, W>>().as_ref() };
    // SAFETY: by the caller's word nobody else touches the body.
    cell.body.with_mut(|body| unsafe { &mut *body }.clear());
}

/// # Safety
/// There is a live `Cell<S, W>`, whose body is the caller's; `to` points to an `Option<Outcome<W::Output>>`.
unsafe fn take<S, W: Work>(cell: NonNull<Header>, to: *mut ()) {
    // SAFETY: by the caller's word there is a live cell of this type.
    let cell = unsafe { cell.cast::<Cell<S, W>>().as_ref() };
    // SAFETY: by the caller's word nobody else touches the body.
    let outcome = cell.body.with_mut(|body| unsafe { &mut *body }.take_outcome());
    // SAFETY: by the caller's word. What was there is `None` and needs no drop.
    unsafe { to.cast::<Option<Outcome<W::Output>>>().write(outcome) };
}

/// # Safety
/// There is a live `Cell<S, W>`, and nobody uses it any more.
unsafe fn free<S: Schedule, W: Work>(cell: NonNull<Header>) {
    // SAFETY: `allocate` made it from a block, and by the caller's word this is the end of it.
    let mut cell = unsafe { Block::from_raw(cell.cast::<Cell<S, W>>()) };
    // Touched as the others do, so that the checkers see whether they were all done.
    // SAFETY: the cell is this function's own, and nobody else's.
    cell.body.with_mut(|body| unsafe { &mut *body }.clear());
    // SAFETY: as above, the cell is this function's own.
    let waiter = cell.header.waiter.with_mut(|waiter| unsafe { &mut *waiter }.take());
    if waiter.is_some() {
        drop_quietly(waiter);
    }
    if let Some(root) = NonNull::new(cell.header.root.load(Relaxed)) {
        // SAFETY: it came from `set_root` with a reference of its own, and nobody has taken it since.
        drop(unsafe { TaskRef::from_raw(root) });
    }
    // SAFETY: nobody uses the schedule of this cell after this.
    let schedule = unsafe { ManuallyDrop::take(&mut cell.schedule) };
    drop(cell);
    // Last, as it may be all that keeps the pool.
    schedule.let_go();
}
