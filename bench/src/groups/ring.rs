//! What does it cost to hand an item on through a bounded queue, when nobody sleeps?
//!
//! Producers and consumers call the operations that never wait, and wait in the same way for all peers when the
//! queue is full or empty: spin a little, then yield. The clock runs from the first thread's first step until the
//! last consumer has seen that all producers are done and nothing is left. Baseline: crossbeam's `ArrayQueue`.
//! The limit is rtrb, which serves one producer and one consumer only.
//!
//! Not here: sleeping for room and for items (`gate.rs`).

use super::{CAPACITY, per_item};
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::queues::{LockedQueue, shared};
use crate::peers::{TryPop, TryPopMany, TryPush, TryPushMany, millpond};
use crate::tally::{Tally, share};
use crate::team::{self, Work};
use concurrent_queue::ConcurrentQueue;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::Backoff;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;
use thingbuf::ThingBuf;

/// How many items a batch operation moves at once.
const BATCH: usize = 32;

pub(crate) fn groups() -> Vec<Group> {
    let threads = |producers, consumers| Scene::Threads { producers, consumers };
    vec![
        per_item("ring-1", "one thread pushes an item and pops it", with_two_party_peers(Scene::Alternating)),
        per_item(
            "ring-1p1c",
            "one producer, one consumer, without sleeping",
            with_two_party_peers(threads(1, 1)),
        ),
        per_item("ring-2p2c", "two producers, two consumers, without sleeping", contestants(threads(2, 2))),
        per_item("ring-4p4c", "four producers, four consumers, without sleeping", contestants(threads(4, 4))),
        per_item("ring-batch-1p1c", "one producer, one consumer, 32 items by one call", batches()),
    ]
}

/// The peers that any number of threads may share.
fn contestants(scene: Scene) -> Vec<Contestant> {
    vec![
        scene.contestant("millpond", || shared(millpond::ring(CAPACITY))),
        scene.contestant("crossbeam-queue", || shared(ArrayQueue::new(CAPACITY))),
        scene.contestant("crossbeam-channel", || crossbeam_channel::bounded(CAPACITY)),
        scene.contestant("crossfire", || crossfire::mpmc::bounded_blocking(CAPACITY)),
        scene.contestant("flume", || flume::bounded(CAPACITY)),
        scene.contestant("kanal", || kanal::bounded(CAPACITY)),
        scene.contestant("concurrent-queue", || shared(ConcurrentQueue::bounded(CAPACITY))),
        scene.contestant("async-channel", || async_channel::bounded(CAPACITY)),
        scene.contestant("thingbuf", || shared(ThingBuf::new(CAPACITY))),
        scene.contestant("std Mutex", || shared(LockedQueue::with_capacity(CAPACITY))),
    ]
}

/// Those, and the peers whose consumer cannot be cloned.
fn with_two_party_peers(scene: Scene) -> Vec<Contestant> {
    let mut contestants = contestants(scene);
    contestants.push(scene.contestant_for_two("std sync_channel", || mpsc::sync_channel(CAPACITY)));
    contestants.push(scene.contestant_for_two("~rtrb", || rtrb::RingBuffer::new(CAPACITY)));
    contestants
}

fn batches() -> Vec<Contestant> {
    let pair = Scene::Threads { producers: 1, consumers: 1 };
    vec![
        pair.contestant("millpond", || shared(millpond::ring(CAPACITY))),
        batch_contestant("millpond batch-32", || millpond::ring_batches(CAPACITY)),
        pair.contestant_for_two("~rtrb", || rtrb::RingBuffer::new(CAPACITY)),
        batch_contestant("~rtrb batch-32", || rtrb::RingBuffer::new(CAPACITY)),
    ]
}

/// Who uses the queue.
#[derive(Clone, Copy)]
enum Scene {
    /// One thread, push and pop by turns.
    Alternating,
    Threads {
        producers: usize,
        consumers: usize,
    },
}

impl Scene {
    /// Every thread gets a clone of its end, and no clone is left over to keep a channel open.
    fn contestant<P, C>(self, peer: &'static str, open: impl Fn() -> (P, C) + 'static) -> Contestant
    where
        P: TryPush + Clone,
        C: TryPop + Clone,
    {
        Contestant::new(peer, move |round| {
            let (producer, consumer) = open();
            match self {
                Self::Alternating => alternate(producer, consumer, round),
                Self::Threads { producers, consumers } => {
                    exchange(vec![producer; producers], vec![consumer; consumers], round)
                }
            }
        })
    }

