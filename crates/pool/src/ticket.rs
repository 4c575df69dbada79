//! `Ticket`: the claim on one result. It waits, polls, is a future, cancels; dropping it lets the task go on alone.
//!
//! A thread that waits looks again for a moment, since most results are near, and then sleeps on the task's bell. The
//! one who finishes the task makes a system call only if somebody sleeps. A worker that waits for a task of its own
//! pool runs it itself if it is a closure nobody has begun: so a pool cannot come to a stand because all its workers
//! wait for what is behind them in the queue (docs/decisions/0024-what-waits-goes-on.md).
//!
//! Not here: what a claim may touch and when (`cell.rs`).

use crate::cell::Claim;
use crate::error::{CancelAnswer, TaskError};
use crate::patience::comes_soon;
use crate::state::Snapshot;
use crate::sync::Mutex;
use crate::task::drop_panic;
use crate::why::Placed;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The claim on the result of one task.
///
/// Dropping it detaches the task, which goes on; its result is dropped when it comes. A ticket may be waited for in
/// any way until the result has been taken once; after that it answers [`TaskError::Taken`].
#[must_use = "dropping a ticket detaches its task; use `spawn` if you do not want the result"]
pub struct Ticket<T> {
    claim: Option<Claim<T>>,
    /// Where the task was put and why, if there is anything to tell; see `why.rs`.
    placed: Option<Box<Placed>>,
}

impl<T> Ticket<T> {
    pub(crate) fn new(claim: Claim<T>) -> Self {
        Self { claim: Some(claim), placed: None }
    }

    /// The same ticket, with a note of where its task was put.
    pub(crate) fn noting(mut self, placed: Placed) -> Self {
        if placed != Placed::Shared {
            self.placed = Some(Box::new(placed));
        }
        self
    }

    /// Where the task was put when it was taken in, and why there. See also [`PoolHandle::why`](crate::PoolHandle).
    pub fn placed(&self) -> Placed {
        self.placed.as_deref().copied().unwrap_or_default()
    }

    /// How the task stands; `None` if the result has been taken.
    pub(crate) fn look(&self) -> Option<Snapshot> {
        self.claim.as_ref().map(|claim| claim.task().look())
    }

    /// Waits for the result.
    pub fn wait(mut self) -> Result<T, TaskError> {
        if let Some(claim) = &mut self.claim
            && !claim.is_done()
        {
            claim.help(false);
            if !comes_soon(claim.spin(), || claim.is_done()) {
                claim.sleep(None);
            }
        }
        self.take()
    }

    /// Waits for the result, for at most so long. Afterwards it may be waited for again.
    ///
    /// On a worker of the task's pool it may be late: if all workers wait, and no other can stand in for them since
    /// there are [`workers_max`](crate::PoolConfig::workers_max), it runs the task itself, or steps of futures.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<T, TaskError>> {
        // A time-out past the end of the clock is no time-out.
        let until = Instant::now().checked_add(timeout);
        if let Some(claim) = &mut self.claim {
            // Other than `wait`, this does not run the task at once: that might take longer than may be waited.
            let spin = claim.spin().min(timeout);
            if !comes_soon(spin, || claim.is_done()) && (timeout.is_zero() || !claim.sleep(until)) {
                return None;
            }
        }
        Some(self.take())
    }

    /// The result, if it is there.
    pub fn poll(&mut self) -> Option<Result<T, TaskError>> {
        self.is_done().then(|| self.take())
    }

    /// Whether the task has ended. Then a result, or the reason why there is none, can be had without waiting.
    pub fn is_done(&self) -> bool {
        self.claim.as_ref().is_none_or(Claim::is_done)
    }

    /// Ends the task if it has not begun or is a future that waits; asks it to stop if it runs.
    pub fn cancel(&self) -> CancelAnswer {
        self.claim.as_ref().map_or(CancelAnswer::TooLate, |claim| claim.task().cancel())
    }

    /// Calls `then` with the result: at once if it is there, else on the thread that ends the task, which is a
    /// worker, or whoever cancels it or notices that its deadline has passed. It should not take long. A panic in
    /// it is caught.
    pub fn on_done(self, then: impl FnOnce(Result<T, TaskError>) + Send + 'static)
    where
        T: 'static,
    {
        let reply = Arc::new(Reply(Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&reply));
        let mut held = reply.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The ticket goes where its own task will find it. Whoever finishes the task takes both out again.
        let (ticket, _) = held.insert((self, Box::new(then)));
        let waits = ticket.claim.as_mut().is_some_and(|claim| claim.tell(&waker));
        drop(held);
        if !waits {
            reply.answer();
        }
    }

    /// The result of a task that is done.
    fn take(&mut self) -> Result<T, TaskError> {
        self.claim.take().map_or(Err(TaskError::Taken), Claim::take)
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(claim) = &mut self.claim
            && !claim.is_done()
            && claim.tell(context.waker())
        {
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.claim.as_ref().map(Claim::task);
        let mut shown = f.debug_struct("Ticket");
        if let Some(name) = task.and_then(|task| task.name()) {
            shown.field("name", &name);
        }
        match task {
            Some(task) => shown.field("state", &task.look()),
            None => shown.field("state", &format_args!("taken")),
        };
        shown.finish()
    }
}

type Then<T> = Box<dyn FnOnce(Result<T, TaskError>) + Send>;

/// A callback in the shape of a waker: it holds the ticket that holds it, until the task is done.
struct Reply<T>(Mutex<Option<(Ticket<T>, Then<T>)>>);

impl<T> Reply<T> {
    fn answer(&self) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((mut ticket, then)) = held {
            let result = ticket.take();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| then(result))) {
                drop_panic(panic);
            }
        }
    }
}

