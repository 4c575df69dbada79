//! `scope`: tasks that borrow from the caller's stack, all of them over when it returns.
//!
//! Every task of a scope runs: one that finds the pool full or closed is run by the thread that spawns it, one that is
//! purged by the thread that waits for the scope. So a scope needs no error and cannot be refused; a pool that is short
//! of room costs it speed only.
//!
//! The thread that waits is not idle if it is a worker: it runs those of the scope's tasks that wait in its own queue,
//! newest first. Others that lie before these it puts where another worker finds them: they may take long, or wait for
//! what comes after the scope, or have scopes of their own and so on, all on one stack.
//!
//! What a scope and its tasks share lies in the frame of `scope`, which costs it no allocation; a task's last step
//! there is to count itself as over.
//!
//! Not here: the count, and the sleep of the thread that waits (`pending.rs`).

use crate::current;
use crate::handle::PoolHandle;
use crate::lanes::Wait;
use crate::options::Priority;
use crate::patience::comes_soon;
use crate::pending::{Bed, Pending};
use crate::route::Route;
use crate::stack::OnTop;
use crate::task::{PartOf, Ran, Run, Seed, Task, drop_panic};
use crate::token;
use crate::worker::Worker;
use millpond_queue::{Mark, Refusal};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::iter;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many tasks deep a thread runs what no queue takes; beyond, the thread that waits for the scope does.
const DEPTH_MAX: u32 = 16;

/// So many tasks the thread of a scope runs when its worker's queue is full, before it spawns on.
const RUN_FOR_ROOM: usize = 64;
/// So many parts of something else a worker that waits for its scope goes on with in a row.
const PARTS_IN_A_ROW: u64 = 16;
/// The longest that it looks for the end before it does something else, whatever the pool's `spin`: what it waits for
/// may wait for this very worker.
const LOOK_MAX: Duration = Duration::from_micros(20);

