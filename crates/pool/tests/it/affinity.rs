//! Affinity keys: tasks that share a key meet at one worker while it is busy, and none is stranded when it is not
//! there.
//!
//! A key chooses a seat, and a seat may be empty, or its worker may be busy for ever or stand still. Whoever has
//! nothing to do takes over then; a task whose key is unlucky must not wait for a worker that never comes.

use crate::busy::{Busy, pool, start, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use millpond::{Pool, PoolConfig, PoolHandle, TaskOptions, Ticket, blocking};
use std::sync::mpsc;

fn key(key: u64) -> TaskOptions {
    TaskOptions { affinity: Some(key), ..TaskOptions::default() }
}

/// How many tasks wait at each worker.
fn waiting_at_workers(pool: &PoolHandle) -> Vec<usize> {
    pool.metrics().workers.iter().map(|worker| worker.tasks_waiting).collect()
}

/// A key of each worker, found by looking where its task waits. Every worker must be busy.
fn keys_of_workers(pool: &Pool, workers: usize) -> Vec<u64> {
    let mut keys = vec![None; workers];
    for candidate in 0.. {
        let before = waiting_at_workers(pool);
        let probe = pool.with(&key(candidate)).submit(|| ()).unwrap();
        let after = waiting_at_workers(pool);
        let seat = (0..after.len()).find(|&seat| after[seat] > before[seat]).unwrap();
        keys[seat].get_or_insert(candidate);
        pool.purge();
        assert!(probe.is_done());
        if keys.iter().all(Option::is_some) {
            return keys.into_iter().flatten().collect();
        }
    }
    unreachable!("keys spread over all workers")
}

/// The number at the end of a worker's name is that of its seat.
fn seat_of(thread: &str) -> usize {
    thread.rsplit('-').next().unwrap().parse().unwrap()
}

#[test]
fn tasks_with_one_key_wait_at_one_worker_and_keys_spread_over_all() {
    let pool = start(PoolConfig { workers: 4, inbox_capacity: 256, ..PoolConfig::default() });
    let _busy = Busy::many(&pool, 4);
    for number in 0..10 {
        for _ in 0..10 {
            pool.with(&key(number)).spawn(|| ()).unwrap();
        }
    }
    let waiting = waiting_at_workers(&pool);
    assert_eq!(waiting.iter().sum::<usize>(), 100);
    assert!(waiting.iter().all(|count| count % 10 == 0), "no key is at two workers: {waiting:?}");
    assert!(waiting.iter().filter(|count| **count > 0).count() > 1, "not all keys are at one: {waiting:?}");
}

#[test]
fn tasks_with_one_key_run_on_one_worker_while_the_others_are_busy() {
    promptly("the tasks run", || {
        let pool = start(PoolConfig { workers: 3, ..PoolConfig::default() });
        let mut busy = Busy::many(&pool, 3);
        for (seat, chosen) in keys_of_workers(&pool, 3).into_iter().enumerate() {
            let tickets: Vec<Ticket<String>> =
                (0..50).map(|_| pool.with(&key(chosen)).submit(thread_name).unwrap()).collect();
            let at_seat = busy.iter().position(|busy| seat_of(&busy.thread) == seat).unwrap();
            busy.swap_remove(at_seat).release();
            for ticket in tickets {
                assert_eq!(seat_of(&ticket.wait().unwrap()), seat);
            }
            // It alone is free, so it is the one that is kept busy again.
            busy.push(Busy::one(&pool));
        }
    });
}

#[test]
fn an_idle_worker_takes_over_what_waits_for_a_busy_one() {
    promptly("the task runs elsewhere", || {
        let pool = pool(2);
        let mut busy = Busy::many(&pool, 2);
        let keys = keys_of_workers(&pool, 2);
        // One of the two sleeps now, and the other stays where it is.
        let stays = seat_of(&busy[0].thread);
        busy.swap_remove(1).release();
        eventually("the other worker sleeps", || pool.metrics().workers_asleep == 1);
        let ticket = pool.with(&key(keys[stays])).submit(thread_name).unwrap();
        assert_ne!(seat_of(&ticket.wait().unwrap()), stays);
    });
}

#[test]
fn a_task_whose_worker_stands_still_is_taken_over() {
    promptly("the task runs elsewhere", || {
        let pool = pool(1);
        let (sent, receives) = mpsc::channel();
        let waits = pool.submit(move || blocking(|| receives.recv().unwrap())).unwrap();
        eventually("its stand-in sleeps", || {
            let metrics = pool.metrics();
            (metrics.workers_standing_still, metrics.workers_asleep) == (1, 1)
        });
        // There is one wanted worker, so this key belongs to its seat, and it waits for this very task.
        pool.with(&key(1)).spawn(move || sent.send(7).unwrap()).unwrap();
        assert_eq!(waits.wait().unwrap(), 7);
    });
}

#[test]
fn no_key_is_stranded_when_the_pool_has_shrunk() {
    promptly("the tasks run", || {
        for _ in 0..20 {
            let pool = pool(8);
            until_asleep(&pool);
            pool.resize(2).unwrap();
            eventually("six retire", || pool.metrics().workers_running == 2);
            until_asleep(&pool);
            // Whichever seats the two that are left sit in.
            for number in 0..8 {
                assert_eq!(pool.with(&key(number)).submit(move || number).unwrap().wait().unwrap(), number);
                until_asleep(&pool);
            }
        }
    });
}

#[test]
fn what_a_full_inbox_refuses_goes_to_the_shared_queue() {
    promptly("the tasks run", || {
        let config = PoolConfig { workers: 1, queue_capacity: 3, inbox_capacity: 2, ..PoolConfig::default() };
        let pool = start(config);
        let busy = Busy::one(&pool);
        let tickets: Vec<_> =
            (0..5).map(|number| pool.with(&key(1)).try_submit(move || number).unwrap()).collect();
        let refused = pool.with(&key(1)).try_submit(|| 5).unwrap_err();
        assert_eq!(refused.into_inner()(), 5);
        assert_eq!(waiting_at_workers(&pool), [2]);
        busy.release();
        let results: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
        assert_eq!(results, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn every_way_to_submit_takes_a_key() {
    promptly("the tasks run", || {
        let pool = pool(2);
        let options = key(42);
        let with = pool.with(&options);
        assert_eq!(with.submit(|| 1).unwrap().wait().unwrap(), 1);
        assert_eq!(with.try_submit(|| 2).unwrap().wait().unwrap(), 2);
        assert_eq!(with.spawn_async(async { 3 }).unwrap().wait().unwrap(), 3);
        let batch = with.submit_batch((0..10).map(|number| move || number)).unwrap();
        assert_eq!(batch.into_iter().map(|ticket| ticket.wait().unwrap()).sum::<i32>(), 45);
        let (told, tells) = mpsc::channel();
        with.spawn(move || told.send(4).unwrap()).unwrap();
        assert_eq!(tells.recv().unwrap(), 4);
        let handle = pool.handle();
        let inside = pool.submit(move || handle.with(&key(7)).submit(|| 5).unwrap().wait().unwrap());
        assert_eq!(inside.unwrap().wait().unwrap(), 5, "from inside, too");
    });
}
