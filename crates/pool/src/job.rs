//! `Job`: a task as an entry of a queue, one word long.
//!
//! Whoever takes it out runs it. It may be stale by then: cancelled, expired, or run by whoever waited for it. A job
//! that is dropped ends its task unrun, so that no ticket waits in vain.
//!
//! Not here: what is behind the word (`cell.rs`).

use crate::cell::{self, Begun, Claim, Details, TaskRef};
use crate::options::Priority;
use crate::schedule::Schedule;
use crate::state::Verdict;
use crate::task::{PartOf, Task};
use crate::work::{Call, Polled};
use std::fmt;

/// A queued task. There is always one until the job is used up.
pub(crate) struct Job(Option<TaskRef>);

/// What came of running a job.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The task has ended.
    Ended,
    /// It is a future and waits to be woken.
    Waits,
    /// It is a future and was woken while it ran: it goes to the end of a queue.
    Again(Job),
    /// It had been taken before; its end was or will be counted by others. Another may have taken its place.
    Stale(Option<Task>),
}

/// A closure's job, and the claim on its result.
pub(crate) fn closure<S, F, T>(schedule: S, details: Details, closure: F) -> (Job, Claim<T>)
where
    S: Schedule,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    cell::claimed(schedule, details, Call(closure))
}

/// A future's job, and the claim on its result.
pub(crate) fn future<S, F>(schedule: S, details: Details, future: F) -> (Job, Claim<F::Output>)
where
    S: Schedule,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    cell::claimed(schedule, details, Polled(future))
}

/// A closure's job, when nobody wants the result.
pub(crate) fn detached_closure<S, F, T>(schedule: S, details: Details, closure: F) -> Job
where
    S: Schedule,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    cell::detached(schedule, details, Call(closure))
}

impl Job {
    pub(crate) fn new(task: TaskRef) -> Self {
        Self(Some(task))
    }

    /// Runs the task, for one step if it is a future. Does not unwind.
    #[inline]
    pub(crate) fn run(mut self) -> Turn {
        let Some(task) = self.0.take() else { return Turn::Stale(None) };
        match task.begin(true) {
            Begun::Run(running) => running.go(),
            Begun::Close(closing) => {
                closing.conclude();
                Turn::Ended
            }
            Begun::Stale(heir) => Turn::Stale(heir),
        }
    }

    /// Ends the task unrun. If it is stale, it returns who took its place. Does not unwind.
    pub(crate) fn discard(mut self, why: Verdict) -> Option<Task> {
        self.0.take()?.discard(why)
    }

