//! What does it cost to hand an item on through a bounded queue whose both ends may sleep?
//!
//! Producers wait for room and consumers for items in the peer's own way, whatever that is: spinning, parking or
//! a condition variable. The queue is closed behind the last producer, and the clock runs until the last consumer
//! has been told so. Baseline: crossfire, the fastest of the channels.
//!
//! Not here: operations that never wait (`ring.rs`).

use super::{CAPACITY, per_item};
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::queues::{LockedQueue, shared};
use crate::peers::{WaitPop, WaitPush, millpond};
use crate::tally::{Tally, share};
use crate::team::{self, Work};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

pub(crate) fn groups() -> Vec<Group> {
    let mut pair = contestants(1);
    pair.push(Contestant::new("std sync_channel", |round| {
        let (producer, consumer) = mpsc::sync_channel(CAPACITY);
        exchange(vec![producer], vec![consumer], round)
    }));
    vec![
        per_item("gate-1p1c", "one producer, one consumer, waiting as the peer sees fit", pair),
        per_item("gate-2p2c", "two producers, two consumers, waiting as the peer sees fit", contestants(2)),
    ]
}

/// The peers that any number of threads may share, with so many threads on either side.
fn contestants(threads: usize) -> Vec<Contestant> {
    vec![
        contestant("millpond", threads, || shared(millpond::gate(CAPACITY))),
        contestant("millpond unmeasured", threads, || shared(millpond::gate_unmeasured(CAPACITY))),
        contestant("crossbeam-channel", threads, || crossbeam_channel::bounded(CAPACITY)),
        contestant("crossfire", threads, || crossfire::mpmc::bounded_blocking(CAPACITY)),
        contestant("flume", threads, || flume::bounded(CAPACITY)),
        contestant("kanal", threads, || kanal::bounded(CAPACITY)),
        contestant("async-channel", threads, || async_channel::bounded(CAPACITY)),
        contestant("std Mutex+Condvar", threads, || shared(LockedQueue::with_capacity(CAPACITY))),
    ]
}

fn contestant<P, C>(peer: &'static str, threads: usize, open: impl Fn() -> (P, C) + 'static) -> Contestant
where
    P: WaitPush + Clone,
    C: WaitPop + Clone,
{
    Contestant::new(peer, move |round| {
        let (producer, consumer) = open();
        exchange(vec![producer; threads], vec![consumer; threads], round)
    })
}

fn exchange<P: WaitPush, C: WaitPop>(
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
        works.push(Box::new(move || consume(consumer)));
    }
    let (elapsed, tallies) = team::run(works, round.pinned)?;
    Tally::total(tallies).check(round.items)?;
    Ok(ns_per_item(elapsed, round.items))
}

#[inline(never)]
fn produce(mut producer: impl WaitPush, items: Range<u64>, producing: &AtomicUsize) -> Tally {
    for item in items {
        producer.push(item);
    }
    if producing.fetch_sub(1, Ordering::AcqRel) == 1 {
        producer.close();
    }
    Tally::default()
}

#[inline(never)]
fn consume(mut consumer: impl WaitPop) -> Tally {
    let mut tally = Tally::default();
    while let Some(item) = consumer.pop() {
        tally.add(item);
    }
    tally
}
