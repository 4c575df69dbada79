//! `GlobalQueue`: lanes filled and emptied by several threads at once lose nothing and keep their order.
//!
//! How the lanes take turns is checked to the letter in `src/global.rs`; here it must merely hold under pressure.

use crate::dice::{Dice, seed};
use crate::eventually::Deadline;
use millpond_queue::{GlobalQueue, Lane, LaneError, LaneTurn, StealQueue, Stealer};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

const LANES: usize = 3;
const PRODUCERS: usize = 3;
const WORKERS: usize = 3;
/// An item is its lane times this, plus its producer times the square root of it, plus its number.
const LANE_STRIDE: usize = 1 << 40;
const PRODUCER_STRIDE: usize = 1 << 20;

fn three_lanes(capacity: usize) -> GlobalQueue<usize> {
    GlobalQueue::with_lanes(&[5, 2, 1].map(|weight| Lane { capacity, weight })).unwrap()
}

#[test]
fn lanes_are_apart_and_a_number_past_the_last_means_the_last() {
    let queue =
        GlobalQueue::with_lanes(&[Lane { capacity: 2, weight: 1 }, Lane { capacity: 3, weight: 1 }]).unwrap();
    assert_eq!((queue.lanes(), queue.capacity(), queue.is_empty()), (2, 5, true));
    assert_eq!((queue.push(0, 1), queue.push(0, 2)), (Ok(()), Ok(())));
    assert_eq!(
        queue.push(0, 3),
        Err(3),
        "a full lane hands the item back, whatever the others have room for"
    );
    for item in 10..13 {
        assert_eq!(queue.push(usize::MAX, item), Ok(()));
    }
    assert_eq!(queue.push(1, 13), Err(13));
    assert_eq!((queue.lane_len(0), queue.lane_len(1), queue.lane_len(2), queue.len()), (2, 3, 0, 5));
}

#[test]
fn lanes_that_cannot_be_made_are_refused_in_words() {
    let text = |lanes: &[Lane]| GlobalQueue::<u8>::with_lanes(lanes).unwrap_err().to_string();
    let good = Lane { capacity: 1, weight: 1 };
    assert_eq!(text(&[]), "lanes: expected 1 to 8, got 0");
    assert_eq!(text(&[good; 9]), "lanes: expected 1 to 8, got 9");
    assert_eq!(text(&[good, Lane { weight: 65, ..good }]), "lane 1: weight: expected 1 to 64, got 65");
    assert_eq!(text(&[Lane { capacity: 0, ..good }]), "lane 0: capacity: expected 1 to 67108864, got 0");
    assert!(matches!(GlobalQueue::<u8>::with_capacity(usize::MAX), Err(LaneError::Capacity { lane: 0, .. })));
}

#[test]
fn a_batch_is_no_larger_than_the_room_of_the_worker() {
    let queue = GlobalQueue::with_capacity(1_000).unwrap();
    (0..1_000).for_each(|item| queue.push(0, item).unwrap());
    let own = StealQueue::with_limit(64);
    let mut turn = LaneTurn::default();
    assert_eq!(queue.pop_batch(&mut turn, &own, 10), Some(0));
    assert_eq!((own.len(), queue.len()), (9, 990));
    assert_eq!(queue.pop_batch(&mut turn, &own, 0), None, "none were asked for");
    assert_eq!(queue.pop_batch(&mut turn, &own, usize::MAX), Some(10));
    assert!(own.len() <= 64);
    assert_eq!(own.len() + queue.len(), 998);
}

fn produce(seed: u64, queue: &GlobalQueue<usize>, producer: usize, items: usize) {
    let mut dice = Dice::new(seed, producer);
    let deadline = Deadline::new("every item found room");
    let mut next = [0; LANES];
    for _ in 0..items {
        let lane = dice.below(LANES);
        let item = lane * LANE_STRIDE + producer * PRODUCER_STRIDE + next[lane];
        next[lane] += 1;
        while queue.push(lane, item).is_err() {
            deadline.idle();
        }
    }
}

/// A worker that takes single items and batches and robs the others. Returns what it ran.
fn work(
    seed: u64,
    queue: &GlobalQueue<usize>,
    own: &StealQueue<usize>,
    others: &[Stealer<usize>],
    left: &AtomicUsize,
) -> Vec<usize> {
    let mut dice = Dice::new(seed, PRODUCERS);
    let deadline = Deadline::new("every item was run");
    let mut turn = LaneTurn::default();
    let mut run = Vec::new();
    while left.load(Relaxed) > 0 {
        let item = match dice.below(4) {
            0 => queue.pop(&mut turn),
            1 => queue.pop_batch(&mut turn, own, 1 + dice.below(20)),
            2 => others[dice.below(others.len())].steal_batch_and_pop(own).success(),
            _ => own.pop_oldest(),
        };
        match item {
            Some(item) => {
                left.fetch_sub(1, Relaxed);
                run.push(item);
            }
            None => deadline.idle(),
        }
    }
    run
}

#[test]
fn every_item_of_every_lane_is_run_once() {
    let seed = seed("global stress");
    let items = 20_000;
    let queue = three_lanes(16);
    let left = AtomicUsize::new(PRODUCERS * items);
    let own: Vec<StealQueue<usize>> = (0..WORKERS).map(|_| StealQueue::new()).collect();
    let others: Vec<Stealer<usize>> = own.iter().map(StealQueue::stealer).collect();
    let mut all: Vec<usize> = thread::scope(|scope| {
        let (queue, left, others) = (&queue, &left, &others);
        (0..PRODUCERS).for_each(|producer| drop(scope.spawn(move || produce(seed, queue, producer, items))));
        let workers: Vec<_> = own
            .into_iter()
            .enumerate()
            .map(|(number, own)| scope.spawn(move || work(seed ^ number as u64, queue, &own, others, left)))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert_eq!(all.len(), PRODUCERS * items);
    for pair in all.windows(2) {
        // Sorted, the items of one lane and one producer count up by one.
        let same_source = pair[0] / PRODUCER_STRIDE == pair[1] / PRODUCER_STRIDE;
        let expected = if same_source { pair[0] + 1 } else { pair[1] / PRODUCER_STRIDE * PRODUCER_STRIDE };
        assert_eq!(pair[1], expected, "lost or doubled");
    }
    assert!(queue.is_empty());
}

#[test]
fn one_worker_sees_each_lane_in_the_order_of_its_producers() {
    let items = 20_000;
    let queue = three_lanes(8);
    let deadline = Deadline::new("every item was taken");
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let queue = &queue;
        (0..PRODUCERS).for_each(|producer| drop(scope.spawn(move || produce(7, queue, producer, items))));
        let mut turn = LaneTurn::default();
        while seen.len() < PRODUCERS * items {
            match queue.pop(&mut turn) {
                Some(item) => seen.push(item),
                None => deadline.idle(),
            }
        }
    });
    for lane in 0..LANES {
        for producer in 0..PRODUCERS {
            let source = lane * LANE_STRIDE / PRODUCER_STRIDE + producer;
            let mut of_one = seen.iter().filter(|item| **item / PRODUCER_STRIDE == source);
            assert!(of_one.by_ref().is_sorted(), "lane {lane}, producer {producer}: out of order");
        }
    }
}
