//! What does it cost to bring an item in from outside, through the queue that all workers share?
//!
//! Two producers push one by one; two workers fetch by the batch into their own queue and pop from that, as a
//! pool's workers do. Baselines: crossbeam's `Injector`, which has no limit and so never makes a producer wait, and a
//! lock around a `VecDeque`, which has the same limit as ours.
//!
//! Not here: stealing from a worker (`deque.rs`).

use super::{CAPACITY, per_item};
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::injectors::{Fetcher, LockedInjector};
use crate::peers::{Fetch, TryPush, millpond};
use crate::tally::{Tally, share};
use crate::team::{self, Work};
use crossbeam_deque::{Injector, Worker};
use crossbeam_utils::Backoff;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 2;

pub(crate) fn groups() -> Vec<Group> {
    let contestants = vec![
        contestant("millpond", || millpond::global(CAPACITY), millpond::Own::new),
        contestant("crossbeam-deque", Injector::new, Worker::new_lifo),
        contestant("std Mutex", || LockedInjector::with_capacity(CAPACITY), VecDeque::new),
    ];
    vec![per_item("global-2p2c", "two submitters, two workers that fetch by the batch", contestants)]
}

fn contestant<G, Q>(
    peer: &'static str,
    open: impl Fn() -> G + 'static,
    own: impl Fn() -> Q + 'static,
) -> Contestant
where
    Arc<G>: TryPush,
    Fetcher<G, Q>: Fetch,
{
    Contestant::new(peer, move |round| {
        let shared = Arc::new(open());
        let workers = (0..THREADS).map(|_| Fetcher { shared: Arc::clone(&shared), own: own() }).collect();
        submit_and_fetch(vec![shared; THREADS], workers, round)
    })
}

fn submit_and_fetch<P: TryPush, W: Fetch>(
    producers: Vec<P>,
    workers: Vec<W>,
    round: &Round,
) -> Result<f64, String> {
    let producing = Arc::new(AtomicUsize::new(producers.len()));
    let mut works: Vec<Work<Tally>> = Vec::new();
    let crowd = producers.len();
    for (index, producer) in producers.into_iter().enumerate() {
        let items = share(round.items, index, crowd);
        let producing = Arc::clone(&producing);
        works.push(Box::new(move || submit(producer, items, &producing)));
    }
    for worker in workers {
        let producing = Arc::clone(&producing);
        works.push(Box::new(move || work(worker, &producing)));
    }
    let (elapsed, tallies) = team::run(works, round.pinned)?;
    Tally::total(tallies).check(round.items)?;
    Ok(ns_per_item(elapsed, round.items))
}

#[inline(never)]
fn submit(mut producer: impl TryPush, items: Range<u64>, producing: &AtomicUsize) -> Tally {
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
fn work(mut worker: impl Fetch, producing: &AtomicUsize) -> Tally {
    let mut tally = Tally::default();
    let backoff = Backoff::new();
    loop {
        // Asked before the last look: what is missing after "nobody produces" will never come.
        let finished = producing.load(Ordering::Acquire) == 0;
        if let Some(first) = worker.fetch() {
            backoff.reset();
            tally.add(first);
            while let Some(item) = worker.pop_own() {
                tally.add(item);
            }
        } else if finished {
            return tally;
        } else {
            backoff.snooze();
        }
    }
}
