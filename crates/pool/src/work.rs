//! What a task is made of: a closure or a future, and afterwards what came of it.
//!
//! All of it is the user's and any of it may panic, when it runs and when it is dropped. Nothing of that leaves this
//! file: a panic becomes the outcome, or is swallowed where there is nobody to tell.
//!
//! Not here: who may touch a body when (`state.rs`), and where it lives (`cell.rs`).

use crate::error::Panic;
use crate::state::Verdict;
use crate::task::{drop_panic, drop_quietly};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What a task left behind.
pub(crate) type Outcome<T> = Result<T, Panic>;

/// Something that can be worked on in steps.
pub(crate) trait Work: Send + Sized + 'static {
    type Output: Send + 'static;

    /// Whether it may be suspended.
    const IS_FUTURE: bool;

    /// Works on what is in `body`, which is work, and leaves work there or an outcome. Does not unwind.
    fn step(body: &mut Body<Self>, waker: &Waker) -> Poll<Verdict>;
}

/// One task's work, then its outcome, then nothing.
pub(crate) enum Body<W: Work> {
    Work(W),
    Outcome(Outcome<W::Output>),
    Empty,
}

impl<W: Work> Body<W> {
    /// Drops what is there, in its place. Does not unwind.
    pub(crate) fn clear(&mut self) {
        if matches!(self, Self::Empty) {
            return;
        }
        // The assignment drops the old value where it is, as a future asks for, and puts the new one there even if
        // that panics.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| *self = Self::Empty)) {
            drop_panic(panic);
        }
    }

    /// Takes the outcome out.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome<W::Output>> {
        match mem::replace(self, Self::Empty) {
            Self::Outcome(outcome) => Some(outcome),
            other => {
                drop_quietly(other);
                None
            }
        }
    }

    /// Takes out work that has never been worked on.
    pub(crate) fn take_work(&mut self) -> Option<W> {
        match mem::replace(self, Self::Empty) {
            Self::Work(work) => Some(work),
            other => {
                drop_quietly(other);
                None
            }
        }
    }

    fn leave(&mut self, outcome: Outcome<W::Output>) -> Poll<Verdict> {
        let verdict = if outcome.is_ok() { Verdict::Completed } else { Verdict::Panicked };
        *self = Self::Outcome(outcome);
        Poll::Ready(verdict)
    }
}

/// A closure, called once.
pub(crate) struct Call<F>(pub(crate) F);

impl<F, T> Work for Call<F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;
    const IS_FUTURE: bool = false;

    #[inline]
    fn step(body: &mut Body<Self>, _waker: &Waker) -> Poll<Verdict> {
        let call = body.take_work().expect("whoever started a task found its closure there");
        // What the closure leaves half done is its own: nobody sees it after the panic.
        let outcome = catch_unwind(AssertUnwindSafe(call.0));
        body.leave(outcome.map_err(Panic::new))
    }
}

/// A future, polled until it is ready.
pub(crate) struct Polled<F>(pub(crate) F);

impl<F> Work for Polled<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;
    const IS_FUTURE: bool = true;

    #[inline]
    fn step(body: &mut Body<Self>, waker: &Waker) -> Poll<Verdict> {
        let Body::Work(Polled(future)) = body else { unreachable!("a future is there until it is ready") };
        // SAFETY: a body never moves, as its cell is one heap allocation. From the first step on its future is not
        // taken out either (`take_work` is for tasks never worked on), only dropped in its place by `clear`.
        let future = unsafe { Pin::new_unchecked(future) };
        let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(waker))));
        let outcome = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(Panic::new(panic)),
        };
        body.clear();
        body.leave(outcome)
    }
}