thread_local! {
    /// How many tasks of scopes this thread runs, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A scope in which tasks may borrow; see [`PoolHandle::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'env PoolHandle,
    /// If the thread of the scope is a worker, where its queue ended when the scope began. That thread only.
    begun_at: Option<Mark>,
    state: State,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What a scope and its tasks share. A task may use it until it has counted itself as over.
struct State {
    pending: Pending,
    rest: Mutex<Rest>,
}

#[derive(Default)]
struct Rest {
    /// Tasks that no worker will run.
    handed_back: Vec<Task>,
    /// What the first task to panic carried.
    panic: Option<Box<dyn Any + Send>>,
}

impl PoolHandle {
    /// Runs `body`, which may spawn tasks that borrow from around it, and returns when all of them are over. If one
    /// of them panicked, so does this.
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
    /// let mut halves = [vec![3, 1, 2], vec![6, 5, 4]];
    /// pool.scope(|scope| {
    ///     for half in &mut halves {
    ///         scope.spawn(|| half.sort());
    ///     }
    /// });
    /// assert_eq!(halves.concat(), [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), millpond::StartError>(())
    /// ```
    ///
    /// What a task borrows must outlive the scope, and cannot be used otherwise meanwhile:
    ///
    /// ```compile_fail,E0373
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// pool.scope(|scope| {
    ///     let inner = 3;
    ///     scope.spawn(|| println!("{inner}")); // `inner` ends before the scope does
    /// });
    /// ```
    ///
    /// ```compile_fail,E0499
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// let mut sum = 0;
    /// pool.scope(|scope| {
    ///     scope.spawn(|| sum += 1);
    ///     scope.spawn(|| sum += 1); // borrowed by the first task
    /// });
    /// ```
    ///
    /// ```compile_fail,E0277
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
    /// let local = std::rc::Rc::new(1);
    /// pool.scope(|scope| scope.spawn(|| drop(local.clone()))); // an `Rc` stays on its thread
    /// ```
    pub fn scope<'env, R>(&'env self, body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
        let worker = current::worker_of(&self.shared);
        let begun_at = worker.map(|worker| worker.own.mark());
        let state = State { pending: Pending::new(this_thread()), rest: Mutex::default() };
        let scope = Scope { pool: self, begun_at, state, scope: PhantomData, env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        // Whatever `body` did, its frame and those around it stay until every task is over.
        scope.wait();
        let panic = scope.state.rest().panic.take();
        match (result, panic) {
            (Ok(result), None) => result,
            (Ok(_), Some(panic)) => resume_unwind(panic),
            (Err(panic), other) => {
                other.into_iter().for_each(drop_panic);
                resume_unwind(panic)
            }
        }
    }

    /// Runs `work` on a worker of this pool and returns what it returns; on a worker it is a plain call. There
    /// [`join`](crate::join) forks. (Others call this `install`.) Waits for room if the queue is full. The caller runs
    /// it, and a join does not fork, if the pool has been drained or stopped, or if it is full and the caller is a
    /// worker of another pool.
    pub fn inside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if current::worker_of(&self.shared).is_some() {
            return work();
        }
        let mut result = None;
        // Two pools whose workers wait for room in the other one would wait for ever.
        let wait = if current::worker().is_some() { Wait::Never } else { Wait::Forever };
        self.scope(|scope| scope.spawn_by(Priority::Normal, wait, || result = Some(work())));
        result.expect("a scope's task that did not panic has run")
    }

    /// As [`join`](crate::join), on a worker of this pool.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.inside(|| crate::join(a, b))
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Runs `task` some time before the scope ends. It may be now, if no queue has room for it; a worker whose queue is
    /// full may also run others of the scope before this returns.
    pub fn spawn<F: FnOnce() + Send + 'scope>(&'scope self, task: F) {
        self.spawn_with(Priority::default(), task);
    }

    /// As [`spawn`](Self::spawn), in the lane of this priority.
    pub fn spawn_with<F: FnOnce() + Send + 'scope>(&'scope self, priority: Priority, task: F) {
        self.spawn_by(priority, Wait::Never, task);
    }

    fn spawn_by<F: FnOnce() + Send + 'scope>(&'scope self, priority: Priority, wait: Wait, task: F) {
        // Before anybody can see the task; the body or the task that calls this keeps the count from zero meanwhile.
        self.state.pending.one_more(this_thread());
        let scoped = Scoped { work: Some(task), state: NonNull::from(&self.state) };
        // SAFETY: `scope` does not return before `pending` is zero, which is after the task was run: dropped unrun it
        // hands itself back to the scope. So it is over before anything in `'scope` ends.
        let seed = unsafe { Seed::borrowing(scoped) };
        let is_deep = priority != Priority::Normal && self.deep_worker().is_some();
        let priority = if is_deep { Priority::Normal } else { priority };
        let route = Route { priority, ..Route::default() };
        let Err(seed) = self.pool.shared.admit_at_once(route, seed) else { return };
        if priority == Priority::Normal && self.state.pending.is_of(this_thread()) {
            self.make_room();
        }
        if let Err(task) = self.admit(route, seed.into_task(), wait) {
            if DEPTH.get() < DEPTH_MAX {
                self.run_here([task]);
            } else {
                // SAFETY: this scope waits for the task, which was just counted.
                unsafe { hand_back(NonNull::from(&self.state), task) };
            }
        }
    }

    fn admit(&self, route: Route, task: Task, wait: Wait) -> Result<(), Task> {
        match self.deep_worker() {
            Some(worker) => worker.own.push(task).map(|()| worker.tell_lightly()),
            None => self.pool.shared.admit(route, task, wait).map_err(Refusal::into_inner),
        }
    }

    /// The worker that this thread is, if there is so much on its stack that it takes nothing from elsewhere. Nobody
    /// else may be left to come for what it would put there.
    fn deep_worker(&self) -> Option<&Worker> {
        current::worker_of(&self.pool.shared).filter(|worker| !worker.stack.has_room(OnTop::Any))
    }

    /// Waits until every task is over, and runs those that no worker will.
    fn wait(&self) {
        let worker = current::worker_of(&self.pool.shared);
        if let Some(worker) = worker {
            worker.tell_for_certain();
        }
        let (mut has_looked, mut parts) = (false, 0);
        loop {
            self.run_own(usize::MAX);
            // Taken out first: the lock must not be held while the task runs.
            let handed_back = self.state.rest().handed_back.pop();
            if let Some(task) = handed_back {
                self.run_here([task]);
            } else if self.state.pending.settle() || self.is_over_soon(&mut has_looked) {
                return;
            } else if parts < PARTS_IN_A_ROW
                && let Some(part) = worker.and_then(Worker::pop_part)
            {
                parts += 1;
                self.run_here([part]);
            } else {
                parts = 0;
                current::wait_once(true, |at_most| self.state.wait(at_most));
            }
        }
    }

    /// Runs some of the scope's tasks if this is the thread of the scope, and a worker whose queue is full. Behind so
    /// many tasks nothing is gained by a place in the shared lane, which costs several times what this does.
    fn make_room(&self) {
        let is_full = |worker: &Worker| worker.own.len() >= worker.own.limit();
        if DEPTH.get() < DEPTH_MAX && current::worker_of(&self.pool.shared).is_some_and(is_full) {
            self.run_own(RUN_FOR_ROOM);
        }
    }

    /// If this is the thread of the scope, and a worker's: runs so many of the scope's tasks in the worker's queue,
    /// newest first, and puts others that lie before them aside.
    fn run_own(&self, count: usize) {
        let own = current::worker_of(&self.pool.shared).zip(self.begun_at);
        let Some((worker, begun_at)) = own else { return };
        let this_scope = PartOf::Scope(ptr::from_ref(&self.state).addr());
        // If it is over, or many have been put aside, the rest stays where it is.
        let newest = iter::from_fn(|| {
            loop {
                let task = worker.own.pop_since(begun_at)?;
                if task.part_of() == this_scope {
                    return Some(task);
                }
                let is_over = self.state.pending.count() == 0;
                if let Err(task) = if is_over { Err(task) } else { worker.set_aside(task) } {
                    worker.put_back(task);
                    return None;
                }
            }
        });
        self.run_here(newest.take(count));
    }

    /// Whether it is over before it is worth while to do something else, if that has not been waited for. To be asked
    /// when settled.
    fn is_over_soon(&self, has_looked: &mut bool) -> bool {
        let look = self.pool.shared.config.spin.min(LOOK_MAX);
        !mem::replace(has_looked, true) && comes_soon(look, || self.state.pending.is_over())
    }

    /// Runs tasks on this thread, and counts them as any other.
    fn run_here(&self, tasks: impl IntoIterator<Item = Task>) {
        let shared = &self.pool.shared;
        DEPTH.set(DEPTH.get() + 1);
        match current::worker_of(shared) {
            Some(worker) => worker.run_all_inside(tasks),
            None => {
                let _alone = token::leave();
                tasks
                    .into_iter()
                    .filter_map(|task| task.run().ending())
                    .for_each(|ending| shared.count(ending));
            }
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

impl State {
    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all tasks are over or one is handed back, but no longer than it may; it may return early.
    fn wait(&self, at_most: Option<Duration>) {
        let bed = bed_of(self);
        loop {
            let lay_down = bed.lie_down();
            if self.pending.settle() || !self.rest().handed_back.is_empty() {
                return;
            }
            bed.wait(lay_down, at_most);
            // Somebody else may have been meant, so look again; but not after a wait that was to be short.
            if at_most.is_some() {
                return;
            }
        }
    }
}

/// The thread that waits for the scope will run the task, which is one of those it waits for.
///
/// # Safety
/// The state is that of a scope, which is not over before the task is.
unsafe fn hand_back(state: NonNull<State>, task: Task) {
    // SAFETY: by the caller's word the state is there until the task is over; and nobody runs it before the lock is
    // free again, which is the last that is done with the state.
    unsafe { state.as_ref() }.rest().handed_back.push(task);
    bed_of(state.as_ptr()).call();
}

/// Where somebody may wait for this, which may be gone.
fn bed_of(state: *const State) -> &'static Bed {
    Bed::at(state.addr())
}

/// A number that no other thread has as long as this one lives.
fn this_thread() -> u64 {
    DEPTH.with(|depth| ptr::from_ref(depth).addr() as u64)
}

/// One task of a scope.
struct Scoped<F: FnOnce() + Send> {
    /// `None` once it runs.
    work: Option<F>,
    /// That of its scope, which waits for it.
    state: NonNull<State>,
}

// SAFETY: the work may be sent, and what the scope and its tasks share is for any thread.
unsafe impl<F: FnOnce() + Send> Send for Scoped<F> {}

impl<F: FnOnce() + Send> Scoped<F> {
    /// Only while this task has not counted itself as over.
    fn state(&self) -> &State {
        // SAFETY: the scope waits in its frame until this task is over, which `one_is_over` says last of all.
        unsafe { self.state.as_ref() }
    }

    /// Counts it as over; nothing of the scope may be used afterwards.
    fn one_is_over(self) {
        let state = self.state.as_ptr();
        // SAFETY: the scope waits for this task, which is here counted as over, once.
        let pending = unsafe { &raw const (*state).pending };
        // SAFETY: as above; nothing of the scope is used after this.
        if unsafe { Pending::one_is_over(pending, this_thread()) } {
            bed_of(state).call();
        }
    }
}

impl<F: FnOnce() + Send> Run for Scoped<F> {
    const COUNTS_ITSELF: bool = true;

    fn run(mut self) -> Ran {
        let work = self.work.take().expect("a task runs once");
        let ran = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(()) => Ran::Completed,
            Err(panic) => {
                // A later one is dropped when the lock is not held any more: it may do anything.
                let later = {
                    let mut rest = self.state().rest();
                    if rest.panic.is_none() { rest.panic.replace(panic) } else { Some(panic) }
                };
                later.into_iter().for_each(drop_panic);
                Ran::Panicked
            }
        };
        self.one_is_over();
        ran
    }

    /// A scope promises that all of its tasks run.
    fn must_run(&self) -> bool {
        true
    }

    fn part_of(&self) -> PartOf {
        PartOf::Scope(self.state.addr().get())
    }
}

/// Dropped unrun, by a purge or a stop: the scope's own thread will run it.
impl<F: FnOnce() + Send> Drop for Scoped<F> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let again = Scoped { work: Some(work), state: self.state };
        // SAFETY: as in `spawn_with`: the count still stands for it, so the scope waits, and runs it.
        let task = unsafe { Task::borrowing(again) };
        // SAFETY: this was a task of that scope, which is not over, and the other stands for it from here on.
        unsafe { hand_back(self.state, task) };
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.state.pending.count();
        f.debug_struct("Scope").field("pending", &pending).finish_non_exhaustive()
    }
}
