//! `PoolHandle`: how tasks are given to a pool. A cheap clone, for as many threads as like.
//!
//! Every verb comes in up to three manners, told by its name: a bare one waits for room, `try_` never waits, and
//! `_timeout` waits at most so long. A refusal hands the task back. [`with`](PoolHandle::with) gives the same verbs
//! for tasks that have options.
//!
//! Not here: which queue a task goes to (`route.rs`), ending the pool (`pool.rs`).

use crate::cell::{Details, NOT_NOTED};
use crate::current;
use crate::error::{BatchError, SubmitError};
use crate::job::{self, Job};
use crate::lanes::Wait;
use crate::metrics::Metrics;
use crate::options::TaskOptions;
use crate::pressure::Manner;
use crate::route::Route;
use crate::schedule::Schedule;
use crate::shared::{Shared, attention};
use crate::task::{Plain, Run, Seed, Task};
use crate::ticket::Ticket;
use crate::why::{self, Placed, Stands, Why};
use millpond_queue::Refusal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Gives tasks to a pool. It outlives the [`Pool`](crate::Pool), but is refused everything once that has ended.
#[derive(Clone, Debug)]
pub struct PoolHandle {
    pub(crate) shared: Arc<Shared>,
}

/// What `submit_batch` answers: a ticket for each task, or what was taken in before the first refusal and the rest.
pub type BatchResult<I, T> = Result<Vec<Ticket<T>>, BatchError<I, T>>;

