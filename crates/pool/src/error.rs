//! Why a task was refused, and why there is no result: an enum for each question, and a sentence for people.
//!
//! Refusal hands the task back, so nothing is lost by trying. What ended a task is told by its ticket alone; a pool's
//! metrics count the same endings.
//!
//! Not here: why a pool cannot start (`config.rs`).

use crate::task::drop_panic;
use crate::ticket::Ticket;
use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::iter;
use std::sync::{Mutex, PoisonError};

/// Why a task was not taken in. It comes back with the answer.
#[non_exhaustive]
pub enum SubmitError<F> {
    /// There was no room, and the caller would not wait.
    Full(F),
    /// There was no room for as long as the caller would wait.
    TimedOut(F),
    /// The pool is draining or has stopped, and takes nothing more.
    Closed(F),
    /// The task's deadline has passed already, or cannot be met.
    TooLate(F),
    /// There is no memory for the lane of the task's priority, which is made when its first task comes.
    OutOfMemory(F),
}

impl<F> SubmitError<F> {
    /// The task that was refused.
    pub fn into_inner(self) -> F {
        match self {
            Self::Full(task)
            | Self::TimedOut(task)
            | Self::Closed(task)
            | Self::TooLate(task)
            | Self::OutOfMemory(task) => task,
        }
    }

    /// The same answer without the task: an error that can go anywhere.
    pub fn forget(self) -> SubmitError<()> {
        self.map(drop)
    }

    /// The same answer about something else.
    pub(crate) fn map<G>(self, change: impl FnOnce(F) -> G) -> SubmitError<G> {
        match self {
            Self::Full(task) => SubmitError::Full(change(task)),
            Self::TimedOut(task) => SubmitError::TimedOut(change(task)),
            Self::Closed(task) => SubmitError::Closed(change(task)),
            Self::TooLate(task) => SubmitError::TooLate(change(task)),
            Self::OutOfMemory(task) => SubmitError::OutOfMemory(change(task)),
        }
    }

    /// Why, without the task.
    pub fn reason(&self) -> Refused {
        match self {
            Self::Full(_) => Refused::Full,
            Self::TimedOut(_) => Refused::TimedOut,
            Self::Closed(_) => Refused::Closed,
            Self::TooLate(_) => Refused::TooLate,
            Self::OutOfMemory(_) => Refused::OutOfMemory,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Full(_) => "Full",
            Self::TimedOut(_) => "TimedOut",
            Self::Closed(_) => "Closed",
            Self::TooLate(_) => "TooLate",
            Self::OutOfMemory(_) => "OutOfMemory",
        }
    }
}

impl<F> fmt::Debug for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(..)", self.name())
    }
}

impl<F> fmt::Display for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl<F> Error for SubmitError<F> {}

/// Why a task was refused, as events and counters tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// There was no room, and the caller would not wait.
    Full,
    /// There was no room for as long as the caller would wait.
    TimedOut,
    /// The pool takes nothing more.
    Closed,
    /// The deadline has passed already, or cannot be met.
    TooLate,
    /// There is no memory for the lane of its priority.
    OutOfMemory,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "pool is full; try again later or raise queue_capacity (for futures also futures_max)"
            }
            Self::TimedOut => "pool stayed full for the whole wait; try again later or raise queue_capacity",
            Self::Closed => "pool is closed; it takes nothing more",
            Self::TooLate => "task cannot be done by its deadline; submit it earlier or give it more time",
            Self::OutOfMemory => {
                "no memory for the lane of this priority; lower queue_capacity or submit with normal priority"
            }
        })
    }
}

/// Why a batch was not taken in as a whole. What was taken in before runs; its tickets are here.
///
/// The rest is the iterator itself, as it stands after the refused task: it may be endless, or dear to go through.
/// `?` wants an error that borrows nothing, which the iterator may do: see [`forget`](Self::forget).
pub struct BatchError<I: Iterator, T> {
    /// The tickets of the tasks that were taken in, in their order.
    pub accepted: Vec<Ticket<T>>,
    /// Why the next task was refused, and that task.
    pub refused: SubmitError<I::Item>,
    /// Yields the tasks after it, which were not tried.
    pub rest: I,
}

impl<I: Iterator, T> BatchError<I, T> {
    /// The same answer without the tasks that were not taken in: an error that can go anywhere.
    pub fn forget(self) -> BatchError<iter::Empty<()>, T> {
        BatchError { accepted: self.accepted, refused: self.refused.forget(), rest: iter::empty() }
    }
}

