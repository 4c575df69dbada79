//! Running a task, and closing one: what whoever owns its body does with it.
//!
//! [`Running`] and [`Closing`] are made where the state word was changed to say so, and nowhere else, so to hold one
//! is to own the body. Neither outlives the call that made it.

use super::{NOT_NOTED, TaskRef};
use crate::job::{Job, Turn};
use crate::state::{Suspended, Verdict};
use crate::task::Task;
use crate::{token, waker};
use std::mem::{self, ManuallyDrop};
use std::task::Poll;

/// So many steps a future that wakes itself makes before others come to their turn. Its data is warm, and a turn of
/// the queue costs more than most steps.
const STEPS_IN_A_ROW_MAX: u32 = 4;

/// What came of taking a task from its queue.
pub(crate) enum Begun {
    Run(Running),
    Close(Closing),
    Stale(Option<Task>),
}

/// A task that this thread runs. Its body is this thread's.
pub(crate) struct Running {
    pub(super) task: TaskRef,
    pub(super) left_in_queue: bool,
}

impl Running {
    /// Runs it; if it is a future, for one step, or a few if it wakes itself.
    #[inline]
    pub(crate) fn go(self) -> Turn {
        let (stepped, woke_itself) = {
            let entered = token::enter(&self.task);
            let waker = waker::borrowed(&self.task);
            let mut steps = 1;
            loop {
                // SAFETY: the cell lives and is of the type its table was made for; `Running` owns the body.
                let stepped = unsafe { (self.task.table().step)(self.task.0, &waker) };
                let again = stepped.is_pending() && steps < STEPS_IN_A_ROW_MAX && entered.goes_on();
                if !again {
                    break (stepped, entered.woke_itself());
                }
                if self.task.look().verdict().is_some() {
                    // It is asked to stop.
                    break (stepped, true);
                }
                steps += 1;
            }
        };
        match stepped {
            Poll::Ready(verdict) => self.finish(verdict),
            Poll::Pending => self.suspend(woke_itself),
        }
    }

    fn suspend(self, woke_itself: bool) -> Turn {
        if !woke_itself && self.task.place() == NOT_NOTED {
            // SAFETY: the cell lives and is of the type its table was made for.
            unsafe { (self.task.table().waits)(self.task.0, &self.task) };
        }
        match self.task.state().suspend(woke_itself) {
            Suspended::Idle => {
                // The reference went with the step; the task may be gone already.
                mem::forget(self.task);
                Turn::Waits
            }
            Suspended::Again => Turn::Again(Job::new(self.task)),
            Suspended::Close => {
                Closing { task: self.task, holds: Holds::Work, left_in_queue: false }.conclude();
                Turn::Ended
            }
        }
    }

    #[inline]
    fn finish(self, verdict: Verdict) -> Turn {
        let Self { task, left_in_queue } = self;
        if task.due().is_some() {
            return Self::finish_watched(task, verdict, left_in_queue);
        }
        // Nobody else can end it, so it may be counted before the step that ends it.
        task.ended(verdict, left_in_queue);
        let mut seen = task.look();
        let mut wanted = true;
        loop {
            if wanted && !seen.has_ticket() {
                // SAFETY: the cell lives and is of the type its table was made for; the body is still this thread's.
                unsafe { (task.table().clear)(task.0) };
                wanted = false;
            }
            let keep = seen.has_sleeper() || seen.has_waker();
            match task.state().finish(seen, verdict, keep) {
                Err(now) => seen = now,
                Ok(()) if keep => {
                    task.tell(seen);
                    return Turn::Ended;
                }
                Ok(()) => {
                    // The reference went with the step.
                    let task = ManuallyDrop::new(task);
                    if seen.references() == 1 {
                        task.state().receive_references();
                        task.free();
                    }
                    return Turn::Ended;
                }
            }
        }
    }

    /// As `finish`, where a deadline may have been faster.
    #[cold]
    fn finish_watched(task: TaskRef, verdict: Verdict, left_in_queue: bool) -> Turn {
        if task.state().decide(verdict) {
            Closing { task, holds: Holds::Outcome, left_in_queue }.conclude();
        } else {
            // SAFETY: the cell lives and is of the type its table was made for. Whoever overtook this thread left the
            // body to it, and the ticket does not look for an outcome.
            unsafe { (task.table().clear)(task.0) };
        }
        Turn::Ended
    }
}

/// What is in the body of a task that is closing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Work,
    Outcome,
    /// Or something that is another thread's.
    Nothing,
}

/// A task whose end is decided, and this thread's to see through.
pub(crate) struct Closing {
    pub(super) task: TaskRef,
    pub(super) holds: Holds,
    pub(super) left_in_queue: bool,
}

impl Closing {
    /// Drops its work, counts it, and tells whoever waits.
    pub(crate) fn conclude(self) {
        let Self { task, holds, left_in_queue } = self;
        if holds == Holds::Work {
            // SAFETY: the cell lives and is of the type its table was made for; `Closing` owns the body.
            unsafe { (task.table().clear)(task.0) };
        }
        task.unwatch();
        let verdict = task.look().verdict().expect("what closes has its verdict");
        task.ended(verdict, left_in_queue);
        let seen = task.state().conclude();
        if holds == Holds::Outcome && !seen.has_ticket() {
            // SAFETY: as above; the ticket had left when the task became done, so the outcome stayed here.
            unsafe { (task.table().clear)(task.0) };
        }
        task.tell(seen);
    }
}