impl PoolHandle {
    /// Runs `task` on a worker; the ticket yields what it returns. Waits for room if the queue is full.
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
    /// let ticket = pool.submit(|| 6 * 7)?;
    /// assert_eq!(ticket.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A task may outlive its submitter, so it borrows nothing ([`scope`](Self::scope) is for those that do):
    ///
    /// ```compile_fail,E0373
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// let numbers = vec![1, 2, 3];
    /// let ticket = pool.submit(|| numbers.len()).unwrap(); // `move ||` would do
    /// ```
    ///
    /// What it returns goes to another thread:
    ///
    /// ```compile_fail,E0277
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// let ticket = pool.submit(|| std::rc::Rc::new(1)).unwrap(); // an `Rc` stays on its thread
    /// ```
    pub fn submit<F, T>(&self, task: F) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.plain().submit_by(task, Manner::ByPolicy)
    }

    /// As [`submit`](Self::submit), but a full queue refuses.
    pub fn try_submit<F, T>(&self, task: F) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.plain().submit_by(task, Manner::Refused)
    }

    /// As [`submit`](Self::submit), but waits for room at most so long.
    pub fn submit_timeout<F, T>(&self, task: F, timeout: Duration) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.plain().submit_by(task, Manner::AtMost(timeout))
    }

    /// Submits tasks one after the other, waiting for room, until one is refused. Then the error has the tickets of
    /// those before, that task, and the iterator with the rest.
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
    /// let tickets = pool.submit_batch((1..=3).map(|number| move || number * number))?;
    /// let squares: Result<Vec<_>, _> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
    /// assert_eq!(squares?, [1, 4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit_batch<I, T>(&self, tasks: I) -> BatchResult<I::IntoIter, T>
    where
        I: IntoIterator<Item: FnOnce() -> T + Send + 'static>,
        T: Send + 'static,
    {
        self.plain().submit_batch(tasks)
    }

    /// Runs `task` some time, and tells nobody. Waits for room if the queue is full. A closure of up to 48 bytes is
    /// not allocated; of those that are timed ([`metrics`](crate::PoolConfig::metrics)) one of up to 24.
    #[inline]
    pub fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), SubmitError<F>> {
        self.admit(Route::default(), Plain(task), Manner::ByPolicy)
            .map_err(|refused| refused.map(|plain| plain.0))
    }

    /// As [`spawn`](Self::spawn), but a full queue refuses.
    #[inline]
    pub fn try_spawn<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), SubmitError<F>> {
        self.admit(Route::default(), Plain(task), Manner::Refused)
            .map_err(|refused| refused.map(|plain| plain.0))
    }

    /// Runs a future on the workers; the ticket yields its output and is itself a future. Waits for room if the queue
    /// is full; refused if [`futures_max`](crate::PoolConfig::futures_max) live already.
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
    /// let ticket = pool.spawn_async(async {
    ///     millpond::yield_now().await;
    ///     "done"
    /// })?;
    /// assert_eq!(millpond::block_on(ticket)?, "done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// As any task it borrows nothing:
    ///
    /// ```compile_fail,E0373
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// let numbers = vec![1, 2, 3];
    /// let ticket = pool.spawn_async(async { numbers.len() }).unwrap(); // `async move` would do
    /// ```
    pub fn spawn_async<F>(&self, future: F) -> Result<Ticket<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.plain().spawn_async(future)
    }

    /// As [`spawn_async`](Self::spawn_async), but a full queue refuses.
    pub fn try_spawn_async<F>(&self, future: F) -> Result<Ticket<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.plain().try_spawn_async(future)
    }

    /// The same verbs for tasks with options.
    ///
    /// ```
    /// use millpond::{Pool, PoolConfig, Priority, TaskOptions};
    /// use std::time::Duration;
    /// let pool = Pool::start(PoolConfig::default())?;
    /// let urgent = TaskOptions {
    ///     priority: Priority::High,
    ///     timeout: Some(Duration::from_secs(5)),
    ///     ..TaskOptions::default()
    /// };
    /// assert_eq!(pool.with(&urgent).submit(|| "soon")?.wait()?, "soon");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with<'a>(&'a self, options: &'a TaskOptions) -> Submission<'a> {
        Submission { pool: self, options: Some(options) }
    }

    /// Runs a future on this thread until it is ready; see [`block_on`](crate::block_on).
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        crate::block_on(future)
    }

    /// What the pool is doing and has done.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.shared)
    }

    /// Why a task was put where it is, and why it waits, if it does.
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig { workers: 1, ..Default::default() })?;
    /// pool.pause();
    /// let ticket = pool.submit(|| 1)?;
    /// let why = pool.why(&ticket).to_string();
    /// assert!(why.ends_with("it waits because the pool is paused"), "{why}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn why<T>(&self, ticket: &Ticket<T>) -> Why {
        let shared = &self.shared;
        let stands = Stands::of(ticket.look(), || Stands::Waits {
            waiting: shared.waiting(),
            busy: shared.busy(),
            workers: shared.crew.wanted(),
            paused: shared.attention() & attention::PAUSED != 0,
            bound_to: shared.bound_to(ticket.placed()),
        });
        Why { placed: ticket.placed(), stands }
    }

    fn plain(&self) -> Submission<'_> {
        Submission { pool: self, options: None }
    }

    /// Gives `work` to a queue, or back to the caller. One in so many is timed.
    #[inline]
    fn admit<R: Run + 'static>(&self, route: Route, work: R, manner: Manner) -> Result<(), SubmitError<R>> {
        if self.shared.latency.sample() {
            self.admit_timed(route, work, manner)
        } else {
            self.admit_work(route, work, manner)
        }
    }

    #[cold]
    fn admit_timed<R: Run + 'static>(
        &self,
        route: Route,
        work: R,
        manner: Manner,
    ) -> Result<(), SubmitError<R>> {
        self.shared.admit_timed(work, |timed| self.admit_work(route, timed, manner))
    }

    #[inline]
    fn admit_work<R: Run + 'static>(
        &self,
        route: Route,
        work: R,
        manner: Manner,
    ) -> Result<(), SubmitError<R>> {
        match self.shared.admit_at_once(route, Seed::new(work)) {
            Ok(()) => Ok(()),
            Err(seed) => self.admit_slowly(route, seed.into_work(), manner),
        }
    }

    #[inline(never)]
    fn admit_slowly<R: Run + 'static>(
        &self,
        route: Route,
        work: R,
        manner: Manner,
    ) -> Result<(), SubmitError<R>> {
        let policy = self.shared.config.back_pressure;
        let wait = manner.wait(policy);
        let admitted = match self.shared.admit(route, Task::new(work), wait) {
            Err(Refusal::Full(task) | Refusal::Closed(task))
                if manner == Manner::ByPolicy && wait == Wait::Never =>
            {
                self.shared.press(route, task)
            }
            admitted => admitted,
        };
        admitted.map_err(|refusal| {
            // SAFETY: the task that comes back is the one made above, of an `R`.
            let work = |task: Task| unsafe { task.into_inner::<R>() };
            let refused = match refusal {
                Refusal::Closed(task) => SubmitError::Closed(work(task)),
                Refusal::Full(task) | Refusal::TimedOut(task)
                    if self.shared.lanes.is_missing(route.priority) =>
                {
                    SubmitError::OutOfMemory(work(task))
                }
                Refusal::Full(task) => SubmitError::Full(work(task)),
                Refusal::TimedOut(task) => SubmitError::TimedOut(work(task)),
            };
            self.shared.note_refusal(refused.reason());
            refused
        })
    }
}

/// The verbs of a [`PoolHandle`] for tasks with options; see [`PoolHandle::with`].
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    pool: &'a PoolHandle,
    options: Option<&'a TaskOptions>,
}

