//! `Task`: what travels through the queues. Seven words: what to do, and what to do it with.
//!
//! ```text
//!   ┌──────┬─────────────────────────────┐
//!   │ kind │ payload, six words          │   with the slot's turn word: one cache line of 64 bytes
//!   └──────┴─────────────────────────────┘
//! ```
//!
//! A closure of up to 48 bytes travels in the payload itself, so that nothing is allocated; that is where most of
//! the speed of `spawn` comes from, since memory that one core allocates and another frees costs more than all the
//! rest. A larger closure gets a block of memory (`block.rs`). A task with a ticket and an async task are a counted
//! pointer to their cell (`cell.rs`).
//!
//! Not here: what becomes of a panic's message (the cell's business); a plain closure has nobody to tell.

use crate::block::Block;
use crate::cell::TaskRef;
use crate::counters::Ending;
use crate::state::Verdict;
use millpond_queue::{Claimed, StealQueue};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Room for a closure, or for a pointer to it.
type Payload = [MaybeUninit<u64>; 6];

/// What to do with a payload.
struct Kind {
    /// Moves the work out of the payload, gives back the slot where it lies, if it lies in one, and runs it.
    run: unsafe fn(*mut Payload, Option<Claimed<'_, Task>>) -> Ran,
    /// Drops it unrun. The payload counts as moved out afterwards.
    discard: unsafe fn(*mut Payload, Verdict) -> Option<Task>,
    /// Tells it that it waits in the place of another.
    inherits: unsafe fn(*const Payload, &TaskRef),
    /// Whether it may not be dropped to make room.
    must_run: unsafe fn(*const Payload) -> bool,
    /// What it is a part of.
    part_of: unsafe fn(*const Payload) -> PartOf,
    counts_itself: bool,
}

/// What a task is a part of. Where not all can go on, these come before others that are to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOf {
    Nothing,
    /// It is a step of a future.
    Future,
    /// Somebody waits for it, who may be a task.
    Awaited,
    /// Of the scope whose state is at this address.
    Scope(usize),
    /// It has ended, and another may wait in its place.
    Ended,
}

/// What became of a task that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It came to its end.
    Completed,
    /// It panicked; the panic was caught.
    Panicked,
    /// It counts its end itself: it has done so, or will later.
    CountsItself {
        /// Whether it has come to its end by this run.
        ended: bool,
    },
}

impl Ran {
    /// What is to be counted.
    pub(crate) fn ending(self) -> Option<Ending> {
        match self {
            Self::Completed => Some(Ending::Completed),
            Self::Panicked => Some(Ending::Panicked),
            Self::CountsItself { .. } => None,
        }
    }

    /// Whether the task came to its end by this run.
    pub(crate) fn has_ended(self) -> bool {
        !matches!(self, Self::CountsItself { ended: false })
    }
}

/// A unit of work with its type forgotten. Dropping it drops what it holds, unrun.
pub(crate) struct Task {
    kind: &'static Kind,
    payload: Payload,
}

// SAFETY: every constructor asks for `Send` contents, and a task is used by one thread at a time.
unsafe impl Send for Task {}

/// A task that lies where it waited, or was moved once. It is seven words, and a small closure is two or three: to hand
/// the whole of it up from call to call would cost more than to find it.
pub(crate) struct InHand<'a> {
    /// Whole, and nobody else's while this lives.
    task: *mut Task,
    /// The slot it lies in, if it does.
    slot: Option<Claimed<'a, Task>>,
    place: PhantomData<&'a mut MaybeUninit<Task>>,
}

impl<'a> InHand<'a> {
    /// The oldest task of a worker's own queue, moved to `place`.
    #[inline(always)]
    pub(crate) fn from_own(own: &StealQueue<Task>, place: &'a mut MaybeUninit<Task>) -> Option<Self> {
        own.pop_oldest_into(place).then(|| Self { task: place.as_mut_ptr(), slot: None, place: PhantomData })
    }

