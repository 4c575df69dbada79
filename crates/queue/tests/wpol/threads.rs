//! Threads over both versions: nothing is lost, nobody sleeps for good, and tickets are those of their tasks.
//!
//! These run the real thing at speed, where the models run a small one in every order.
//!
//! Not here: threads of processes that die (`torture.rs`).

use crate::{peer, region, small};
use millpond_queue::wpol::Memory;
use millpond_queue::wpol::v1::{Entry, PopError, Queue};
use millpond_queue::wpol::v2::{
    Config, DeathPolicy, Peer, Progress, Reaper, StartError, Submission, SubmitError, Ticket,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

#[test]
fn threads_over_both_versions_lose_nothing() {
    const ITEMS: u32 = 20_000;
    let queue = Queue::create(Memory::heap(Queue::bytes_for(64).unwrap()).unwrap(), 64).unwrap();
    let sum = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for item in 1..=ITEMS {
                    while queue.push_retry(Entry { priority: item, slot: item % 64 }, 100).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..ITEMS {
                    let entry = loop {
                        match queue.pop_retry(100) {
                            Ok(entry) => break entry,
                            Err(PopError::Poisoned) => panic!("poisoned"),
                            Err(_) => std::thread::yield_now(),
                        }
                    };
                    assert_eq!(entry.slot, entry.priority % 64);
                    sum.fetch_add(entry.priority.into(), Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), u64::from(ITEMS) * u64::from(ITEMS + 1));
    blocking_threads_over_version_2(5_000);
}

fn blocking_threads_over_version_2(items: u32) {
    let region = region(small(16));
    std::thread::scope(|scope| {
        let (client, worker) = (peer(&region), peer(&region));
        scope.spawn(move || {
            for item in 0..items {
                let payload = item.to_le_bytes();
                let ticket = loop {
                    match client.submit(Submission { payload: &payload, ..Submission::default() }) {
                        Ok(ticket) => break ticket,
                        Err(SubmitError::NoSlot) => drop(client.wait_slot(Duration::from_secs(1))),
                        Err(refusal) => panic!("{refusal}"),
                    }
                };
                while !client.wait(&ticket, Duration::from_secs(1)).unwrap() {}
                assert_eq!(client.result(&ticket).unwrap(), payload);
                client.release(ticket).unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..items {
                let running = loop {
                    match worker.start(0) {
                        Ok(running) => break running,
                        Err(StartError::Empty) => drop(worker.wait_items(Duration::from_secs(1))),
                        Err(refusal) => panic!("{refusal}"),
                    }
                };
                let payload = running.payload();
                running.finish(0, &payload).unwrap();
            }
        });
    });
    assert_eq!(region.census().free, 16);
}

/// Partly refused batches, with a sweep that announces whatever looks lost: each ticket is that of its submission.
#[test]
fn tickets_of_a_batch_are_those_of_its_first_tasks() {
    let config = Config { lanes: 1, slots: 128, attach_records: 5, ..small(128) };
    let region = region(config);
    let [client, other, worker, helper, sweeper] = [(); 5].map(|()| peer(&region));
    let stop = AtomicBool::new(false);
    let partly = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let submitters = [(client, 0), (other, 1 << 24)].map(|(peer, first)| {
            let partly = &partly;
            scope.spawn(move || submit_batches_and_check(&peer, first, partly))
        });
        for worker in [worker, helper] {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    match worker.start(0) {
                        Ok(running) => {
                            let task = running.task() as u32;
                            running.finish(task, &[]).unwrap();
                        }
                        Err(_) => std::thread::yield_now(),
                    }
                }
            });
        }
        let stop_seen = &stop;
        scope.spawn(move || {
            let mut reaper = Reaper::default();
            while !stop_seen.load(Relaxed) {
                reaper.sweep(&sweeper, 0, DeathPolicy::Fail, |_| false).unwrap();
            }
        });
        let ended = submitters.map(|submitter| submitter.join());
        stop.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    println!("{} batches were refused in part", partly.into_inner());
}

fn submit_batches_and_check(peer: &Peer, first: u64, partly: &AtomicU32) {
    let deadline = Instant::now() + Duration::from_millis(1_500);
    let mut open: VecDeque<(Ticket, u32)> = VecDeque::new();
    let mut next = first;
    while Instant::now() < deadline || !open.is_empty() {
        let batch: Vec<_> =
            (1..=32).map(|number| Submission { task: next + number, ..Submission::default() }).collect();
        let mut tickets = Vec::new();
        if Instant::now() < deadline {
            let count = peer.submit_batch(&batch, &mut tickets).unwrap_or(0);
            assert_eq!(count, tickets.len());
            partly.fetch_add(u32::from(0 < count && count < batch.len()), Relaxed);
        }
        open.extend(tickets.into_iter().zip(&batch).map(|(ticket, one)| (ticket, one.task as u32)));
        next += 32;
        while let Some((ticket, task)) = open.pop_front() {
            match peer.poll(&ticket).unwrap() {
                Progress::Done { status } => assert_eq!(status, task, "the ticket of another task"),
                _ => {
                    open.push_front((ticket, task));
                    std::thread::yield_now();
                    break;
                }
            }
            peer.release(ticket).unwrap();
        }
    }
}