impl Submission<'_> {
    /// As [`PoolHandle::submit`].
    pub fn submit<F, T>(self, task: F) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_by(task, Manner::ByPolicy)
    }

    /// As [`PoolHandle::try_submit`].
    pub fn try_submit<F, T>(self, task: F) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_by(task, Manner::Refused)
    }

    /// As [`PoolHandle::submit_timeout`].
    pub fn submit_timeout<F, T>(self, task: F, timeout: Duration) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_by(task, Manner::AtMost(timeout))
    }

    /// As [`PoolHandle::submit_batch`].
    pub fn submit_batch<I, T>(self, tasks: I) -> BatchResult<I::IntoIter, T>
    where
        I: IntoIterator<Item: FnOnce() -> T + Send + 'static>,
        T: Send + 'static,
    {
        let mut tasks = tasks.into_iter();
        let mut accepted =
            Vec::with_capacity(tasks.size_hint().0.min(self.pool.shared.config.queue_capacity));
        while let Some(task) = tasks.next() {
            match self.submit(task) {
                Ok(ticket) => accepted.push(ticket),
                Err(refused) => return Err(BatchError { accepted, refused, rest: tasks }),
            }
        }
        Ok(accepted)
    }

    /// As [`PoolHandle::spawn`]. A task with a name, a deadline or a timeout is allocated.
    pub fn spawn<F: FnOnce() + Send + 'static>(self, task: F) -> Result<(), SubmitError<F>> {
        self.spawn_by(task, Manner::ByPolicy)
    }

    /// As [`PoolHandle::try_spawn`].
    pub fn try_spawn<F: FnOnce() + Send + 'static>(self, task: F) -> Result<(), SubmitError<F>> {
        self.spawn_by(task, Manner::Refused)
    }

    fn spawn_by<F: FnOnce() + Send + 'static>(self, task: F, manner: Manner) -> Result<(), SubmitError<F>> {
        let Some(details) = self.details() else { return Err(self.note(SubmitError::TooLate(task))) };
        if details.is_plain() {
            let admitted = self.pool.admit(self.route(), Plain(task), manner);
            return admitted.map_err(|refused| refused.map(|plain| plain.0));
        }
        let job = job::detached_closure(Arc::clone(&self.pool.shared), details, task);
        self.enter(job, manner).map_err(|refused| refused.map(Job::into_closure::<Arc<Shared>, F, ()>))
    }

    fn submit_by<F, T>(self, task: F, manner: Manner) -> Result<Ticket<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let Some(details) = self.details() else { return Err(self.note(SubmitError::TooLate(task))) };
        let (job, claim) = job::closure(Arc::clone(&self.pool.shared), details, task);
        match self.enter(job, manner) {
            Ok(()) => Ok(Ticket::new(claim).noting(self.placed())),
            Err(refused) => Err(refused.map(Job::into_closure::<Arc<Shared>, F, T>)),
        }
    }

    /// As [`PoolHandle::spawn_async`].
    pub fn spawn_async<F>(self, future: F) -> Result<Ticket<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_async_by(future, Manner::ByPolicy)
    }

    /// As [`PoolHandle::try_spawn_async`].
    pub fn try_spawn_async<F>(self, future: F) -> Result<Ticket<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_async_by(future, Manner::Refused)
    }

    fn spawn_async_by<F>(self, future: F, manner: Manner) -> Result<Ticket<F::Output>, SubmitError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Some(details) = self.details() else { return Err(self.note(SubmitError::TooLate(future))) };
        let (job, claim) = job::future(Arc::clone(&self.pool.shared), details, future);
        let back = |refused: SubmitError<Job>| refused.map(Job::into_future::<Arc<Shared>, F>);
        if self.pool.shared.stops() {
            return Err(self.note(back(SubmitError::Closed(job))));
        }
        if !self.pool.shared.futures.enter() {
            return Err(self.note(back(SubmitError::Full(job))));
        }
        match self.enter(job, manner) {
            Ok(()) => Ok(Ticket::new(claim).noting(self.placed())),
            Err(refused) => {
                self.pool.shared.future_left(NOT_NOTED);
                Err(back(refused))
            }
        }
    }

    /// Counts and tells a refusal that no queue was asked about.
    fn note<F>(self, refused: SubmitError<F>) -> SubmitError<F> {
        self.pool.shared.note_refusal(refused.reason());
        refused
    }

    /// Where the task that was just taken in was put.
    fn placed(self) -> Placed {
        let own =
            || current::worker_of(&self.pool.shared).map(|worker| Placed::Own { worker: worker.number });
        why::take_note().or_else(own).unwrap_or_default()
    }

    /// Gives a job to a queue, and has its deadline watched.
    fn enter(self, job: Job, manner: Manner) -> Result<(), SubmitError<Job>> {
        // What an earlier task left there is not about this one.
        why::take_note();
        let watched = job.to_watch();
        self.pool.admit(self.route(), job, manner)?;
        if let Some(task) = watched {
            task.watch();
        }
        Ok(())
    }

    /// What the task's cell must know; `None` if it could not be done in time even if it began at once.
    fn details(self) -> Option<Details> {
        let Some(options) = self.options else { return Some(Details::default()) };
        let timed = options.deadline.is_some() || options.timeout.is_some();
        let now = timed.then(Instant::now);
        let due = now.and_then(|now| options.due(now));
        let done = now.and_then(|now| now.checked_add(options.expected.unwrap_or_default()));
        let late = |due: Instant| done.is_none_or(|done| done >= due);
        if due.is_some_and(late) {
            return None;
        }
        Some(Details {
            name: options.name.clone(),
            priority: options.priority,
            due,
            expected: options.expected,
        })
    }

    fn route(self) -> Route {
        self.options.map_or_else(Route::default, |options| Route {
            priority: options.priority,
            affinity: options.affinity,
            expected_ns: options.expected.map_or(0, |expected| expected.as_nanos() as u64),
        })
    }
}
