//! Which task this thread runs, so that a task can ask whether it is wanted any longer.
//!
//! A closure cannot be stopped from outside. One that takes long asks [`is_cancelled`] now and then and returns
//! early; code that has work done elsewhere takes a [`CancelToken`] along.

use crate::cell::{Header, TaskRef};
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    static CURRENT: Cell<Option<NonNull<Header>>> = const { Cell::new(None) };
    /// Whether it is a part of that task, as half a join is.
    static IS_PART: Cell<bool> = const { Cell::new(false) };
    /// Whether that task woke itself on this thread since it was entered.
    static WOKE_ITSELF: Cell<bool> = const { Cell::new(false) };
    /// Whether something in it asked for others to come first.
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

#[cfg(any(loom, shuttle))]
crate::sync::thread_local! {
    static CURRENT: Cell<Option<NonNull<Header>>> = Cell::new(None);
    static IS_PART: Cell<bool> = Cell::new(false);
    static WOKE_ITSELF: Cell<bool> = Cell::new(false);
    static GAVE_WAY: Cell<bool> = Cell::new(false);
}

/// Whether the task that this thread runs has been cancelled, is past its deadline, or its pool has been stopped.
/// `false` outside of tasks.
///
/// For a closure that returns early what it returns is its result, unless its deadline has passed; for a future it
/// is enough to wait for something.
///
/// A closure spawned without a ticket and without options cannot be cancelled; it is told of a stop only.
pub fn is_cancelled() -> bool {
    with_current(|task| task.is_some_and(TaskRef::is_asked_to_stop)) || pool_stops()
}

/// Whether this thread is a worker whose pool has been stopped, which asks every task to end.
#[cfg(not(any(loom, shuttle)))]
fn pool_stops() -> bool {
    crate::current::worker()
        .is_some_and(|worker| worker.shared.attention() & crate::shared::attention::STOPPING != 0)
}

#[cfg(any(loom, shuttle))]
fn pool_stops() -> bool {
    false
}

/// Whether this thread may begin the very task it waits for. If it is a worker, its pool is not paused, there is room
/// on its stack, and nobody else would, if it should rather not.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn may_begin_awaited(rather_not: bool) -> bool {
    use crate::{shared::attention, stack::OnTop};
    crate::current::worker().is_none_or(|worker| {
        worker.shared.attention() & attention::PAUSED == 0
            && worker.stack.has_room(OnTop::Awaited)
            && (!rather_not || worker.is_at_a_stand())
    })
}

#[cfg(any(loom, shuttle))]
pub(crate) fn may_begin_awaited(rather_not: bool) -> bool {
    !rather_not
}

/// Tells whether one task has been cancelled, also on threads that do not run it.
#[derive(Clone)]
pub struct CancelToken(TaskRef);

impl CancelToken {
    /// The token of the task that this thread runs; `None` outside of tasks.
    pub fn current() -> Option<Self> {
        with_current(|task| task.cloned().map(Self))
    }

    /// Whether the task has been cancelled, is past its deadline, or has ended.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_asked_to_stop()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// Makes `task` the one this thread runs, until the returned value is dropped. Then it is the one before.
#[inline(always)]
pub(crate) fn enter(task: &TaskRef) -> Entered<'_> {
    let before = CURRENT.with(|current| current.replace(Some(task.as_raw())));
    Entered {
        before,
        before_woke_itself: WOKE_ITSELF.with(|woke| woke.replace(false)),
        before_gave_way: GAVE_WAY.with(|gave_way| gave_way.replace(false)),
        _task: task,
    }
}

pub(crate) struct Entered<'a> {
    before: Option<NonNull<Header>>,
    before_woke_itself: bool,
    before_gave_way: bool,
    _task: &'a TaskRef,
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.before));
        WOKE_ITSELF.with(|woke| woke.set(self.before_woke_itself));
        GAVE_WAY.with(|gave_way| gave_way.set(self.before_gave_way));
    }
}

impl Entered<'_> {
    /// Whether the task woke itself on this thread since it was entered.
    #[inline(always)]
    pub(crate) fn woke_itself(&self) -> bool {
        WOKE_ITSELF.with(Cell::get)
    }

    /// Whether it woke itself and did not ask for others to come first. If so, that wake-up is forgotten: the caller
    /// answers it by the next step.
    #[inline(always)]
    pub(crate) fn goes_on(&self) -> bool {
        !GAVE_WAY.with(Cell::get) && WOKE_ITSELF.with(|woke| woke.replace(false))
    }
}

/// Notes that something in the task this thread runs asks for others to come first.
pub(crate) fn note_giving_way() {
    GAVE_WAY.with(|gave_way| gave_way.set(true));
}

/// Notes that `task` was woken, if it is the one this thread runs and a future; `false` if it is not.
#[inline(always)]
pub(crate) fn note_own_wake(task: NonNull<Header>) -> bool {
    let own = CURRENT.with(Cell::get) == Some(task) && !IS_PART.with(Cell::get);
    if own {
        WOKE_ITSELF.with(|woke| woke.set(true));
    }
    own
}

/// Makes this thread run for the task of `token`, until the returned value is dropped: a part of it.
pub(crate) fn run_for(token: Option<&CancelToken>) -> Left {
    let task = CURRENT.with(|current| current.replace(token.map(|token| token.0.as_raw())));
    Left { task, was_part: IS_PART.with(|part| part.replace(true)) }
}

/// Makes this thread run no task that could ask, until the returned value is dropped.
pub(crate) fn leave() -> Left {
    run_for(None)
}

pub(crate) struct Left {
    task: Option<NonNull<Header>>,
    was_part: bool,
}

impl Drop for Left {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.task));
        IS_PART.with(|part| part.set(self.was_part));
    }
}

/// Which future this thread runs, or a part of, as a name.
pub(crate) fn current_future() -> Option<usize> {
    current().filter(|_| runs_for_future()).map(|future| future.addr().get())
}

fn runs_for_future() -> bool {
    with_current(|task| task.is_some_and(TaskRef::is_future))
}

/// Whether what this thread runs is a future, and not a part of one that may go on for long.
pub(crate) fn runs_future() -> bool {
    !IS_PART.with(Cell::get) && runs_for_future()
}

/// Which task this thread runs, as a name.
pub(crate) fn current() -> Option<NonNull<Header>> {
    CURRENT.with(Cell::get)
}

fn with_current<R>(use_it: impl FnOnce(Option<&TaskRef>) -> R) -> R {
    let current = CURRENT.with(Cell::get).map(|raw| {
        // SAFETY: whoever runs the task holds the reference for as long as it is current, and this is called from
        // inside that run. The copy is not dropped, so the count stays right.
        ManuallyDrop::new(unsafe { TaskRef::from_raw(raw) })
    });
    use_it(current.as_deref())
}
