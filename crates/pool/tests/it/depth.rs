//! Tasks that wait for others of their own pool, more of them than there are workers, stand-ins and room on stacks.
//!
//! A worker that nobody can stand in for runs other tasks on top of the one that waits, and these may wait too. So many
//! begin that no more may; what they wait for must go on all the same. The stacks here are small, so that this is soon.

use crate::busy::{lone_worker, start};
use crate::eventually::promptly;
use crate::witness::add;
use async_io::Timer;
use millpond::{Pool, PoolConfig, PoolHandle, Priority, TaskOptions, Ticket, block_on};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

const TASKS: usize = 2000;

fn shallow_pool(workers: usize) -> Pool {
    start(PoolConfig {
        workers,
        workers_max: workers,
        queue_capacity: TASKS,
        stack_bytes: Some(512 << 10),
        ..PoolConfig::default()
    })
}

/// Runs so many tasks at a time that wait for something of their own pool.
fn all_wait(wait: impl Fn(&PoolHandle) -> usize + Copy + Send + 'static) {
    for workers in [1, 2] {
        promptly("all tasks come to their end", move || {
            let pool = shallow_pool(workers);
            let waits = |_| {
                let handle = pool.handle();
                pool.submit(move || wait(&handle)).unwrap()
            };
            let tickets: Vec<_> = (0..TASKS).map(waits).collect();
            let sum: usize = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).sum();
            assert_eq!(sum, TASKS);
        });
    }
}

fn low() -> TaskOptions {
    TaskOptions { priority: Priority::Low, ..TaskOptions::default() }
}

#[test]
fn any_number_of_tasks_may_wait_for_futures_that_wait_for_something_else() {
    all_wait(|pool| {
        let rests = async {
            Timer::after(Duration::from_millis(5)).await;
            1
        };
        pool.spawn_async(rests).unwrap().wait().unwrap()
    });
}

#[test]
fn any_number_of_tasks_may_wait_for_scopes_whose_tasks_come_last() {
    all_wait(|pool| {
        let mut ran = 0;
        pool.scope(|scope| scope.spawn_with(Priority::Low, || ran = 1));
        ran
    });
}

#[test]
fn any_number_of_tasks_may_block_on_closures_that_come_last() {
    all_wait(|pool| block_on(pool.with(&low()).submit(|| 1).unwrap()).unwrap());
}

#[test]
fn any_number_of_tasks_may_wait_again_and_again_for_a_short_time() {
    all_wait(|pool| {
        let mut ticket = pool.submit(|| 1).unwrap();
        loop {
            if let Some(result) = ticket.wait_timeout(Duration::from_millis(1)) {
                return result.unwrap();
            }
        }
    });
}

#[test]
fn any_number_of_tasks_may_each_wait_for_the_next() {
    promptly("the first task comes to its end", || {
        let links = 5 * TASKS;
        let pool = start(PoolConfig { workers: 1, queue_capacity: links, ..PoolConfig::default() });
        pool.pause();
        let (tell, hears): (Vec<_>, Vec<_>) = (0..links).map(|_| mpsc::channel::<Ticket<usize>>()).unzip();
        let link = |hears: mpsc::Receiver<Ticket<usize>>| {
            pool.submit(move || 1 + hears.recv().map_or(0, |next| next.wait().unwrap())).unwrap()
        };
        let mut tickets = hears.into_iter().map(link);
        let first = tickets.next().unwrap();
        // Each is given the ticket of the one behind it in the queue; the last one finds nobody to hear from.
        tell.into_iter().zip(tickets).for_each(|(tell, next)| tell.send(next).unwrap());
        pool.resume();
        assert_eq!(first.wait().unwrap(), links);
    });
}

#[test]
fn scopes_may_be_nested_as_deep_as_the_stack_allows() {
    fn nest(pool: &PoolHandle, depth: usize, ran: &AtomicUsize) {
        add(ran, 1);
        if depth > 1 {
            pool.scope(|scope| scope.spawn_with(Priority::High, || nest(pool, depth - 1, ran)));
        }
    }
    promptly("the scopes end", || {
        let pool = lone_worker(16);
        let handle = pool.handle();
        let ran = pool.submit(move || {
            let ran = AtomicUsize::new(0);
            nest(&handle, 200, &ran);
            ran.load(Relaxed)
        });
        assert_eq!(ran.unwrap().wait().unwrap(), 200);
    });
}
