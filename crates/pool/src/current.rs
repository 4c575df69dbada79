//! Which worker, if any, this thread is.
//!
//! A task that submits, joins or waits finds its worker here, so that no handle need be passed down. The worker sets
//! the pointer before its first task and clears it after its last, and lives on that thread's stack all the while.

use crate::shared::Shared;
use crate::worker::Worker;
use std::cell::Cell;
use std::ptr;
use std::time::Duration;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The worker this thread is, of whichever pool.
#[inline(always)]
pub(crate) fn worker<'a>() -> Option<&'a Worker> {
    let worker = CURRENT.get();
    // SAFETY: `enter` set the pointer, on this thread, to a worker that stays in place until `Entered` is dropped and
    // clears it again. The reference is used by code that the worker itself runs, that is, before that; it cannot
    // leave the thread, as `Worker` is not `Sync`.
    unsafe { worker.as_ref() }
}

/// The number of the worker that runs the caller, of whichever pool; none if the thread is no worker's.
///
/// ```
/// let pool = millpond::Pool::start(millpond::PoolConfig { workers: 1, ..Default::default() })?;
/// assert_eq!(pool.submit(millpond::current_worker)?.wait()?, Some(0));
/// assert_eq!(millpond::current_worker(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn current_worker() -> Option<usize> {
    worker().map(|worker| worker.number)
}

/// The worker this thread is, if it is one of this pool.
#[inline(always)]
pub(crate) fn worker_of<'a>(shared: &Shared) -> Option<&'a Worker> {
    worker().filter(|worker| worker.is_of(shared))
}

/// Runs `wait`, which waits for something. If this thread is a worker, of whichever pool, another stands in for it
/// meanwhile.
pub(crate) fn stand_still<R>(wait: impl FnOnce() -> R) -> R {
    match worker() {
        Some(worker) => worker.stand_still(wait),
        None => wait(),
    }
}

/// As `stand_still`, for one wait in a loop that looks again: it may be told to wait only so long, or not be called
/// at all because the worker had something to run, if it `may_run` that.
pub(crate) fn wait_once(may_run: bool, wait: impl FnOnce(Option<Duration>)) {
    match worker() {
        Some(worker) => worker.wait_once(may_run, wait),
        None => wait(None),
    }
}

/// Makes this thread the worker's, until the returned value is dropped.
pub(crate) fn enter(worker: &Worker) -> Entered<'_> {
    CURRENT.set(worker);
    Entered(worker)
}

pub(crate) struct Entered<'a>(&'a Worker);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        debug_assert!(ptr::eq(CURRENT.get(), self.0), "a thread is one worker at a time");
        CURRENT.set(ptr::null());
    }
}
