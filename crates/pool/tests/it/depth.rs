//! Tasks that wait for others of their own pool, more of them than there are workers, stand-ins and room on stacks.
//!
//! A worker that nobody can stand in for runs other tasks on top of the one that waits, and these may wait too. So many
//! begin that no more may; what they wait for must go on all the same. The stacks here are small, so that this is soon.

use crate::busy::{Busy, lone_worker, start};
use crate::eventually::promptly;
use crate::witness::add;
use async_io::Timer;
use millpond::{Pool, PoolConfig, PoolHandle, Priority, TaskOptions, Ticket, block_on, yield_now};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
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
fn all_wait(tasks: usize, workers: usize, wait: impl Fn(&PoolHandle) -> usize + Copy + Send + 'static) {
    promptly("all tasks come to their end", move || {
        let pool = shallow_pool(workers);
        let waits = |_| {
            let handle = pool.handle();
            pool.submit(move || wait(&handle)).unwrap()
        };
        let tickets: Vec<_> = (0..tasks).map(waits).collect();
        let sum: usize = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).sum();
        assert_eq!(sum, tasks);
    });
}

fn low() -> TaskOptions {
    TaskOptions { priority: Priority::Low, ..TaskOptions::default() }
}

#[test]
fn any_number_of_tasks_may_wait_for_futures_that_wait_for_something_else() {
    for workers in [1, 2] {
        all_wait(TASKS, workers, |pool| {
            let rests = async {
                Timer::after(Duration::from_millis(5)).await;
                1
            };
            pool.spawn_async(rests).unwrap().wait().unwrap()
        });
    }
}

#[test]
fn any_number_of_tasks_may_wait_for_scopes_whose_tasks_come_last() {
    for workers in [1, 2] {
        all_wait(TASKS, workers, |pool| {
            let mut ran = 0;
            pool.scope(|scope| scope.spawn_with(Priority::Low, || ran = 1));
            ran
        });
    }
}

#[test]
fn any_number_of_tasks_may_block_on_closures_that_come_last() {
    for workers in [1, 2] {
        all_wait(TASKS, workers, |pool| block_on(pool.with(&low()).submit(|| 1).unwrap()).unwrap());
    }
}

#[test]
fn any_number_of_tasks_may_wait_again_and_again_for_a_short_time() {
    // Each of them sleeps for a moment, one after the other. With two workers it takes as long until both are seen to
    // wait at the same time, which a busy machine draws out.
    all_wait(TASKS / 10, 1, |pool| {
        let mut ticket = pool.submit(|| 1).unwrap();
        loop {
            if let Some(result) = ticket.wait_timeout(Duration::from_millis(1)) {
                return result.unwrap();
            }
        }
    });
}

#[test]
fn any_number_of_tasks_may_wait_beside_a_future_that_gives_way_for_ever() {
    promptly("all tasks come to their end", || {
        let pool = shallow_pool(1);
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let gives_way = async move {
            while !told.load(Relaxed) {
                yield_now().await;
            }
        };
        let waits = |_| {
            let handle = pool.handle();
            pool.submit(move || handle.with(&low()).spawn_async(async { 1 }).unwrap().wait().unwrap())
                .unwrap()
        };
        let mut tickets: Vec<_> = (0..TASKS / 4).map(waits).collect();
        let gives_way = pool.spawn_async(gives_way).unwrap();
        tickets.extend((0..TASKS / 4).map(waits));
        tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), 1));
        ends.store(true, Relaxed);
        gives_way.wait().unwrap();
    });
}

/// Waits with so much of the stack used.
#[inline(never)]
fn wait_below(bytes: usize, top: usize, ticket: Ticket<usize>) -> usize {
    let frame = black_box([0_u8; 256]);
    let used = top.abs_diff(ptr::from_ref(&frame).addr());
    let result = if used < bytes { wait_below(bytes, top, ticket) } else { ticket.wait().unwrap() };
    black_box(&frame);
    result
}

#[test]
fn a_task_that_uses_most_of_its_stack_may_wait_too() {
    promptly("both results come", || {
        let pool = shallow_pool(1);
        let handle = pool.handle();
        let waits = pool.submit(move || {
            let here = 0_u8;
            let deep = |ticket| wait_below(400 << 10, ptr::from_ref(&here).addr(), ticket);
            deep(handle.submit(|| 1).unwrap()) + deep(handle.spawn_async(async { 2 }).unwrap())
        });
        assert_eq!(waits.unwrap().wait().unwrap(), 3);
    });
}

#[test]
fn a_short_wait_runs_nothing_while_another_worker_is_busy() {
    let pool = shallow_pool(2);
    let handle = pool.handle();
    let busy = Busy::one(&pool);
    let lock = Arc::new(Mutex::new(0));
    let waits = pool.submit(move || {
        let held = lock.lock().unwrap();
        let locks = Arc::clone(&lock);
        let mut ticket = handle.submit(move || *locks.lock().unwrap() += 1).unwrap();
        // It would never come back if this thread began the task.
        let in_time = ticket.wait_timeout(Duration::from_millis(20)).is_some();
        drop(held);
        (in_time, ticket.wait().is_ok())
    });
    assert_eq!(waits.unwrap().wait().unwrap(), (false, true));
    busy.release();
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
