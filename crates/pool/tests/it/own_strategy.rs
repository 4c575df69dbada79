//! Strategies of the user's own: they see what they ask for, are told of what happens, and are obeyed.
//!
//! They are foreign code that runs under the pool's lock, on threads of the pool and of submitters. So they also name
//! workers that are not there, panic, and submit to the pool that asks them; the pool must outlive it all.
//!
//! Not here: the strategies that come with the pool (`strategies.rs`).

use crate::busy::{Busy, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::strategies::{choosing_pool, held_pool, number_of, waiting_at_workers};
use millpond::policy::choose::{Choice, Choose, Reason};
use millpond::policy::view::{Columns, TaskView, Views, WorkerView};
use millpond::{CancelAnswer, Moment, Placed, Pool, PoolHandle, Priority, Strategy, yield_now};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What a strategy of the user's own was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    added: Vec<u32>,
    removed: Vec<u32>,
    /// How many tasks ended at each worker.
    done: Vec<u64>,
    /// The last picture it chose from: running and waiting tasks of each worker.
    seen: Vec<(u32, u32)>,
}

/// Chooses what it is told to choose, and notes what it is told.
#[derive(Debug, Default)]
pub(crate) struct Obedient {
    choice: Mutex<Option<u32>>,
    told: Mutex<Told>,
}

impl Obedient {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    /// A strategy that chooses this worker, or none, until told otherwise.
    pub(crate) fn choosing(worker: Option<u32>) -> (Arc<Self>, Strategy) {
        let shared = Arc::new(Self { choice: Mutex::new(worker), ..Self::default() });
        let made = Arc::clone(&shared);
        (shared, Strategy::custom("obedient", move || Box::new(Noting(Arc::clone(&made)))))
    }
}

#[derive(Debug)]
struct Noting(Arc<Obedient>);

impl Choose for Noting {
    fn name(&self) -> &str {
        "obedient"
    }

    fn reads(&self) -> Columns {
        Columns::LOAD
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        self.0.told().seen = workers.rows().map(|worker| (worker.running, worker.queued)).collect();
        let worker = (*self.0.choice.lock().unwrap())?;
        Some(Choice { at: worker as usize, worker, reason: Reason::Custom("it was told so") })
    }

    fn wants_task_done(&self) -> bool {
        true
    }

    fn task_done(&mut self, worker: u32, _ran: Duration, _now: Moment) {
        let mut told = self.0.told();
        let workers = told.done.len().max(worker as usize + 1);
        told.done.resize(workers, 0);
        told.done[worker as usize] += 1;
    }

    fn worker_added(&mut self, worker: &WorkerView, _now: Moment) {
        self.0.told().added.push(worker.id);
    }

    fn worker_removed(&mut self, worker: u32) {
        self.0.told().removed.push(worker);
    }
}

#[test]
fn a_strategy_of_ones_own_sees_what_runs_and_waits_and_is_obeyed() {
    promptly("the tasks run", || {
        let (obedient, strategy) = Obedient::choosing(Some(1));
        let (pool, busy) = held_pool(2, &strategy);
        assert_eq!(pool.strategy(), "obedient");
        let tickets: Vec<_> = (0..5).map(|_| pool.submit(thread_name).unwrap()).collect();
        assert_eq!(obedient.told().seen, [(1, 0), (1, 4)]);
        assert_eq!(waiting_at_workers(&pool), [0, 5]);
        drop(busy);
        for ticket in tickets {
            assert_eq!(ticket.placed().to_string(), "it was given to worker 1: it was told so");
            assert_eq!(number_of(&ticket.wait().unwrap()), 1);
        }
    });
}

#[test]
fn a_task_for_nobody_or_for_a_worker_that_is_not_there_goes_to_the_shared_queue() {
    promptly("the tasks run", || {
        for nobody in [None, Some(2), Some(u32::MAX)] {
            let (_, strategy) = Obedient::choosing(nobody);
            let (pool, busy) = held_pool(2, &strategy);
            let tickets: Vec<_> = (0..5).map(|number| pool.submit(move || number).unwrap()).collect();
            assert_eq!(pool.metrics().lane(Priority::Normal).len, 5);
            drop(busy);
            for (number, ticket) in tickets.into_iter().enumerate() {
                assert_eq!(ticket.placed(), Placed::Shared);
                assert_eq!(ticket.wait().unwrap(), number);
            }
        }
    });
}

#[test]
fn a_task_for_a_worker_that_has_left_is_passed_on() {
    promptly("the tasks run", || {
        let (_, strategy) = Obedient::choosing(Some(1));
        let pool = choosing_pool(2, strategy);
        pool.resize(1).unwrap();
        eventually("the second leaves", || pool.metrics().workers_running == 1);
        for _ in 0..100 {
            assert_eq!(number_of(&pool.submit(thread_name).unwrap().wait().unwrap()), 0);
        }
    });
}

