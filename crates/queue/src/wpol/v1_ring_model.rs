//! Every interleaving of version 1's push and pop, small: each item arrives once, whole, in order.
//!
//! The cells stand for the slots' contents. loom refuses any access to them that the ring's orderings do not
//! separate, so a missing edge shows even where the right value happens to arrive.

use super::error::{PopError, PushError};
use super::v1::{Entry, Queue, model_memory};
use crate::model::explore;
use crate::sync::{Arc, UnsafeCell, thread};
use alloc::vec::Vec;

struct Fixture {
    queue: Queue,
    /// One per item; written before its push, read after its pop.
    cells: Vec<UnsafeCell<u32>>,
}

// SAFETY: the cells are what the models are about: loom reports every access that is not ordered.
unsafe impl Send for Fixture {}
// SAFETY: as above.
unsafe impl Sync for Fixture {}

impl Fixture {
    fn new(capacity: u32, items: usize) -> Arc<Self> {
        let queue = Queue::create(model_memory(capacity), capacity).unwrap();
        Arc::new(Self { queue, cells: (0..items).map(|_| UnsafeCell::new(0)).collect() })
    }

    /// Pushes an item, however long it takes; its number travels as the priority.
    fn push(&self, item: u32) {
        // SAFETY: nobody else writes this item's cell, and readers come after the push.
        self.cells[item as usize].with_mut(|cell| unsafe { *cell = 100 + item });
        loop {
            match self.queue.push(Entry { priority: item, slot: 0 }) {
                Ok(()) => return,
                Err(PushError::Full | PushError::Busy) => thread::yield_now(),
                Err(refusal) => panic!("{refusal}"),
            }
        }
    }

    /// Pops an item, however long it takes.
    fn pop(&self) -> u32 {
        loop {
            match self.queue.pop() {
                Ok(entry) => {
                    // SAFETY: the pop made this thread the item's only reader.
                    let value = self.cells[entry.priority as usize].with(|cell| unsafe { *cell });
                    assert_eq!(value, 100 + entry.priority);
                    return entry.priority;
                }
                Err(PopError::Empty | PopError::Busy) => thread::yield_now(),
                Err(refusal) => panic!("{refusal}"),
            }
        }
    }
}

#[test]
fn model_two_producers_and_a_consumer_go_round_twice() {
    explore(2, || {
        let fixture = Fixture::new(2, 4);
        let producers = [[0, 1], [2, 3]].map(|items| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || items.map(|item| fixture.push(item)))
        });
        let mut popped: Vec<u32> = (0..4).map(|_| fixture.pop()).collect();
        let place = |item| popped.iter().position(|popped| *popped == item);
        assert!(place(0) < place(1) && place(2) < place(3), "out of order: {popped:?}");
        popped.sort_unstable();
        assert_eq!(popped, [0, 1, 2, 3]);
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!(fixture.queue.pop(), Err(PopError::Empty));
    });
}

#[test]
fn model_a_producer_and_two_consumers_share_without_loss() {
    explore(2, || {
        let fixture = Fixture::new(2, 4);
        let consumers = [1, 2].map(|count| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || (0..count).map(|_| fixture.pop()).collect::<Vec<_>>())
        });
        (0..4).for_each(|item| fixture.push(item));
        let mut popped = alloc::vec![fixture.pop()];
        for consumer in consumers {
            let part = consumer.join().unwrap();
            assert!(part.is_sorted(), "out of order: {part:?}");
            popped.extend(part);
        }
        popped.sort_unstable();
        assert_eq!(popped, [0, 1, 2, 3]);
    });
}

#[test]
fn model_one_place_is_enough() {
    explore(3, || {
        let fixture = Fixture::new(1, 3);
        let producer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || (0..3).for_each(|item| fixture.push(item)))
        };
        let popped: Vec<u32> = (0..3).map(|_| fixture.pop()).collect();
        assert_eq!(popped, [0, 1, 2]);
        producer.join().unwrap();
    });
}
