//! The claim on a result: what a ticket is made of, and what a finished task belongs to.
//!
//! There is one claim for each task at most, and its methods that wait ask for it alone. So the waiter is the
//! ticket's whenever the waker bit is unset, and the body is the claim's once the task is done.

use super::{Begun, TaskRef};
use crate::edge::left_out;
use crate::error::TaskError;
use crate::futex::{self, Scope};
use crate::state::Verdict;
use crate::task::drop_quietly;
use crate::token;
use crate::work::Outcome;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The claim on one task's result. Dropping it detaches the task.
pub(crate) struct Claim<T> {
    task: ManuallyDrop<TaskRef>,
    /// It yields a `T` that may be sent, and holds none.
    result: PhantomData<fn() -> T>,
}

impl<T> Claim<T> {
    /// # Safety
    /// The output of the task is a `T`, which is `Send`. The reference is that of the ticket in the state word.
    pub(super) unsafe fn new(task: TaskRef) -> Self {
        Self { task: ManuallyDrop::new(task), result: PhantomData }
    }

    pub(crate) fn task(&self) -> &TaskRef {
        &self.task
    }

    pub(crate) fn is_done(&self) -> bool {
        self.task.state().is_done()
    }

    /// The result of a task that is done.
    pub(crate) fn take(self) -> Result<T, TaskError> {
        let seen = self.task.state().look_for_result();
        assert!(seen.is_done(), "a result is taken when there is one");
        match seen.verdict().expect("what is done has its verdict") {
            Verdict::Completed | Verdict::Panicked => {
                let mut outcome: Option<Outcome<T>> = None;
                // SAFETY: the cell lives and is of the type its table was made for, whose output is `T`. The task is
                // done by itself while the ticket was there, so the body is the claim's.
                unsafe { (self.task.table().take)(self.task.0, (&raw mut outcome).cast()) };
                outcome.expect("an outcome is taken once").map_err(TaskError::Panicked)
            }
            Verdict::Cancelled => Err(TaskError::Cancelled),
            Verdict::TimedOut => Err(TaskError::TimedOut),
            Verdict::Expired => Err(TaskError::Expired),
            Verdict::Abandoned => Err(TaskError::Abandoned),
            Verdict::Dropped => Err(TaskError::Dropped),
        }
    }

    /// Has `waker` called when the task is done; `false` if it is done already.
    pub(crate) fn tell(&mut self, waker: &Waker) -> bool {
        if !left_out("CELL_WAITER_IS_TAKEN_BACK") && !self.take_waiter_back() {
            return false;
        }
        let waiter = &self.task.header().waiter;
        // SAFETY: the waker bit is unset, so the waiter is the ticket's, which is here borrowed for this alone.
        let known =
            waiter.with(|waiter| unsafe { &*waiter }.as_ref().is_some_and(|known| known.will_wake(waker)));
        if !known {
            self.replace_waiter(Some(waker.clone()));
        }
        let told = self.task.state().add_waker();
        if !told {
            self.replace_waiter(None);
        }
        told
    }

    /// Makes the waiter the ticket's; `false` if whoever finished the task has it.
    fn take_waiter_back(&mut self) -> bool {
        let state = self.task.state();
        !state.look().has_waker() || state.remove_waker()
    }

    /// Only while the waiter is the ticket's.
    fn replace_waiter(&mut self, waker: Option<Waker>) {
        let waiter = &self.task.header().waiter;
        // SAFETY: both callers have seen to it that the waker bit is unset; so the waiter is the ticket's, which is
        // here borrowed for this alone.
        let old = waiter.with_mut(|waiter| mem::replace(unsafe { &mut *waiter }, waker));
        drop_quietly(old);
    }

    /// How long a waiting thread may look for the result before it sleeps.
    pub(crate) fn spin(&self) -> Duration {
        // SAFETY: the cell lives and is of the type its table was made for.
        unsafe { (self.task.table().spin)(self.task.0) }
    }

    /// Sleeps until the task is done; `false` if it is not done in time. It looks once what there is to do meanwhile,
    /// also if the time has passed already: on a busy machine a short one always has.
    pub(crate) fn sleep(&mut self, until: Option<Instant>) -> bool {
        let mut has_looked = false;
        while self.task.header().state.add_sleeper() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if mem::replace(&mut has_looked, true) && left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let left = left.map(|left| left.max(Duration::from_nanos(1)));
            let mut is_relieved = false;
            let mut wait = |at_most: Option<Duration>| {
                is_relieved = at_most.is_none();
                let left = left.into_iter().chain(at_most).min();
                futex::wait(&self.task.header().bell, 0, left, Scope::Private);
            };
            // Running another task might take longer than the caller would wait.
            let may_run = until.is_none();
            // SAFETY: the cell lives and is of the type its table was made for.
            unsafe { (self.task.table().wait_once)(self.task.0, may_run, &mut wait) };
            if !is_relieved {
                // Perhaps nobody else will run the task. Late is better than never.
                self.help(!may_run);
            }
        }
        true
    }

    /// Runs the task here if it is a closure that waits in a queue of the pool whose worker this thread is, and that
    /// may begin it. `rather_not`: only if nobody else would.
    pub(crate) fn help(&mut self, rather_not: bool) {
        let waits = self.task.look().is_queued() && !self.task.is_future();
        if waits && self.task.is_inside() && token::may_begin_awaited(rather_not) {
            match TaskRef::clone(&self.task).begin(false) {
                Begun::Run(running) => drop(running.go()),
                Begun::Close(closing) => closing.conclude(),
                Begun::Stale(_) => {}
            }
        }
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        // A waker left behind could keep another task alive.
        if self.task.look().has_waker() && !left_out("CELL_WAITER_LEAVES_TOO") && self.take_waiter_back() {
            self.replace_waiter(None);
        }
        if self.task.state().detach() {
            return;
        }
        if self.task.state().look_for_result().has_outcome() {
            // SAFETY: the cell lives and is of the type its table was made for. The task is done by itself while the
            // ticket was there, so the body is the claim's.
            unsafe { (self.task.table().clear)(self.task.0) };
        }
        // SAFETY: nobody uses the claim after this, and above its reference was only borrowed.
        unsafe { ManuallyDrop::drop(&mut self.task) };
    }
}