impl<I: Iterator, T> fmt::Debug for BatchError<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchError")
            .field("accepted", &self.accepted.len())
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl<I: Iterator, T> fmt::Display for BatchError<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch: {} taken in, then: {}", self.accepted.len(), self.refused)
    }
}

impl<I: Iterator, T> Error for BatchError<I, T> {}

/// Why a task has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// It panicked.
    Panicked(Panic),
    /// It was cancelled: by its ticket, a purge or a stop.
    Cancelled,
    /// Its deadline passed while it ran.
    TimedOut,
    /// Its deadline passed, or could no longer be met, before it began.
    Expired,
    /// It waits for something, and nobody is left who could wake it. Reports and metrics count it as cancelled.
    Abandoned,
    /// The queue was full, and the pool's policy was to drop it.
    Dropped,
    /// An earlier call on the ticket has taken the result.
    Taken,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "task panicked: {panic}"),
            Self::Cancelled => f.write_str("task was cancelled"),
            Self::TimedOut => f.write_str("task was not done by its deadline; give it more time"),
            Self::Expired => {
                f.write_str("task did not begin before its deadline; give it more time or add workers")
            }
            Self::Abandoned => f.write_str(
                "task waits for something that nobody can bring any more; its future must keep a waker where \
                 something will wake it",
            ),
            Self::Dropped => f.write_str(
                "task was dropped because the queue was full; raise queue_capacity or choose another back_pressure",
            ),
            Self::Taken => {
                f.write_str("result of the task was taken by an earlier call; keep what poll or wait returns")
            }
        }
    }
}

impl Error for TaskError {}

/// What a task panicked with.
///
/// If that panics itself when it is dropped, nobody is troubled by it.
pub struct Panic(Box<Caught>);

struct Caught {
    message: Option<Cow<'static, str>>,
    /// Nobody ever waits for the lock: it is there because a payload need not be fit for sharing.
    payload: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = match payload.downcast_ref::<&'static str>() {
            Some(message) => Some(Cow::Borrowed(*message)),
            None => payload.downcast_ref::<String>().map(|message| Cow::Owned(message.clone())),
        };
        Self(Box::new(Caught { message, payload: Mutex::new(Some(payload)) }))
    }

    /// The message, if it was one: what `panic!` makes of its arguments.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// What it was called with, to be looked into or raised again.
    pub fn into_payload(mut self) -> Box<dyn Any + Send> {
        self.take().expect("the payload is there until it is taken, which ends the panic")
    }

    /// Goes on with the panic on this thread.
    pub fn resume(self) -> ! {
        std::panic::resume_unwind(self.into_payload())
    }

    fn take(&mut self) -> Option<Box<dyn Any + Send>> {
        self.0.payload.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        if let Some(payload) = self.take() {
            drop_panic(payload);
        }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("something that is no message"))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panic({self})")
    }
}

/// What became of asking for a task's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelAnswer {
    /// It will not run, or not go on: what it was made of has been dropped.
    Cancelled,
    /// It runs and has been asked to stop. A future is dropped when it next waits; a closure may look
    /// [whether it is cancelled](crate::is_cancelled). If it comes to its end all the same, its result is kept.
    Requested,
    /// It had ended, or its end was decided, before.
    TooLate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_task_comes_back() {
        let refused = SubmitError::Full(|| 7);
        assert_eq!(format!("{refused:?}"), "Full(..)");
        assert_eq!(refused.into_inner()(), 7);
    }

    #[test]
    fn a_panic_says_what_it_was_called_with() {
        let caught = |panics: fn()| Panic::new(std::panic::catch_unwind(panics).expect_err("it panics"));
        let quiet = |text: &'static str| Panic::new(Box::new(text));
        assert_eq!(quiet("plain").to_string(), "plain");
        assert_eq!(TaskError::Panicked(quiet("plain")).to_string(), "task panicked: plain");
        let formatted = caught(|| std::panic::resume_unwind(Box::new(format!("{} apples", 3))));
        assert_eq!(formatted.message(), Some("3 apples"));
        let number = caught(|| std::panic::resume_unwind(Box::new(17_u32)));
        assert_eq!(number.message(), None);
        assert_eq!(number.into_payload().downcast_ref::<u32>(), Some(&17));
    }
}
