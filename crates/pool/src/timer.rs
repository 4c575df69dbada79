//! The timer: one thread of a pool that notices when the deadline of a task passes.
//!
//! It starts with the first deadline, sleeps until the next one is due or an earlier one comes, and never polls. A
//! task that ends before its deadline is forgotten at once, so there are never more entries than live tasks with a
//! deadline. What a task does when it is late is its own affair (`TaskRef::deadline_passed`): it may drop a closure
//! or a future and call back whoever waits, on this thread, so one that dawdles there makes others late.
//!
//! Nothing hangs on it but time: a worker that comes to a late task notices by itself.

use crate::cell::TaskRef;
use crate::futex::{self, Scope};
use crate::sync::{AtomicU32, Mutex, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The timer of one pool.
pub(crate) struct Timer {
    deadlines: Arc<Deadlines>,
    name: String,
    /// `None` before the first deadline and after the end. Never locked together with `deadlines`.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Timer {
    /// A timer whose thread will have this name.
    pub(crate) fn new(name: String) -> Self {
        Self { deadlines: Arc::new(Deadlines::new()), name, thread: Mutex::new(None) }
    }

    /// Starts the thread, unless it runs or the timer has stopped.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.deadlines.is_stopped() {
            let deadlines = Arc::clone(&self.deadlines);
            *thread = Some(thread::Builder::new().name(self.name.clone()).spawn(move || deadlines.serve())?);
        }
        Ok(())
    }

    /// Tells `task` when it is `due`. If the system will not start a thread, a task is told when a worker comes to
    /// it.
    pub(crate) fn watch(&self, due: Instant, task: TaskRef) {
        // Whoever wants to know of the error calls `start` before.
        let _ = self.start();
        self.deadlines.add(due, task);
    }

    /// Forgets about `task`.
    pub(crate) fn unwatch(&self, due: Instant, task: &TaskRef) {
        self.deadlines.remove(due, task);
    }

    /// How many deadlines it has in mind.
    pub(crate) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// Forgets everything and waits for the thread to end. Deadlines that come after this are not noticed.
    pub(crate) fn stop(&self) {
        let forgotten = self.deadlines.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(forgotten);
        // The last reference to a pool may go with a task that ends on this very thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            thread.join().expect("the timer catches what tasks panic with");
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Who is to be told when. Shared by the timer's thread and by whoever starts or ends a task.
pub(crate) struct Deadlines {
    book: Mutex<Book>,
    /// Stepped when the thread must look again: an earlier deadline, or the end.
    changes: AtomicU32,
}

#[derive(Default)]
struct Book {
    /// By time, and among equals by the task's address.
    entries: BTreeMap<(Instant, usize), TaskRef>,
    stopped: bool,
}

/// What the thread does next.
enum Next {
    /// This task is late.
    Tell(TaskRef),
    /// Nothing is due before then, if ever; the number of changes that is known.
    Sleep(Option<Instant>, u32),
    Stop,
}

impl Deadlines {
    pub(crate) fn new() -> Self {
        Self { book: Mutex::default(), changes: AtomicU32::new(0) }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Book> + '_ {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    pub(crate) fn add(&self, due: Instant, task: TaskRef) {
        let mut book = self.lock();
        if book.stopped {
            // The task may go with this reference, and its drop may take time.
            drop(book);
            return;
        }
        let key = (due, task.address());
        let before = book.entries.insert(key, task);
        let is_first = book.entries.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(book);
        drop(before);
        if is_first {
            self.tell_thread();
        }
    }

    pub(crate) fn remove(&self, due: Instant, task: &TaskRef) {
        let removed = self.lock().entries.remove(&(due, task.address()));
        // Only now, when the lock is free: it may be the last reference.
        drop(removed);
    }

    fn stop(&self) -> BTreeMap<(Instant, usize), TaskRef> {
        let mut book = self.lock();
        book.stopped = true;
        let forgotten = std::mem::take(&mut book.entries);
        drop(book);
        self.tell_thread();
        forgotten
    }

    fn tell_thread(&self) {
        self.changes.fetch_add(1, Relaxed);
        futex::wake(&self.changes, 1, Scope::Private);
    }

    /// The life of the thread.
    fn serve(&self) {
        loop {
            match self.next(Instant::now()) {
                Next::Tell(task) => task.deadline_passed(),
                Next::Sleep(until, changes) => {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    futex::wait(&self.changes, changes, left, Scope::Private);
                }
                Next::Stop => return,
            }
        }
    }

    fn next(&self, now: Instant) -> Next {
        // Read before the book: a change after this ends the sleep at once.
        let changes = self.changes.load(Relaxed);
        let mut book = self.lock();
        if book.stopped {
            return Next::Stop;
        }
        let first = book.entries.first_entry();
        match first {
            Some(first) if first.key().0 <= now => Next::Tell(first.remove()),
            Some(first) => Next::Sleep(Some(first.key().0), changes),
            None => Next::Sleep(None, changes),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::cell::Details;
    use crate::counters::Ending;
    use crate::error::TaskError;
    use crate::job::{self, Job};
    use crate::options::Priority;
    use crate::schedule::{End, Schedule};
    use crate::ticket::Ticket;
    use crate::token::is_cancelled;
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    /// A pool that is all timer.
    #[derive(Clone)]
    struct Clock(Arc<(Timer, Mutex<Vec<Ending>>)>);

    impl Clock {
        fn new() -> Self {
            Self(Arc::new((Timer::new("clock".to_owned()), Mutex::default())))
        }

        fn endings(&self) -> Vec<Ending> {
            self.0.1.lock().unwrap().clone()
        }

        fn submit<T: Send + 'static>(
            &self,
            due: Instant,
            closure: impl FnOnce() -> T + Send + 'static,
        ) -> (Job, Ticket<T>) {
            let details = Details { due: Some(due), ..Details::default() };
            let (job, claim) = job::closure(self.clone(), details, closure);
            job.to_watch().expect("it has a deadline").watch();
            (job, Ticket::new(claim))
        }
    }

    impl Schedule for Clock {
        fn queue(&self, job: Job) {
            drop(job);
        }
        fn queue_inside(job: Job) {
            drop(job);
        }
        fn waits(&self, _task: &TaskRef) {}

        fn ended(&self, end: End) {
            self.0.1.lock().unwrap().push(end.ending);
        }
        fn entry_left(&self, _address: usize, _priority: Priority) {}

        fn wait_once(&self, _may_run: bool, wait: impl FnOnce(Option<Duration>)) {
            wait(None);
        }
        fn spin(&self) -> Duration {
            Duration::ZERO
        }
        fn stops(&self) -> bool {
            false
        }
        fn is_inside(&self) -> bool {
            false
        }
        fn watch(&self, due: Instant, task: TaskRef) {
            self.0.0.watch(due, task);
        }
        fn unwatch(&self, due: Instant, task: &TaskRef) {
            self.0.0.unwatch(due, task);
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(2)
    }

    fn much_later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn a_queued_task_expires_when_its_time_is_up_and_not_those_after_it() {
        let clock = Clock::new();
        let (late_job, late) = clock.submit(much_later(), || 2);
        let (job, ticket) = clock.submit(soon(), || 1);
        assert!(matches!(ticket.wait(), Err(TaskError::Expired)));
        assert_eq!((clock.endings(), clock.0.0.len()), (vec![Ending::Expired], 1));
        assert!(matches!(job.run(), job::Turn::Stale(None)));
        assert!(matches!(late_job.run(), job::Turn::Ended));
        assert_eq!(late.wait().unwrap(), 2);
        assert_eq!(clock.0.0.len(), 0, "a task that ends early is forgotten");
    }

    #[test]
    fn a_running_closure_is_overtaken_and_its_late_result_is_dropped() {
        let clock = Clock::new();
        let (result, dropped) = mpsc::channel::<()>();
        let (job, ticket) = clock.submit(soon(), move || {
            while !is_cancelled() {
                thread::yield_now();
            }
            result
        });
        let worker = thread::spawn(|| job.run());
        assert!(matches!(ticket.wait(), Err(TaskError::TimedOut | TaskError::Expired)));
        worker.join().unwrap();
        assert_eq!(dropped.recv(), Err(mpsc::RecvError), "nobody has the result");
        assert_eq!(clock.endings().len(), 1);
    }

    #[test]
    fn a_future_that_waits_is_dropped_when_its_time_is_up() {
        let clock = Clock::new();
        let (held, dropped) = mpsc::channel::<()>();
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let shelf = Arc::clone(&wakers);
        let waits = poll_fn(move |context| {
            let _held = &held;
            shelf.lock().unwrap().push(context.waker().clone());
            Poll::<()>::Pending
        });
        let (job, claim) =
            job::future(clock.clone(), Details { due: Some(soon()), ..Details::default() }, waits);
        let task = job.to_watch().unwrap();
        job.run();
        task.watch();
        // On a machine that is slow enough its time was up before it ran.
        assert!(matches!(Ticket::new(claim).wait(), Err(TaskError::TimedOut | TaskError::Expired)));
        assert_eq!(dropped.recv(), Err(mpsc::RecvError));
        assert_eq!((clock.endings().len(), clock.0.0.len()), (1, 0));
    }

    #[test]
    fn a_task_that_ended_before_it_was_watched_is_not_remembered() {
        let clock = Clock::new();
        let details = Details { due: Some(much_later()), ..Details::default() };
        let (job, claim) = job::closure(clock.clone(), details, || ());
        let task = job.to_watch().unwrap();
        job.run();
        task.watch();
        assert_eq!(clock.0.0.len(), 0);
        assert!(claim.take().is_ok());
    }

    #[test]
    fn a_timer_stops_with_entries_left_and_takes_no_more() {
        let clock = Clock::new();
        let (job, ticket) = clock.submit(much_later(), || 1);
        assert_eq!(clock.0.0.len(), 1);
        clock.0.0.stop();
        assert_eq!(clock.0.0.len(), 0);
        let (second, other) = clock.submit(much_later(), || 2);
        assert_eq!(clock.0.0.len(), 0);
        drop((job, second));
        assert!(ticket.wait().is_err() && other.wait().is_err());
        clock.0.0.stop();
    }

    #[test]
    fn the_last_task_may_take_the_timer_along_on_its_own_thread() {
        let clock = Clock::new();
        let (told, is_told) = mpsc::channel();
        let (job, ticket) = clock.submit(soon(), || 1);
        ticket.on_done(move |result| told.send(result.is_err()).unwrap());
        // The entry that the job is goes first, then our own reference: the timer's is the last but for the task's.
        drop(clock);
        let expired = is_told.recv().unwrap();
        drop(job);
        assert!(expired);
    }
}