    /// Takes the closure out again, of a job that was refused. The task counts as never taken in; its claim, if there
    /// is one, is worth nothing.
    pub(crate) fn into_closure<S, F, T>(mut self) -> F
    where
        S: Schedule,
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let call = self.0.take().and_then(|task| task.take_work::<S, Call<F>>());
        call.expect("a refused job is still that of its closure").0
    }

    /// As `into_closure`, for a future.
    pub(crate) fn into_future<S, F>(mut self) -> F
    where
        S: Schedule,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let polled = self.0.take().and_then(|task| task.take_work::<S, Polled<F>>());
        polled.expect("a refused job is still that of its future").0
    }

    /// It is about to wait in the place of `root`.
    pub(crate) fn inherits(&self, root: &TaskRef) {
        self.0.iter().for_each(|task| task.set_root(root.clone()));
    }

    /// Whether it has been worked on before.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|task| task.look().is_started())
    }

    /// What it is a part of.
    pub(crate) fn part_of(&self) -> PartOf {
        let Some(task) = &self.0 else { return PartOf::Nothing };
        match task.look() {
            seen if seen.is_done() => PartOf::Ended,
            _ if task.is_future() => PartOf::Future,
            seen if seen.has_sleeper() || seen.has_waker() => PartOf::Awaited,
            _ => PartOf::Nothing,
        }
    }

    /// Whether this thread is a worker of its pool.
    pub(crate) fn is_inside(&self) -> bool {
        self.0.as_ref().is_some_and(TaskRef::is_inside)
    }

    /// Puts it into a queue of its pool, which cannot refuse it.
    pub(crate) fn requeue(self) {
        if let Some(task) = self.0.clone() {
            task.queue(self);
        }
    }

    pub(crate) fn priority(&self) -> Priority {
        self.0.as_ref().map(TaskRef::priority).unwrap_or_default()
    }

    /// The task, to have its deadline watched when the job has been taken in; `None` if it has no deadline.
    pub(crate) fn to_watch(&self) -> Option<TaskRef> {
        self.0.as_ref().filter(|task| task.due().is_some()).cloned()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            drop(task.discard(Verdict::Cancelled));
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.0.as_ref();
        f.debug_struct("Job")
            .field("name", &task.and_then(TaskRef::name))
            .field("state", &task.map(TaskRef::look))
            .finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::counters::Ending;
    use crate::error::TaskError;
    use crate::ticket::Ticket;
    use crate::toy::{Toy, far_away};
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_job_is_one_word() {
        assert_eq!(size_of::<Job>(), size_of::<usize>());
    }

    #[test]
    fn a_refused_job_gives_back_what_it_was_made_of_and_counts_as_never_taken_in() {
        fn same<F: FnOnce() -> u32 + Send + 'static>(job: Job, _like: &F) -> F {
            job.into_closure::<Toy, F, u32>()
        }
        let toy = Toy::new();
        let witness = Arc::new(7_u32);
        let held = Arc::clone(&witness);
        let closure = move || *held;
        let (job, ticket) = toy.closure(closure.clone());
        let back = same(job, &closure);
        drop(ticket);
        drop(closure);
        assert_eq!((back(), Arc::strong_count(&witness)), (7, 2));
        let (job, ticket) = toy.future(std::future::ready(8));
        drop(ticket);
        assert_eq!(job.into_future::<Toy, std::future::Ready<i32>>().into_inner(), 8);
        assert_eq!((toy.endings().len(), toy.cells()), (0, 0));
    }

    #[test]
    fn a_job_that_is_dropped_tells_its_ticket() {
        let toy = Toy::new();
        let (job, ticket) = toy.closure(|| 1);
        assert_eq!(format!("{job:?}"), "Job { name: None, state: Some(queued) }");
        drop(job);
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        assert_eq!((toy.endings(), toy.left_in_queue(), toy.cells()), (vec![Ending::Cancelled], 0, 0));
    }

    #[test]
    fn a_task_nobody_waits_for_needs_no_ticket() {
        let toy = Toy::new();
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let job = detached_closure(toy.clone(), Details::default(), move || held);
        assert!(matches!(job.run(), Turn::Ended));
        assert_eq!((Arc::strong_count(&witness), toy.cells()), (1, 0));
        assert_eq!(toy.endings(), [Ending::Completed]);
    }

    #[test]
    fn a_task_that_is_late_or_would_be_is_not_begun() {
        let toy = Toy::new();
        let run_with = |due: Instant, expected: Option<Duration>| {
            let details = Details { due: Some(due), expected, ..Details::default() };
            let (job, claim) = closure(toy.clone(), details, || ());
            toy.run(job);
            claim.take()
        };
        let hour = Duration::from_secs(3600);
        assert!(matches!(run_with(Instant::now(), None), Err(TaskError::Expired)));
        assert!(matches!(run_with(Instant::now() + hour, Some(hour * 2)), Err(TaskError::Expired)));
        assert!(matches!(run_with(Instant::now() + hour, Some(Duration::MAX)), Err(TaskError::Expired)));
        assert!(run_with(Instant::now() + hour * 2, Some(hour)).is_ok());
        let ends = [Ending::Expired, Ending::Expired, Ending::Expired, Ending::Completed];
        assert_eq!((toy.endings(), toy.left_in_queue(), toy.cells()), (ends.to_vec(), 0, 0));
    }

    /// Numbers that look random, from a seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % sides
        }
    }

    /// A future that wakes itself `turns` times, through a waker of its own or the one it was lent.
    async fn restless(turns: u64, held: Arc<()>) -> Arc<()> {
        for turn in 0..turns {
            let mut waited = false;
            poll_fn(|context| match std::mem::replace(&mut waited, true) {
                true => Poll::Ready(()),
                false if turn % 2 == 0 => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                false => {
                    let waker = context.waker().clone();
                    thread::spawn(move || waker.wake());
                    Poll::Pending
                }
            })
            .await;
        }
        held
    }

    /// Submits tasks of all kinds to be run, and does something to each.
    fn trouble(toy: &Toy, dice: &mut Dice, tasks: usize, witness: &Arc<()>) {
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..tasks {
            let held = Arc::clone(witness);
            let (job, ticket) = match dice.roll(4) {
                0 => toy.future(restless(dice.roll(4), held)),
                1 => toy.closure(move || std::panic::resume_unwind(Box::new(held))),
                2 => {
                    let details = Details { due: Some(far_away()), ..Details::default() };
                    let (job, claim) = closure(toy.clone(), details, move || held);
                    let task = job.to_watch().expect("it has a deadline");
                    task.watch();
                    running.push(thread::spawn(move || task.deadline_passed()));
                    (job, Ticket::new(claim))
                }
                _ => toy.closure(move || held),
            };
            match dice.roll(16) {
                0 => drop(job),
                _ => toy.queue(job),
            }
            match dice.roll(4) {
                0 => drop(ticket),
                1 => _ = ticket.cancel(),
                2 => ticket.on_done(drop),
                _ => waiting.push(ticket),
            }
        }
        running.into_iter().for_each(|thread| thread.join().unwrap());
        waiting.into_iter().for_each(|ticket| drop(toy.inside(|| ticket.wait())));
    }

    #[test]
    fn whatever_happens_each_task_ends_once_and_nothing_is_left() {
        let seed =
            std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                now.map_or(1, |now| now.as_nanos() as u64)
            });
        println!("MILLPOND_SEED={seed}");
        let (submitters, tasks) = if cfg!(miri) { (2, 12) } else { (3, 2_000) };
        let toy = Toy::with_deadlines();
        let witness = Arc::new(());
        let submitting = AtomicUsize::new(submitters);
        thread::scope(|scope| {
            for number in 0..submitters {
                let (toy, witness, submitting) = (&toy, &witness, &submitting);
                scope.spawn(move || {
                    let mut dice = Dice((seed ^ (number as u64) << 32) | 1);
                    trouble(toy, &mut dice, tasks, witness);
                    submitting.fetch_sub(1, Ordering::Release);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while submitting.load(Ordering::Acquire) > 0 {
                        toy.run_all();
                        thread::yield_now();
                    }
                });
            }
        });
        // A future may still be on its way from a thread that wakes it.
        let patience = Instant::now() + Duration::from_secs(60);
        while toy.run_all() > 0 || toy.cells() > 0 {
            assert!(Instant::now() < patience, "{} cells are left", toy.cells());
            thread::yield_now();
        }
        assert_eq!(toy.endings().len(), submitters * tasks);
        assert_eq!((Arc::strong_count(&witness), toy.watched(), toy.queue_len()), (1, 0, 0));
    }
}
