//! A schedule for tests and models: a list of jobs that the test runs by hand, and a count of what ended how.
//!
//! The jobs are behind a lock that the checkers see: from whoever queues a task to whoever takes it everything
//! passes, as in every queue. Nothing else here passes anything: what a task needs to be seen it must carry itself.
//! The count of references tells how many cells are alive.

use crate::cell::{Details, TaskRef};
use crate::counters::Ending;
use crate::job::{self, Job, Turn};
use crate::options::Priority;
use crate::schedule::{End, Schedule};
use crate::sync::Mutex;
use crate::ticket::Ticket;
use crate::timer::Deadlines;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex as PlainMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A pool without workers.
#[derive(Clone)]
pub(crate) struct Toy(Arc<Inner>);

#[derive(Default)]
struct Inner {
    jobs: Mutex<VecDeque<Job>>,
    book: PlainMutex<Book>,
    /// Only where a test watches deadlines: the checkers see its lock.
    deadlines: Option<Deadlines>,
}

#[derive(Default)]
struct Book {
    ends: Vec<End>,
    stood_still: usize,
}

thread_local! {
    /// The pool whose worker this thread pretends to be.
    static INSIDE: RefCell<Option<Toy>> = const { RefCell::new(None) };
}

impl Toy {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn with_deadlines() -> Self {
        Self(Arc::new(Inner { deadlines: Some(Deadlines::new()), ..Inner::default() }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn closure<T: Send + 'static>(
        &self,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> (Job, Ticket<T>) {
        let (job, claim) = job::closure(self.clone(), Details::default(), closure);
        (job, Ticket::new(claim))
    }

    /// As `closure`, with a deadline.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn closure_due<T: Send + 'static>(
        &self,
        due: Instant,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> (Job, Ticket<T>) {
        let details = Details { due: Some(due), ..Details::default() };
        let (job, claim) = job::closure(self.clone(), details, closure);
        (job, Ticket::new(claim))
    }

    pub(crate) fn future<F>(&self, future: F) -> (Job, Ticket<F::Output>)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (job, claim) = job::future(self.clone(), Details::default(), future);
        (job, Ticket::new(claim))
    }

    pub(crate) fn take_job(&self) -> Option<Job> {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Runs one job, and queues it again if it was woken meanwhile.
    pub(crate) fn run(&self, job: Job) {
        if let Turn::Again(job) = job.run() {
            self.queue(job);
        }
    }

    /// Runs what is queued until nothing is. Says how many jobs there were.
    pub(crate) fn run_all(&self) -> usize {
        std::iter::from_fn(|| self.take_job()).map(|job| self.run(job)).count()
    }

    /// How the tasks ended so far.
    pub(crate) fn endings(&self) -> Vec<Ending> {
        self.book().ends.iter().map(|end| end.ending).collect()
    }

    /// How many of those that ended left an entry in a queue.
    pub(crate) fn left_in_queue(&self) -> usize {
        self.book().ends.iter().filter(|end| end.left_in_queue).count()
    }

    pub(crate) fn stood_still(&self) -> usize {
        self.book().stood_still
    }

    /// How many deadlines are in its book.
    pub(crate) fn watched(&self) -> usize {
        self.0.deadlines.as_ref().map_or(0, Deadlines::len)
    }

    /// How many cells are alive.
    pub(crate) fn cells(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// Does `act` as a worker of this pool would.
    pub(crate) fn inside<R>(&self, act: impl FnOnce() -> R) -> R {
        let before = INSIDE.replace(Some(self.clone()));
        let result = act();
        drop(INSIDE.replace(before));
        result
    }
}

/// A time that does not come while a test runs.
pub(crate) fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

impl Schedule for Toy {
    fn queue(&self, job: Job) {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    }

    fn queue_inside(job: Job) {
        INSIDE.with_borrow(|toy| toy.as_ref().expect("is_inside said so").queue(job));
    }

    fn waits(&self, _task: &TaskRef) {}

    fn ended(&self, end: End) {
        self.book().ends.push(end);
    }

    fn entry_left(&self, _address: usize, _priority: Priority) {}

    fn wait_once(&self, _may_run: bool, wait: impl FnOnce(Option<Duration>)) {
        self.book().stood_still += 1;
        // A pool does much between the last look and the sleep; to the checkers this is a place to switch.
        self.queue_len();
        wait(None);
    }

    fn spin(&self) -> Duration {
        Duration::ZERO
    }

    fn stops(&self) -> bool {
        false
    }

    fn is_inside(&self) -> bool {
        INSIDE.with_borrow(|toy| toy.as_ref().is_some_and(|toy| Arc::ptr_eq(&toy.0, &self.0)))
    }

    fn watch(&self, due: Instant, task: TaskRef) {
        if let Some(deadlines) = &self.0.deadlines {
            deadlines.add(due, task);
        }
    }

    fn unwatch(&self, due: Instant, task: &TaskRef) {
        if let Some(deadlines) = &self.0.deadlines {
            deadlines.remove(due, task);
        }
    }
}