impl<T: 'static> Wake for Reply<T> {
    fn wake(self: Arc<Self>) {
        self.answer();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::counters::Ending;
    use crate::is_cancelled;
    use crate::toy::Toy;
    use std::sync::mpsc;
    use std::thread;

    /// Panics when it is dropped.
    struct Spiteful;

    impl Drop for Spiteful {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("spite"));
        }
    }

    fn panic_with(payload: impl std::any::Any + Send) -> u32 {
        std::panic::resume_unwind(Box::new(payload))
    }

    #[test]
    fn a_result_is_taken_once() {
        let toy = Toy::new();
        let (job, mut ticket) = toy.closure(|| 7);
        assert!(ticket.poll().is_none() && !ticket.is_done());
        assert_eq!(format!("{ticket:?}"), "Ticket { state: queued }");
        toy.run(job);
        assert_eq!(toy.endings(), [Ending::Completed]);
        assert!(matches!(ticket.poll(), Some(Ok(7))));
        assert_eq!(toy.cells(), 0, "what is taken needs no cell");
        assert!(ticket.is_done() && matches!(ticket.poll(), Some(Err(TaskError::Taken))));
        assert_eq!(ticket.cancel(), CancelAnswer::TooLate);
        assert!(matches!(ticket.wait(), Err(TaskError::Taken)));
    }

    #[test]
    fn a_thread_that_sleeps_is_called() {
        let toy = Toy::new();
        let (job, ticket) = toy.closure(|| "done");
        let waiter = thread::spawn(|| ticket.wait());
        // Only one who sleeps has said that it stands still, so this run has somebody to call.
        while toy.stood_still() == 0 {
            thread::yield_now();
        }
        toy.run(job);
        assert_eq!(waiter.join().unwrap().unwrap(), "done");
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    }

    #[test]
    fn a_wait_that_ran_out_may_be_repeated() {
        let toy = Toy::new();
        let (job, mut ticket) = toy.closure(|| 1);
        assert!(ticket.wait_timeout(Duration::from_millis(1)).is_none());
        assert!(ticket.wait_timeout(Duration::ZERO).is_none());
        toy.run(job);
        assert_eq!(ticket.wait_timeout(Duration::MAX).unwrap().unwrap(), 1);
    }

    #[test]
    fn a_panic_is_carried_to_the_ticket() {
        let toy = Toy::new();
        let (job, ticket) = toy.closure(|| panic_with("a stone in the mill"));
        toy.run(job);
        assert_eq!(toy.endings(), [Ending::Panicked]);
        let Err(TaskError::Panicked(panic)) = ticket.wait() else { unreachable!("it panicked") };
        assert_eq!(panic.message(), Some("a stone in the mill"));
    }

    #[test]
    fn a_ticket_that_is_dropped_before_or_after_leaves_nothing_behind() {
        let toy = Toy::new();
        for drop_before in [true, false] {
            let witness = Arc::new(());
            let result = Arc::clone(&witness);
            let (job, ticket) = toy.closure(move || result);
            if drop_before {
                drop(ticket);
                toy.run(job);
            } else {
                toy.run(job);
                assert_eq!(Arc::strong_count(&witness), 2);
                drop(ticket);
            }
            assert_eq!((Arc::strong_count(&witness), toy.cells()), (1, 0));
        }
        assert_eq!(toy.endings(), [Ending::Completed; 2]);
    }

    #[test]
    fn a_queued_closure_is_cancelled_at_once_and_its_entry_is_stale() {
        let toy = Toy::new();
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let (job, ticket) = toy.closure(move || drop(held));
        assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
        assert_eq!(Arc::strong_count(&witness), 1, "the closure is dropped by the canceller");
        assert_eq!((toy.endings(), toy.left_in_queue()), (vec![Ending::Cancelled], 1));
        assert_eq!(ticket.cancel(), CancelAnswer::TooLate);
        assert!(matches!(job.run(), crate::job::Turn::Stale(None)));
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        assert_eq!((toy.endings().len(), toy.cells()), (1, 0));
    }

    #[test]
    fn a_running_closure_is_asked_and_its_result_is_kept() {
        let toy = Toy::new();
        let (begun, has_begun) = mpsc::channel();
        let (job, ticket) = toy.closure(move || {
            let token = crate::token::CancelToken::current().expect("a task has a token");
            assert!(!token.is_cancelled() && !is_cancelled());
            begun.send(()).unwrap();
            while !is_cancelled() {
                thread::yield_now();
            }
            assert!(token.is_cancelled());
            "stopped early"
        });
        assert!(!is_cancelled(), "this thread runs no task");
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        has_begun.recv().unwrap();
        assert_eq!(ticket.cancel(), CancelAnswer::Requested);
        assert_eq!(ticket.cancel(), CancelAnswer::Requested);
        assert_eq!(ticket.wait().unwrap(), "stopped early");
        worker.join().unwrap();
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    }

    #[test]
    fn what_panics_when_it_is_dropped_harms_nobody() {
        let toy = Toy::new();
        // The result of a detached task, before and after.
        let (job, ticket) = toy.closure(|| Spiteful);
        drop(ticket);
        toy.run(job);
        let (job, ticket) = toy.closure(|| Spiteful);
        toy.run(job);
        drop(ticket);
        // What a closure holds when it is cancelled or discarded.
        let held = Spiteful;
        let (job, ticket) = toy.closure(move || drop(held));
        assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
        drop((job, ticket));
        let held = Spiteful;
        let (job, ticket) = toy.closure(move || drop(held));
        assert!(job.discard(crate::state::Verdict::Cancelled).is_none());
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        // What a panic carries.
        let (job, ticket) = toy.closure(|| panic_with(Spiteful));
        toy.run(job);
        drop(ticket);
        let (job, ticket) = toy.closure(|| panic_with(Spiteful));
        drop(ticket);
        toy.run(job);
        // A future that is ready, or ended before.
        let held = Spiteful;
        let (job, ticket) = toy.future(std::future::poll_fn(move |_| {
            let _held = &held;
            Poll::Ready(5)
        }));
        toy.run(job);
        assert_eq!(ticket.wait().unwrap(), 5);
        let held = Spiteful;
        let (job, ticket) = toy.future(async move { drop(held) });
        drop(ticket);
        drop(job);
        assert_eq!(toy.endings().len(), 8);
        assert_eq!(toy.cells(), 0);
    }

    #[test]
    fn a_callback_is_called_once_with_the_result_whenever_it_comes() {
        let toy = Toy::new();
        let (answers, answered) = mpsc::channel();
        let tell = |answers: &mpsc::Sender<_>| {
            let answers = answers.clone();
            move |result: Result<u32, TaskError>| answers.send(result.ok()).unwrap()
        };
        let (job, ticket) = toy.closure(|| 1);
        ticket.on_done(tell(&answers));
        assert!(answered.try_recv().is_err());
        toy.run(job);
        assert_eq!(answered.try_recv().unwrap(), Some(1));
        let (job, ticket) = toy.closure(|| 2);
        toy.run(job);
        ticket.on_done(tell(&answers));
        assert_eq!(answered.try_recv().unwrap(), Some(2));
        let (job, ticket) = toy.closure(|| 3);
        ticket.on_done(tell(&answers));
        assert!(job.discard(crate::state::Verdict::Cancelled).is_none());
        assert_eq!(answered.try_recv().unwrap(), None);
        let (job, ticket) = toy.closure(|| 4);
        ticket.on_done(|_| assert_eq!(panic_with(Spiteful), 0));
        toy.run(job);
        assert_eq!(toy.cells(), 0);
        assert!(answered.try_recv().is_err());
    }

    #[test]
    fn a_worker_that_waits_runs_a_queued_closure_itself() {
        let toy = Toy::new();
        let here = thread::current().id();
        let (job, ticket) = toy.closure(move || thread::current().id() == here);
        assert!(toy.inside(|| ticket.wait()).unwrap());
        assert_eq!((toy.stood_still(), toy.left_in_queue()), (0, 1));
        assert!(matches!(job.run(), crate::job::Turn::Stale(None)));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    }

    #[test]
    fn a_worker_that_waits_for_a_time_or_for_a_future_stands_still() {
        let toy = Toy::new();
        let (job, mut ticket) = toy.closure(|| 1);
        let (polled, future) = toy.future(async { 2 });
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || {
                toy.inside(|| {
                    [ticket.wait_timeout(Duration::MAX).unwrap(), future.wait()].map(Result::unwrap)
                })
            })
        };
        for (number, job) in [job, polled].into_iter().enumerate() {
            while toy.stood_still() == number {
                thread::yield_now();
            }
            toy.run(job);
        }
        assert_eq!(worker.join().unwrap(), [1, 2]);
        assert_eq!((toy.left_in_queue(), toy.cells()), (0, 0));
    }

    #[test]
    fn a_ticket_can_be_shared_and_sent() {
        fn check<T: Send + Sync + Unpin>() {}
        check::<Ticket<std::cell::Cell<u32>>>();
        check::<TaskError>();
        assert_eq!(size_of::<Ticket<String>>(), 2 * size_of::<usize>());
    }
}
