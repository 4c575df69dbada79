//! Every interleaving of version 1's push and pop, small: each item arrives once, whole, in order.
//!
//! Threads try a fixed number of times instead of waiting, which keeps the search small and lets it go deep; what
//! is left is drained when all have ended. Shadowed atomics multiply the search, so there they try less often.

use super::error::{PopError, PushError};
use super::model_cells::Cells;
use super::v1::{Entry, Queue, model_memory};
use crate::model::explore;
use crate::sync::{Arc, thread};
use alloc::vec::Vec;

/// How often a thread of a model with three of them pushes or pops.
const TRIES: usize = if cfg!(shadow) { 1 } else { 2 };

struct Fixture {
    queue: Queue,
    /// One per item; written before its push, read after its pop.
    cells: Cells,
}

impl Fixture {
    fn new(capacity: u32, items: usize) -> Arc<Self> {
        let queue = Queue::create(model_memory(capacity), capacity).unwrap();
        Arc::new(Self { queue, cells: Cells::new(items) })
    }

    /// Tries to push an item; its number travels as the priority.
    fn push(&self, item: u32) -> Option<u32> {
        self.cells.write(item, 100 + item);
        match self.queue.push(Entry { priority: item, slot: 0 }) {
            Ok(()) => Some(item),
            Err(PushError::Full | PushError::Busy) => None,
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// Tries to pop an item.
    fn pop(&self) -> Option<u32> {
        match self.queue.pop() {
            Ok(entry) => {
                assert_eq!(self.cells.read(entry.priority), 100 + entry.priority);
                Some(entry.priority)
            }
            Err(PopError::Empty | PopError::Busy) => None,
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// What went in came out, once; then the queue is empty and works.
    fn check(&self, pushed: impl IntoIterator<Item = Option<u32>>, popped: Vec<Option<u32>>) {
        let mut popped: Vec<u32> = popped.into_iter().flatten().collect();
        while let Some(item) = self.pop() {
            popped.push(item);
        }
        assert_eq!(self.queue.pop(), Err(PopError::Empty));
        popped.sort_unstable();
        let mut pushed: Vec<u32> = pushed.into_iter().flatten().collect();
        pushed.sort_unstable();
        assert_eq!(popped, pushed);
        assert_eq!(self.push(0), Some(0));
    }
}

#[test]
fn two_producers_and_a_consumer_go_round_twice() {
    explore(2, || {
        let fixture = Fixture::new(2, 5);
        assert_eq!(fixture.push(0), Some(0));
        let producers = [[1, 2], [3, 4]].map(|items| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || items[..TRIES].iter().map(|item| fixture.push(*item)).collect::<Vec<_>>())
        });
        let popped: Vec<_> = (0..=TRIES).map(|_| fixture.pop()).collect();
        let order: Vec<u32> = popped.iter().flatten().copied().collect();
        let place = |item| order.iter().position(|popped| *popped == item);
        for (first, second) in [(1, 2), (3, 4)] {
            assert!(place(second).is_none() || place(first) < place(second), "out of order: {order:?}");
        }
        let mut pushed = alloc::vec![Some(0)];
        for producer in producers {
            pushed.extend(producer.join().unwrap());
        }
        fixture.check(pushed, popped);
    });
}

#[test]
fn a_producer_and_two_consumers_share_without_loss() {
    explore(2, || {
        let fixture = Fixture::new(2, 4);
        assert_eq!(fixture.push(0), Some(0));
        let consumers = [0, 1].map(|_| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || (0..TRIES).map(|_| fixture.pop()).collect::<Vec<_>>())
        });
        let mut pushed = alloc::vec![Some(0)];
        pushed.extend((1..=TRIES as u32 + 1).map(|item| fixture.push(item)));
        let mut popped = Vec::new();
        for consumer in consumers {
            popped.extend(consumer.join().unwrap());
        }
        fixture.check(pushed, popped);
    });
}

#[test]
fn one_place_is_enough() {
    explore(3, || {
        let fixture = Fixture::new(1, 4);
        let consumer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || [fixture.pop(), fixture.pop(), fixture.pop()])
        };
        let pushed = [0, 1, 2].map(|item| fixture.push(item));
        let popped = consumer.join().unwrap().to_vec();
        assert!(popped.iter().flatten().is_sorted(), "out of order: {popped:?}");
        fixture.check(pushed, popped);
    });
}

/// `Full` and `Empty` are exact: with one producer and one consumer, neither can be told a level that never was.
#[test]
fn a_lone_producer_is_full_only_when_it_is() {
    explore(3, || {
        let fixture = Fixture::new(2, 3);
        let consumer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.queue.pop())
        };
        fixture.push(0).unwrap();
        fixture.push(1).unwrap();
        let third = fixture.queue.push(Entry { priority: 2, slot: 0 });
        let popped = consumer.join().unwrap();
        if third == Ok(()) {
            assert!(popped.is_ok(), "three items in two places");
        }
        if popped.is_err() {
            assert_eq!(third, Err(PushError::Full));
        }
    });
}
