//! Callbacks: one thread of a pool's own that tells C how tasks ended, one after the other.
//!
//! They do not run where tasks end, because a callback may take its time, and tasks end on workers, on the
//! timer and wherever somebody cancels. How many may be under way is limited like tasks are; more are refused
//! when they are submitted, so that slow callbacks hold back their own tasks and nothing else.
//!
//! Not here: results (`result.rs`).

use crate::border::wrong;
use crate::result::{OwnedResult, free_unless_freed, result_t};
use millpond_tasks::{ErrorCode, TaskFailure};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A function of C, and what it wants to be given again.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(crate) function: unsafe extern "C" fn(result: *mut result_t, user_data: *mut c_void),
    pub(crate) user_data: *mut c_void,
}

// SAFETY: the pointer is only handed back to the function, on another thread, as the header says.
unsafe impl Send for Callback {}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Callback, OwnedResult)>,
    /// Submitted, and their callback has not returned.
    under_way: usize,
    is_closed: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The callbacks of one pool.
#[derive(Clone, Default)]
pub(crate) struct Callbacks(Arc<Shared>);

thread_local! {
    /// Which pool's callbacks this thread runs; 0 for none.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

/// Whether this is the thread that runs the callbacks of a pool.
pub(crate) fn is_thread_of(pool: usize) -> bool {
    POOL.try_with(Cell::get).is_ok_and(|number| number == pool)
}

impl Callbacks {
    /// A place for one more, in the pool of this number. It is given back by [`give_back`](Self::give_back),
    /// or when the callback has returned.
    pub(crate) fn take_place(&self, pool: usize, under_way_max: usize) -> Result<(), TaskFailure> {
        let mut queue = self.lock();
        if queue.is_closed {
            return Err(TaskFailure::new(
                ErrorCode::Draining,
                "the pool is shut down and takes no more tasks",
            ));
        }
        if queue.under_way >= under_way_max {
            let message =
                format!("{under_way_max} callbacks are under way; let some return, or raise tasks_max");
            return Err(TaskFailure::new(ErrorCode::QueueFull, message));
        }
        if queue.thread.is_none() {
            let shared = Arc::clone(&self.0);
            let name = "millpond-calls".to_owned();
            let thread = thread::Builder::new().name(name).spawn(move || {
                POOL.set(pool);
                shared.run();
            });
            let failed = |error| wrong(format!("the thread for callbacks could not be started: {error}"));
            queue.thread = Some(thread.map_err(failed)?);
        }
        queue.under_way += 1;
        Ok(())
    }

    /// The task was refused after all.
    pub(crate) fn give_back(&self) {
        self.lock().under_way -= 1;
        // Whoever waits for the last of them must hear of it.
        self.0.changed.notify_all();
    }

    /// A task has ended: its callback will be called.
    pub(crate) fn call(&self, callback: Callback, result: OwnedResult) {
        self.lock().waiting.push_back((callback, result));
        self.0.changed.notify_all();
    }

    /// Waits until nothing is under way, at most until then.
    pub(crate) fn wait_until_idle(&self, until: Instant) {
        let mut queue = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if queue.under_way == 0 || left.is_zero() {
                return;
            }
            queue = self.0.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Calls what is still to be called, and waits until the last has returned. None is called after this.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let thread = queue.thread.take();
        drop(queue);
        self.0.changed.notify_all();
        if let Some(thread) = thread {
            // It catches nothing and panics nowhere; if it did, its callbacks are over all the same.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock()
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.lock();
        loop {
            while let Some((callback, result)) = queue.waiting.pop_front() {
                drop(queue);
                let serial = result.serial();
                let result = result.hand_out();
                // SAFETY: the header asks for a function of this type that takes a result and what it was
                // submitted with; the result is good until it is freed, by the function or below.
                unsafe { (callback.function)(result, callback.user_data) };
                free_unless_freed(result, serial);
                queue = self.lock();
                queue.under_way -= 1;
                if queue.under_way == 0 {
                    self.changed.notify_all();
                }
            }
            if queue.is_closed {
                return;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
