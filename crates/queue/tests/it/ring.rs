//! `Ring`: the capacity asked for, first in first out, and every value comes out once or comes back.
//!
//! The stress tests mix single and batch operations at random on four producers and four consumers, since it is the
//! seams between them where a position would be claimed twice.

use crate::dice::{Dice, seed};
use crate::eventually::Deadline;
use millpond_queue::{CAPACITY_MAX, CapacityError, Ring};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

#[test]
fn any_capacity_is_honoured_exactly_lap_after_lap() {
    for capacity in [1, 2, 3, 100, 1000] {
        let ring = Ring::with_capacity(capacity).unwrap();
        assert_eq!((ring.capacity(), ring.len()), (capacity, 0));
        for lap in 0..3 {
            for value in 0..capacity {
                assert!(!ring.is_full(), "{value} of {capacity} in lap {lap}");
                assert_eq!(ring.push(lap * capacity + value), Ok(()));
                assert_eq!(ring.len(), value + 1);
            }
            assert!(ring.is_full());
            assert_eq!(
                ring.push(usize::MAX),
                Err(usize::MAX),
                "a full ring of {capacity} hands the value back"
            );
            for value in 0..capacity {
                assert_eq!(ring.pop(), Some(lap * capacity + value));
            }
            assert!(ring.is_empty());
            assert_eq!(ring.pop(), None);
            // The next lap starts in the middle of the slots.
            assert_eq!(ring.push(0), Ok(()));
            assert_eq!(ring.pop(), Some(0));
        }
    }
}

#[test]
fn a_capacity_out_of_range_is_refused_in_words() {
    let refusal = |capacity| Ring::<u8>::with_capacity(capacity).unwrap_err();
    assert_eq!(refusal(0), CapacityError::Zero);
    assert_eq!(refusal(0).to_string(), "capacity: expected 1 to 67108864, got 0");
    assert_eq!(refusal(CAPACITY_MAX + 1), CapacityError::TooLarge { asked: CAPACITY_MAX + 1 });
    assert_eq!(
        refusal(CAPACITY_MAX + 1).to_string(),
        "capacity: expected 1 to 67108864, got 67108865; use several queues or smaller bursts"
    );
    assert_eq!(
        refusal(usize::MAX).to_string(),
        format!("capacity: expected 1 to 67108864, got {}; use several queues or smaller bursts", usize::MAX)
    );
}

#[test]
fn slots_that_no_machine_can_hold_are_refused_in_words() {
    // Sixteen megabytes a value, sixty-seven million values: a thousand terabytes.
    let refusal = Ring::<[u8; 1 << 24]>::with_capacity(CAPACITY_MAX).unwrap_err();
    assert_eq!(refusal, CapacityError::OutOfMemory { asked: CAPACITY_MAX });
    assert_eq!(refusal.to_string(), "capacity: no memory for 67108864 slots; ask for fewer");
}

#[test]
fn a_batch_that_does_not_fit_leaves_the_rest_with_the_caller() {
    let ring = Ring::with_capacity(5).unwrap();
    assert_eq!(ring.push(0), Ok(()));
    let mut batch: VecDeque<u32> = (1..=7).collect();
    assert_eq!(ring.push_batch(&mut batch), 4);
    assert_eq!(batch, [5, 6, 7]);
    assert_eq!(ring.push_batch(&mut batch), 0, "a full ring takes nothing");
    assert_eq!(batch, [5, 6, 7]);
    assert_eq!(ring.push_batch(&mut VecDeque::new()), 0);
    let mut taken = vec![99];
    assert_eq!(ring.pop_batch(&mut taken, usize::MAX), 5);
    assert_eq!(taken, [99, 0, 1, 2, 3, 4], "a batch comes in order, behind what is there");
}