#[test]
fn a_strategy_is_told_of_every_closure_that_ends_also_in_a_panic() {
    let (obedient, strategy) = Obedient::choosing(Some(1));
    let pool = choosing_pool(2, strategy);
    (0..100).for_each(|_| pool.spawn(|| ()).unwrap());
    (0..10).for_each(|_| pool.spawn(|| resume_unwind(Box::new("on purpose"))).unwrap());
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(obedient.told().done, [0, 110]);
}

#[test]
fn a_strategy_is_told_once_of_a_future_and_never_of_what_was_cancelled() {
    let (obedient, strategy) = Obedient::choosing(Some(0));
    let pool = choosing_pool(1, strategy);
    let yields = pool.spawn_async(async {
        for _ in 0..50 {
            yield_now().await;
        }
    });
    yields.unwrap().wait().unwrap();
    let busy = Busy::one(&pool);
    let cancelled: Vec<_> = (0..10).map(|_| pool.submit(|| ()).unwrap()).collect();
    assert!(cancelled.iter().all(|ticket| ticket.cancel() == CancelAnswer::Cancelled));
    busy.release();
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(obedient.told().done, [2], "the future, and what kept the worker busy");
}

#[test]
fn a_strategy_is_told_of_workers_that_come_and_go_and_of_those_there_before_it() {
    let (obedient, strategy) = Obedient::choosing(None);
    let pool = choosing_pool(2, Strategy::shared());
    pool.set_strategy(&strategy);
    assert_eq!(obedient.told().added, [0, 1], "those that are there");
    pool.resize(4).unwrap();
    eventually("two come", || obedient.told().added.len() == 4);
    pool.resize(1).unwrap();
    eventually("three go", || obedient.told().removed.len() == 3);
    let mut told = obedient.told().clone();
    told.added.sort_unstable();
    told.removed.sort_unstable();
    assert_eq!((told.added, told.removed), (vec![0, 1, 2, 3], vec![1, 2, 3]));
    assert_eq!(pool.set_strategy(&Strategy::shared()), "obedient");
    pool.resize(2).unwrap();
    until_asleep(&pool);
    assert_eq!(obedient.told().added.len(), 4, "one that is not in force is told nothing");
}

/// Does something of its own whenever it is asked or told something, and chooses nobody.
struct Unruly<F>(F);

impl<F> fmt::Debug for Unruly<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unruly")
    }
}

impl<F: Fn(&str) + Send> Choose for Unruly<F> {
    fn name(&self) -> &str {
        "unruly"
    }

    fn reads(&self) -> Columns {
        Columns::NONE
    }

    fn choose(&mut self, _workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        self.0("choose");
        None
    }

    fn wants_task_done(&self) -> bool {
        true
    }

    fn task_done(&mut self, _worker: u32, _ran: Duration, _now: Moment) {
        self.0("task_done");
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.0("worker_added");
    }

    fn worker_removed(&mut self, _worker: u32) {
        self.0("worker_removed");
    }
}

/// Lets a strategy of this kind be asked and told everything once, and sees that the pool goes on.
fn outlives(act: impl Fn(&PoolHandle, &str) + Copy + Send + Sync + 'static) -> Pool {
    let pool = choosing_pool(2, Strategy::shared());
    let handle = pool.handle();
    let make = move || {
        let handle = handle.clone();
        Box::new(Unruly(move |told: &str| act(&handle, told))) as Box<dyn Choose>
    };
    let _ = catch_unwind(AssertUnwindSafe(|| pool.set_strategy(&Strategy::custom("unruly", make))));
    let asked = catch_unwind(AssertUnwindSafe(|| pool.spawn_async(async { 1 }).unwrap().wait().unwrap()));
    // Whoever ran the task has told the strategy before it sleeps.
    until_asleep(&pool);
    pool.resize(1).unwrap();
    eventually("one leaves", || pool.metrics().workers_running == 1);
    pool.set_strategy(&Strategy::shared());
    assert_eq!(pool.submit(|| 2).unwrap().wait().unwrap(), 2);
    let report = pool.drain(Duration::MAX);
    assert!(report.is_finished() && asked.ok().is_none_or(|result| result == 1), "{report:?}");
    pool
}

#[test]
fn a_strategy_that_panics_harms_nobody() {
    promptly("the pool goes on", || {
        for spiteful in ["choose", "task_done", "worker_added", "worker_removed"] {
            let act = move |_: &PoolHandle, told: &str| {
                if told == spiteful {
                    resume_unwind(Box::new("on purpose"));
                }
            };
            let metrics = outlives(act).metrics();
            // A panic in `worker_added` comes out of the swap itself.
            let is_counted = spiteful != "worker_added";
            assert_eq!((metrics.hooks_panicked > 0, metrics.futures_live), (is_counted, 0), "{spiteful}");
        }
    });
}

#[test]
fn a_strategy_may_submit_to_its_own_pool() {
    promptly("the tasks run", || {
        for chatty in ["choose", "task_done", "worker_added", "worker_removed"] {
            let act = move |pool: &PoolHandle, told: &str| {
                // Where it is told of every task, there would be no end to it.
                if told == chatty && pool.metrics().completed < 10 {
                    pool.spawn(|| ()).unwrap();
                }
            };
            assert!(outlives(act).metrics().completed > 2, "{chatty}");
        }
    });
}