    #[inline(always)]
    pub(crate) fn from_slot(claimed: Claimed<'a, Task>) -> Self {
        Self { task: claimed.as_ptr(), slot: Some(claimed), place: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn from_task(task: Task, place: &'a mut MaybeUninit<Task>) -> Self {
        Self { task: place.write(task), slot: None, place: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn take(self) -> Task {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: each `from_` has seen to it that a whole task is there, and nobody uses it there again, since `this`
        // is not dropped.
        let task = unsafe { this.task.read() };
        leave(this.slot.take());
        task
    }

    /// As [`Task::run`], from where it is.
    #[inline(always)]
    pub(crate) fn run(self) -> Ran {
        let mut this = ManuallyDrop::new(self);
        let slot = this.slot.take();
        // SAFETY: each `from_` has seen to it that a whole task is there, which is this one's alone.
        let kind = unsafe { (*this.task).kind };
        // SAFETY: as above. No reference is made: the slot will be another's before the task is over.
        let payload = unsafe { &raw mut (*this.task).payload };
        // SAFETY: `kind` was made with the payload, and nobody uses the task again, since `this` is not dropped. The
        // slot is the one it lies in.
        unsafe { (kind.run)(payload, slot) }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        // SAFETY: what uses the task up forgets this, so there is a whole one, and it is not used there again.
        let task = unsafe { self.task.read() };
        leave(self.slot.take());
        drop(task);
    }
}

/// Gives back the slot, if there is one, whose task has just been moved out.
#[inline(always)]
fn leave(slot: Option<Claimed<'_, Task>>) {
    if let Some(slot) = slot {
        slot.leave();
    }
}

/// Moves a task from its slot to the end of a worker's own queue, unless there is no room.
#[inline(always)]
pub(crate) fn move_to_own<'a>(
    claimed: Claimed<'a, Task>,
    own: &StealQueue<Task>,
) -> Result<(), Claimed<'a, Task>> {
    // SAFETY: what was claimed is a whole task, and moving it there uses the gate that it comes from, not the queue.
    unsafe { own.push_filled(claimed, |claimed, place| _ = place.write(claimed.take())) }
}

/// Work that is about to become a task, in its place in a queue. To hand seven words from call to call, and copy them
/// each time, took as long as all the rest.
pub(crate) struct Seed<R>(R);

impl<R: Run> Seed<R> {
    #[inline(always)]
    pub(crate) fn new(work: R) -> Self
    where
        R: 'static,
    {
        Self(work)
    }

    /// As `new`, for work that borrows.
    ///
    /// # Safety
    /// As for [`Task::borrowing`], if it becomes a task.
    #[inline(always)]
    pub(crate) unsafe fn borrowing(work: R) -> Self {
        Self(work)
    }

    #[inline(always)]
    pub(crate) fn into_task(self) -> Task {
        // SAFETY: whoever made the seed has vouched for the work.
        unsafe { Task::borrowing(self.0) }
    }

    pub(crate) fn into_work(self) -> R {
        self.0
    }

    /// Becomes a task at the end of a worker's own queue, unless there is no room, or the task would need a block.
    #[inline(always)]
    pub(crate) fn push_to(self, own: &StealQueue<Task>) -> Result<(), Self> {
        if !fits::<R>() {
            return Err(self);
        }
        // SAFETY: as the work fits into the task, to make the task is to move the work, which uses no queue.
        unsafe {
            own.push_filled(self, |seed, place| {
                place.write(seed.into_task());
            })
        }
    }
}

/// What a task may hold: something that runs once.
pub(crate) trait Run: Send {
    /// Whether it sees to its own counting when it is dropped unrun.
    const COUNTS_ITSELF: bool;

    /// Runs it. Does not unwind.
    fn run(self) -> Ran;

    /// It is about to wait in the place of `root`, which has ended.
    fn inherits(&self, _root: &TaskRef) {}

    /// Whether it may not be dropped to make room: it has been worked on before, or somebody counts on its run.
    fn must_run(&self) -> bool {
        false
    }

    /// What it is a part of.
    fn part_of(&self) -> PartOf {
        PartOf::Nothing
    }

    /// Drops it unrun. Does not unwind. Returns what had taken its place in the queue, if anything.
    fn discard(self, _why: Verdict) -> Option<Task>
    where
        Self: Sized,
    {
        drop_quietly(self);
        None
    }
}

impl Task {
    /// A task that runs `work`, which lives in the payload if it fits and in a block otherwise.
    #[inline(always)]
    pub(crate) fn new<R: Run + 'static>(work: R) -> Self {
        // SAFETY: `'static` contents may live as long as they like.
        unsafe { Self::borrowing(work) }
    }

    /// As `new`, for work that borrows.
    ///
    /// # Safety
    /// The task is run or dropped before anything that `work` borrows ends.
    #[inline(always)]
    pub(crate) unsafe fn borrowing<R: Run>(work: R) -> Self {
        let mut payload: Payload = [const { MaybeUninit::uninit() }; 6];
        let at = (&raw mut payload).cast::<R>();
        if fits::<R>() {
            // SAFETY: `fits` says that the payload is large enough and aligned enough for an `R`.
            unsafe { at.write(work) };
            return Self { kind: const { &inline_kind::<R>() }, payload };
        }
        // SAFETY: a block is one word, aligned like the payload's words.
        unsafe { at.cast::<Block<R>>().write(Block::new(work)) };
        Self { kind: const { &block_kind::<R>() }, payload }
    }

    /// Runs it. Does not unwind.
    #[inline(always)]
    pub(crate) fn run(self) -> Ran {
        let mut task = ManuallyDrop::new(self);
        // SAFETY: `kind` was made with the payload, and `ManuallyDrop` keeps it from being used again.
        unsafe { (task.kind.run)(&raw mut task.payload, None) }
    }

    /// Whether it sees to its own counting when it is dropped unrun.
    pub(crate) fn counts_itself(&self) -> bool {
        self.kind.counts_itself
    }

    /// Whether it may not be dropped to make room.
    pub(crate) fn must_run(&self) -> bool {
        // SAFETY: `kind` was made with the payload, which is whole and only looked at.
        unsafe { (self.kind.must_run)(&raw const self.payload) }
    }

    /// What it is a part of.
    #[inline]
    pub(crate) fn part_of(&self) -> PartOf {
        // SAFETY: `kind` was made with the payload, which is whole and only looked at.
        unsafe { (self.kind.part_of)(&raw const self.payload) }
    }

    /// It is about to wait in the place of `root`, which has ended.
    pub(crate) fn inherits(&self, root: &TaskRef) {
        // SAFETY: `kind` was made with the payload, which is whole and only looked at.
        unsafe { (self.kind.inherits)(&raw const self.payload, root) };
    }

    /// Drops it unrun. Does not unwind. Returns what had taken its place in the queue, if anything.
    pub(crate) fn discard(self, why: Verdict) -> Option<Self> {
        let mut task = ManuallyDrop::new(self);
        // SAFETY: `kind` was made with the payload, and `ManuallyDrop` keeps it from being used again.
        unsafe { (task.kind.discard)(&raw mut task.payload, why) }
    }

    /// Gives back what it was made of.
    ///
    /// # Safety
    /// The task was made of an `R`.
    pub(crate) unsafe fn into_inner<R: Run>(self) -> R {
        let mut task = ManuallyDrop::new(self);
        let at = (&raw mut task.payload).cast::<R>();
        if fits::<R>() {
            // SAFETY: by the caller's word there is an `R`, and as it fits it is in the payload itself.
            unsafe { at.read() }
        } else {
            // SAFETY: as above; as it does not fit, its block is in the payload.
            unsafe { at.cast::<Block<R>>().read() }.into_inner()
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: all that use the payload up forget the task, so it is whole; nobody uses it after this.
        drop(unsafe { (self.kind.discard)(&raw mut self.payload, Verdict::Cancelled) });
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

const fn fits<R>() -> bool {
    size_of::<R>() <= size_of::<Payload>() && align_of::<R>() <= align_of::<Payload>()
}

const fn inline_kind<R: Run>() -> Kind {
    /// # Safety
    /// There is an `R` in the payload, which nobody uses afterwards. The slot is the one it lies in, if it does.
    unsafe fn run<R: Run>(payload: *mut Payload, slot: Option<Claimed<'_, Task>>) -> Ran {
        // SAFETY: by the caller's word there is an `R`, and it is moved out once.
        let work = unsafe { payload.cast::<R>().read() };
        leave(slot);
        work.run()
    }
    /// # Safety
    /// There is an `R` in the payload, which nobody uses afterwards.
    unsafe fn discard<R: Run>(payload: *mut Payload, why: Verdict) -> Option<Task> {
        // SAFETY: by the caller's word there is an `R`, and it is moved out once.
        unsafe { payload.cast::<R>().read() }.discard(why)
    }
    /// # Safety
    /// There is an `R` in the payload.
    unsafe fn inherits<R: Run>(payload: *const Payload, root: &TaskRef) {
        // SAFETY: by the caller's word there is an `R`, which is only looked at.
        unsafe { &*payload.cast::<R>() }.inherits(root);
    }
    /// # Safety
    /// As for `inherits`.
    unsafe fn must_run<R: Run>(payload: *const Payload) -> bool {
        // SAFETY: by the caller's word there is an `R`, which is only looked at.
        unsafe { &*payload.cast::<R>() }.must_run()
    }
    /// # Safety
    /// As for `inherits`.
    unsafe fn part_of<R: Run>(payload: *const Payload) -> PartOf {
        // SAFETY: by the caller's word there is an `R`, which is only looked at.
        unsafe { &*payload.cast::<R>() }.part_of()
    }
    Kind {
        run: run::<R>,
        discard: discard::<R>,
        inherits: inherits::<R>,
        must_run: must_run::<R>,
        part_of: part_of::<R>,
        counts_itself: R::COUNTS_ITSELF,
    }
}

const fn block_kind<R: Run>() -> Kind {
    /// # Safety
    /// There is a `Block<R>` in the payload, which nobody uses afterwards. The slot is the one it lies in, if it does.
    unsafe fn run<R: Run>(payload: *mut Payload, slot: Option<Claimed<'_, Task>>) -> Ran {
        // SAFETY: by the caller's word there is a block of an `R`, and it is moved out once.
        let work = unsafe { payload.cast::<Block<R>>().read() };
        leave(slot);
        work.into_inner().run()
    }
    /// # Safety
    /// There is a `Block<R>` in the payload, which nobody uses afterwards.
    unsafe fn discard<R: Run>(payload: *mut Payload, why: Verdict) -> Option<Task> {
        // SAFETY: by the caller's word there is a block of an `R`, and it is moved out once.
        let work = unsafe { payload.cast::<Block<R>>().read() };
        work.into_inner().discard(why)
    }
    /// # Safety
    /// There is a `Block<R>` in the payload.
    unsafe fn inherits<R: Run>(payload: *const Payload, root: &TaskRef) {
        // SAFETY: by the caller's word there is a block of an `R`, which is only looked at.
        unsafe { &*payload.cast::<Block<R>>() }.inherits(root);
    }
    /// # Safety
    /// As for `inherits`.
    unsafe fn must_run<R: Run>(payload: *const Payload) -> bool {
        // SAFETY: by the caller's word there is a block of an `R`, which is only looked at.
        unsafe { &*payload.cast::<Block<R>>() }.must_run()
    }
    /// # Safety
    /// As for `inherits`.
    unsafe fn part_of<R: Run>(payload: *const Payload) -> PartOf {
        // SAFETY: by the caller's word there is a block of an `R`, which is only looked at.
        unsafe { &*payload.cast::<Block<R>>() }.part_of()
    }
    Kind {
        run: run::<R>,
        discard: discard::<R>,
        inherits: inherits::<R>,
        must_run: must_run::<R>,
        part_of: part_of::<R>,
        counts_itself: R::COUNTS_ITSELF,
    }
}

/// A closure that nobody waits for.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F: FnOnce() + Send> Run for Plain<F> {
    const COUNTS_ITSELF: bool = false;

    #[inline(always)]
    fn run(self) -> Ran {
        // What the closure leaves half done is its own: nobody sees it after the panic.
        match catch_unwind(AssertUnwindSafe(self.0)) {
            Ok(()) => Ran::Completed,
            Err(payload) => {
                drop_panic(payload);
                Ran::Panicked
            }
        }
    }
}

/// Drops a value of the user's whose `drop` may panic. A value that panics while it is dropped is not dropped again.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        drop_panic(payload);
    }
}

/// Drops what a panic carried. It may itself panic when dropped, and so may what that panic carried: after a few it
/// is leaked instead.
#[cold]
pub(crate) fn drop_panic(mut payload: Box<dyn Any + Send>) {
    for _ in 0..8 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_task_with_its_slot_is_one_cache_line() {
        assert_eq!(size_of::<Task>(), 56);
    }

    #[test]
    fn small_and_large_closures_run_once_and_are_dropped_once() {
        let witness = Arc::new(());
        let small = Arc::clone(&witness);
        let large = (Arc::clone(&witness), [0u64; 32]);
        assert_eq!(Task::new(Plain(move || drop(small))).run(), Ran::Completed);
        let task = Task::new(Plain(move || drop(large)));
        assert_eq!(Arc::strong_count(&witness), 2);
        assert_eq!(task.run(), Ran::Completed);
        assert_eq!(Arc::strong_count(&witness), 1);
        let unrun = (Arc::clone(&witness), [0u64; 32]);
        drop(Task::new(Plain(move || drop(unrun))));
        assert_eq!(Arc::strong_count(&witness), 1, "a task that is dropped drops its closure");
    }

    #[test]
    fn a_refused_task_gives_its_closure_back() {
        let words = [1u64, 2, 3, 4, 5, 6, 7];
        fn same<F: FnOnce() + Send>(task: Task, _like: &F) -> Plain<F> {
            // SAFETY: the callers below made the task of a `Plain<F>`.
            unsafe { task.into_inner() }
        }
        let sum = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let large = {
            let sum = Arc::clone(&sum);
            move || {
                sum.fetch_add(words.iter().sum(), std::sync::atomic::Ordering::Relaxed);
            }
        };
        let task = Task::new(Plain(large.clone()));
        same(task, &large).0();
        assert_eq!(sum.load(std::sync::atomic::Ordering::Relaxed), 28);
    }

    #[test]
    fn a_panic_whose_payload_panics_when_dropped_is_contained() {
        struct Spiteful;
        impl Drop for Spiteful {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new("again"));
            }
        }
        let task = Task::new(Plain(|| std::panic::resume_unwind(Box::new(Spiteful))));
        assert_eq!(task.run(), Ran::Panicked);
        let held = Spiteful;
        drop(Task::new(Plain(move || drop(held))));
    }
}