    /// For ends that cannot be cloned: one thread each, whatever the scene.
    fn contestant_for_two<P, C>(self, peer: &'static str, open: impl Fn() -> (P, C) + 'static) -> Contestant
    where
        P: TryPush,
        C: TryPop,
    {
        Contestant::new(peer, move |round| {
            let (producer, consumer) = open();
            match self {
                Self::Alternating => alternate(producer, consumer, round),
                Self::Threads { .. } => exchange(vec![producer], vec![consumer], round),
            }
        })
    }
}

#[inline(never)]
fn alternate(mut producer: impl TryPush, mut consumer: impl TryPop, round: &Round) -> Result<f64, String> {
    let mut tally = Tally::default();
    let start = Instant::now();
    for item in 1..=round.items {
        if !producer.try_push(item) {
            return Err(format!("refused item {item} although it was empty"));
        }
        if let Some(item) = consumer.try_pop() {
            tally.add(item);
        }
    }
    let elapsed = start.elapsed();
    tally.check(round.items)?;
    Ok(ns_per_item(elapsed, round.items))
}

fn exchange<P: TryPush, C: TryPop>(
    producers: Vec<P>,
    consumers: Vec<C>,
    round: &Round,
) -> Result<f64, String> {
    let producing = Arc::new(AtomicUsize::new(producers.len()));
    let mut works: Vec<Work<Tally>> = Vec::new();
    let crowd = producers.len();
    for (index, producer) in producers.into_iter().enumerate() {
        let items = share(round.items, index, crowd);
        let producing = Arc::clone(&producing);
        works.push(Box::new(move || produce(producer, items, &producing)));
    }
    for consumer in consumers {
        let producing = Arc::clone(&producing);
        works.push(Box::new(move || consume(consumer, &producing)));
    }
    finish(works, round)
}

/// Runs the team, and believes its time only if its tally is right.
fn finish(works: Vec<Work<Tally>>, round: &Round) -> Result<f64, String> {
    let (elapsed, tallies) = team::run(works, round.pinned)?;
    Tally::total(tallies).check(round.items)?;
    Ok(ns_per_item(elapsed, round.items))
}

#[inline(never)]
fn produce(mut producer: impl TryPush, items: Range<u64>, producing: &AtomicUsize) -> Tally {
    for item in items {
        let backoff = Backoff::new();
        while !producer.try_push(item) {
            backoff.snooze();
        }
    }
    producing.fetch_sub(1, Ordering::AcqRel);
    Tally::default()
}

#[inline(never)]
fn consume(mut consumer: impl TryPop, producing: &AtomicUsize) -> Tally {
    let mut tally = Tally::default();
    let backoff = Backoff::new();
    loop {
        while let Some(item) = consumer.try_pop() {
            tally.add(item);
            backoff.reset();
        }
        // Asked before the last look: what is missing after "nobody produces" will never come.
        let finished = producing.load(Ordering::Acquire) == 0;
        match consumer.try_pop() {
            Some(item) => tally.add(item),
            None if finished => return tally,
            None => backoff.snooze(),
        }
    }
}

fn batch_contestant<P, C>(peer: &'static str, open: impl Fn() -> (P, C) + 'static) -> Contestant
where
    P: TryPushMany,
    C: TryPopMany,
{
    Contestant::new(peer, move |round| {
        let (producer, consumer) = open();
        let producing = Arc::new(AtomicUsize::new(1));
        let items = share(round.items, 0, 1);
        let still_producing = Arc::clone(&producing);
        let works: Vec<Work<Tally>> = vec![
            Box::new(move || produce_batches(producer, items, &producing)),
            Box::new(move || consume_batches(consumer, &still_producing)),
        ];
        finish(works, round)
    })
}

#[inline(never)]
fn produce_batches(mut producer: impl TryPushMany, items: Range<u64>, producing: &AtomicUsize) -> Tally {
    let mut next = items.start;
    let backoff = Backoff::new();
    while next < items.end {
        let taken = producer.try_push_many(next..items.end.min(next + BATCH as u64));
        next += taken;
        if taken == 0 { backoff.snooze() } else { backoff.reset() }
    }
    producing.fetch_sub(1, Ordering::AcqRel);
    Tally::default()
}

#[inline(never)]
fn consume_batches(mut consumer: impl TryPopMany, producing: &AtomicUsize) -> Tally {
    let mut tally = Tally::default();
    let backoff = Backoff::new();
    loop {
        let finished = producing.load(Ordering::Acquire) == 0;
        let taken = consumer.try_pop_many(BATCH, |item| tally.add(item));
        match taken {
            0 if finished => return tally,
            0 => backoff.snooze(),
            _ => backoff.reset(),
        }
    }
}