#[test]
fn a_batch_takes_no_more_than_asked_for() {
    let ring = Ring::with_capacity(8).unwrap();
    ring.push_batch(&mut (0..8).collect());
    let mut taken = Vec::new();
    assert_eq!(ring.pop_batch(&mut taken, 0), 0);
    assert_eq!(ring.pop_batch(&mut taken, 3), 3);
    assert_eq!(ring.len(), 5);
    assert_eq!(ring.pop_batch(&mut taken, 100), 5);
    assert_eq!(ring.pop_batch(&mut taken, 100), 0, "an empty ring gives nothing");
    assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Passes values made of their number through a small ring, with two threads on each side.
fn pass<T: Send>(make: fn(u64) -> T, number: fn(&T) -> u64) {
    const EACH: u64 = 5_000;
    let deadline = Deadline::new("all values passed");
    let ring = Ring::with_capacity(7).unwrap();
    let left = AtomicUsize::new(2 * EACH as usize);
    let sums: Vec<u64> = thread::scope(|scope| {
        for producer in 0..2 {
            let ring = &ring;
            scope.spawn(move || {
                for value in 0..EACH {
                    let mut refused = ring.push(make(producer * EACH + value));
                    while let Err(value) = refused {
                        deadline.idle();
                        refused = ring.push(value);
                    }
                }
            });
        }
        let consume = || {
            let mut sum = 0;
            while left.load(Relaxed) > 0 {
                match ring.pop() {
                    Some(value) => {
                        sum += number(&value);
                        left.fetch_sub(1, Relaxed);
                    }
                    None => deadline.idle(),
                }
            }
            sum
        };
        let consumers = [scope.spawn(consume), scope.spawn(consume)];
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
    });
    let expected: u64 = (0..2 * EACH).map(|value| number(&make(value))).sum();
    assert_eq!(sums.iter().sum::<u64>(), expected);
}

#[test]
fn values_of_every_size_arrive_whole() {
    pass(|_| (), |()| 1);
    pass(|value| value as u8, |value| u64::from(*value));
    pass(
        |value| [value; 8],
        |value| {
            assert!(value.iter().all(|word| *word == value[0]), "torn: {value:?}");
            value[0]
        },
    );
    pass(
        |value| [value as u8; 200],
        |value| {
            assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
            u64::from(value[0])
        },
    );
    pass(|value| value.to_string(), |value| value.parse().unwrap());
    pass(Box::new, |value| **value);
}

/// What four consumers got, each in the order it got it, of what four producers put in.
struct Stress {
    seed: u64,
    capacity: usize,
    /// How many values each producer puts in.
    each: usize,
}

const PRODUCERS: usize = 4;
const CONSUMERS: usize = 4;
/// A value is its producer times this, plus its number.
const STRIDE: usize = 1 << 32;

impl Stress {
    fn produce(&self, ring: &Ring<usize>, producer: usize) {
        let mut dice = Dice::new(self.seed, producer);
        let deadline = Deadline::new("every value found room");
        let mut waiting: VecDeque<usize> = VecDeque::new();
        let mut next = 0;
        while next < self.each || !waiting.is_empty() {
            if waiting.is_empty() {
                let batch = (1 + dice.below(2 * self.capacity + 2)).min(self.each - next);
                waiting.extend((next..next + batch).map(|number| producer * STRIDE + number));
                next += batch;
            }
            let single = dice.below(2) == 0;
            let moved = match waiting.pop_front() {
                Some(value) if single => match ring.push(value) {
                    Ok(()) => 1,
                    Err(value) => {
                        waiting.push_front(value);
                        0
                    }
                },
                Some(value) => {
                    waiting.push_front(value);
                    ring.push_batch(&mut waiting)
                }
                None => 0,
            };
            if moved == 0 {
                deadline.idle();
            }
        }
    }

    fn consume(&self, ring: &Ring<usize>, consumer: usize, left: &AtomicUsize) -> Vec<usize> {
        let mut dice = Dice::new(self.seed, PRODUCERS + consumer);
        let deadline = Deadline::new("every value was taken");
        let mut taken = Vec::new();
        while left.load(Relaxed) > 0 {
            let before = taken.len();
            if dice.below(2) == 0 {
                taken.extend(ring.pop());
            } else {
                ring.pop_batch(&mut taken, dice.below(2 * self.capacity + 2));
            }
            left.fetch_sub(taken.len() - before, Relaxed);
            assert!(ring.len() <= self.capacity);
            if taken.len() == before {
                deadline.idle();
            }
        }
        taken
    }

    fn run(&self) {
        let ring = Ring::with_capacity(self.capacity).unwrap();
        let left = AtomicUsize::new(PRODUCERS * self.each);
        let taken: Vec<Vec<usize>> = thread::scope(|scope| {
            let (ring, left) = (&ring, &left);
            for producer in 0..PRODUCERS {
                scope.spawn(move || self.produce(ring, producer));
            }
            let consumers: Vec<_> = (0..CONSUMERS)
                .map(|consumer| scope.spawn(move || self.consume(ring, consumer, left)))
                .collect();
            consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
        });
        for values in &taken {
            for producer in 0..PRODUCERS {
                let of_one = values.iter().filter(|value| **value / STRIDE == producer);
                assert!(of_one.is_sorted(), "a consumer saw values of producer {producer} out of order");
            }
        }
        let mut all: Vec<usize> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        let expected =
            (0..PRODUCERS).flat_map(|producer| (0..self.each).map(move |number| producer * STRIDE + number));
        assert!(all.into_iter().eq(expected), "lost or doubled");
        assert!(ring.is_empty());
    }
}

#[test]
fn four_producers_and_four_consumers_pass_each_value_once_and_in_order() {
    let seed = seed("ring stress");
    for (capacity, each) in [(1, 2_000), (2, 5_000), (3, 5_000), (100, 25_000), (1000, 25_000)] {
        Stress { seed, capacity, each }.run();
    }
}
