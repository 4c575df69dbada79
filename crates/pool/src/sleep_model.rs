//! Models of falling asleep and waking: no task is left in a queue while every worker sleeps.
//!
//! The queue is a bare counter whose every access is relaxed, so that nothing but the protocol's own fences can carry
//! the news. Whoever runs the last task ends the model; should a task stay behind, everybody sleeps for ever, which
//! the checkers report.

use crate::model::explore;
use crate::sleep::Sleep;
use crate::sync::{Arc, AtomicU32, Ordering::Relaxed, thread};
use std::time::Duration;

struct Pool {
    sleep: Sleep,
    queue: AtomicU32,
    /// Tasks for the worker of seat 0 first.
    inbox: AtomicU32,
    tasks_left: AtomicU32,
    /// Whether the last task but one runs until the last has been run.
    in_company: bool,
}

impl Pool {
    fn new(workers: usize, tasks: u32, in_company: bool) -> Arc<Self> {
        Self::with(Sleep::new(workers), tasks, in_company)
    }

    /// Of workers whose doze is over at once. The others never come to the end of theirs.
    fn light(workers: usize, tasks: u32, in_company: bool) -> Arc<Self> {
        Self::with(Sleep::dozing(workers, Duration::ZERO), tasks, in_company)
    }

    fn with(sleep: Sleep, tasks: u32, in_company: bool) -> Arc<Self> {
        Arc::new(Self {
            sleep,
            queue: AtomicU32::new(0),
            inbox: AtomicU32::new(0),
            tasks_left: AtomicU32::new(tasks),
            in_company,
        })
    }

    fn submit(&self) {
        self.queue.fetch_add(1, Relaxed);
        self.sleep.work_came();
    }

    /// As a task does, with its worker's own queue.
    fn submit_inside(&self) {
        self.queue.fetch_add(1, Relaxed);
        self.sleep.work_came_inside();
    }

    fn take(&self) -> bool {
        [&self.queue, &self.inbox].into_iter().any(|queue| {
            let waiting = queue.load(Relaxed);
            waiting > 0 && queue.compare_exchange(waiting, waiting - 1, Relaxed, Relaxed).is_ok()
        })
    }

    fn anything_waits(&self) -> bool {
        self.queue.load(Relaxed) > 0 || self.inbox.load(Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        self.tasks_left.load(Relaxed) == 0
    }

    fn run(&self) {
        let left = self.tasks_left.fetch_sub(1, Relaxed) - 1;
        if left == 0 {
            self.sleep.wake_all();
        }
        // A task may need another to be run beside it.
        while self.in_company && left == 1 && self.tasks_left.load(Relaxed) == 1 {
            thread::yield_now();
        }
    }

    /// As `worker/park.rs` does it, with one look for a search.
    fn work(&self, seat: usize) {
        while !self.is_over() {
            if self.take() {
                self.run();
                continue;
            }
            let mut searches = self.sleep.start_search(1);
            loop {
                let found = searches && self.take();
                if found || self.is_over() {
                    if searches {
                        self.sleep.end_search(|| self.anything_waits());
                    }
                    if found {
                        self.run();
                    }
                    break;
                }
                self.sleep.park(seat, searches, || self.anything_waits() || self.is_over(), || None);
                searches = true;
            }
        }
    }
}

fn workers(pool: &Arc<Pool>, count: usize) -> Vec<thread::JoinHandle<()>> {
    let start = |seat| {
        let pool = Arc::clone(pool);
        thread::spawn(move || pool.work(seat))
    };
    (0..count).map(start).collect()
}

fn end(pool: &Pool, workers: Vec<thread::JoinHandle<()>>) {
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(pool.queue.load(Relaxed) + pool.inbox.load(Relaxed), 0, "a task was left");
    assert_eq!((pool.sleep.asleep(), pool.sleep.searching()), (0, 0), "everybody is accounted for");
}

#[test]
fn a_task_submitted_while_the_only_worker_falls_asleep_is_run() {
    explore(3, || {
        let pool = Pool::new(1, 1, false);
        let workers = workers(&pool, 1);
        pool.submit();
        end(&pool, workers);
    });
}

#[test]
fn a_task_put_in_by_a_swap_while_the_only_worker_falls_asleep_is_run() {
    explore(3, || {
        let pool = Pool::new(1, 1, false);
        let workers = workers(&pool, 1);
        pool.queue.fetch_add(1, Relaxed);
        pool.sleep.work_came_by_swap();
        end(&pool, workers);
    });
}

#[test]
fn two_tasks_and_two_workers_come_to_an_end() {
    // Three threads with this much to say: one forced switch fewer than elsewhere.
    explore(1, || {
        let pool = Pool::new(2, 2, false);
        let workers = workers(&pool, 2);
        pool.submit();
        pool.submit();
        end(&pool, workers);
    });
}

#[test]
fn a_task_that_submits_another_and_runs_on_is_helped() {
    explore(2, || {
        let pool = Pool::new(2, 2, false);
        let workers = workers(&pool, 1);
        // This thread is a worker in the middle of a task: it submits one, and waits until somebody else has run it.
        pool.submit();
        while pool.tasks_left.load(Relaxed) == 2 {
            thread::yield_now();
        }
        pool.run();
        end(&pool, workers);
    });
}

#[test]
fn a_task_that_a_task_submits_while_the_other_worker_falls_asleep_is_run() {
    explore(3, || {
        let pool = Pool::light(1, 1, false);
        let workers = workers(&pool, 1);
        // This thread is a worker in the middle of a task that goes on for long.
        pool.submit_inside();
        end(&pool, workers);
    });
}

#[test]
fn two_tasks_that_a_task_submits_and_that_need_each_other_are_run_side_by_side() {
    // As above.
    explore(1, || {
        let pool = Pool::light(2, 2, true);
        let workers = workers(&pool, 2);
        pool.submit_inside();
        pool.submit_inside();
        end(&pool, workers);
    });
}

#[test]
fn a_task_that_a_task_submits_is_run_beside_one_that_comes_from_outside_and_wakes_a_dozer() {
    // Who is called by the one from outside may miss the other when its search ends.
    explore(1, || {
        let pool = Pool::light(2, 2, true);
        let workers = workers(&pool, 2);
        let outside = Arc::clone(&pool);
        let submitter = thread::spawn(move || outside.submit());
        pool.submit_inside();
        submitter.join().unwrap();
        end(&pool, workers);
    });
}

#[test]
fn a_task_for_one_worker_reaches_it_while_it_falls_asleep() {
    explore(3, || {
        let pool = Pool::new(1, 1, false);
        let workers = workers(&pool, 1);
        pool.inbox.fetch_add(1, Relaxed);
        pool.sleep.work_came_for(0);
        end(&pool, workers);
    });
}

#[test]
fn two_tasks_that_need_each_other_are_run_side_by_side() {
    explore(2, || {
        let pool = Pool::new(2, 2, true);
        let workers = workers(&pool, 2);
        pool.submit();
        pool.submit();
        end(&pool, workers);
    });
}
