//! Every interleaving of version 2's ring, small, with peers that die between their two steps.
//!
//! Each index has a cell (`model_cells.rs`), written before its push and read after its pop.

use super::layout::v2_control as control;
use super::memory::Memory;
use super::model_cells::Cells;
use super::v2_ring::{Ring, RingError};
use crate::model::explore;
use crate::sync::{Arc, thread};
use alloc::vec::Vec;

struct Fixture {
    memory: Memory,
    ring: Ring,
    cells: Cells,
}

impl Fixture {
    fn new(log2: u32, items: usize) -> Arc<Self> {
        let ring = Ring::new(0, control::BYTES, log2);
        let memory = Memory::model(ring.words(), control::BYTES + (8 << log2));
        Arc::new(Self { memory, ring, cells: Cells::new(items) })
    }

    fn write(&self, item: u32) {
        self.cells.write(item, 100 + item);
    }

    fn read(&self, item: u32) {
        assert_eq!(self.cells.read(item), 100 + item);
    }

    fn push(&self, item: u32) {
        self.write(item);
        loop {
            match self.ring.push(&self.memory, item) {
                Ok(()) => return,
                Err(RingError::Full) => thread::yield_now(),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
    }

    fn pop(&self) -> u32 {
        loop {
            match self.ring.pop(&self.memory) {
                Ok(item) => {
                    self.read(item);
                    return item;
                }
                Err(RingError::Empty) => thread::yield_now(),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
    }
}

fn sorted(mut items: Vec<u32>) -> Vec<u32> {
    items.sort_unstable();
    items
}

#[test]
fn two_producers_and_two_consumers_lose_nothing() {
    explore(2, || {
        let fixture = Fixture::new(1, 3);
        let producer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                [0, 1].map(|item| {
                    fixture.write(item);
                    fixture.ring.push(&fixture.memory, item).ok().map(|()| item)
                })
            })
        };
        let consumer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || [(); 2].map(|()| fixture.ring.pop(&fixture.memory).ok()))
        };
        fixture.write(2);
        let mut pushed = alloc::vec![fixture.ring.push(&fixture.memory, 2).ok().map(|()| 2)];
        let mut popped = alloc::vec![fixture.ring.pop(&fixture.memory).ok()];
        pushed.extend(producer.join().unwrap());
        popped.extend(consumer.join().unwrap());
        while let Ok(item) = fixture.ring.pop(&fixture.memory) {
            fixture.read(item);
            popped.push(Some(item));
        }
        let flat = |items: Vec<Option<u32>>| sorted(items.into_iter().flatten().collect());
        assert_eq!(flat(popped), flat(pushed));
    });
}

/// Several laps of a ring with one place: whoever trusts a hint without seeing the place behind it, sees a place
/// from laps ago.
#[test]
fn one_place_goes_round_and_round() {
    explore(2, || {
        let fixture = Fixture::new(0, 3);
        let producer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.push(0))
        };
        let consumer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.pop())
        };
        fixture.push(1);
        let mut popped = alloc::vec![fixture.pop()];
        popped.push(consumer.join().unwrap());
        producer.join().unwrap();
        assert_eq!(sorted(popped), [0, 1]);
    });
}

#[test]
fn a_producer_dead_between_its_steps_stops_nobody() {
    for log2 in [0, 1] {
        explore(2, move || {
            let fixture = Fixture::new(log2, 2);
            let dying = {
                let fixture = Arc::clone(&fixture);
                thread::spawn(move || {
                    fixture.write(0);
                    while fixture.ring.fill_next(&fixture.memory, 0) == Err(RingError::Full) {
                        thread::yield_now();
                    }
                })
            };
            let consumer = {
                let fixture = Arc::clone(&fixture);
                thread::spawn(move || sorted(alloc::vec![fixture.pop(), fixture.pop()]))
            };
            fixture.push(1);
            assert_eq!(consumer.join().unwrap(), [0, 1]);
            dying.join().unwrap();
            assert_eq!(fixture.ring.pop(&fixture.memory), Err(RingError::Empty));
            fixture.ring.push(&fixture.memory, 0).unwrap();
        });
    }
}

#[test]
fn a_consumer_dead_between_its_steps_stops_nobody() {
    for log2 in [0, 1] {
        explore(2, move || {
            let fixture = Fixture::new(log2, 3);
            let dying = {
                let fixture = Arc::clone(&fixture);
                thread::spawn(move || {
                    fixture
                        .ring
                        .empty_next(&fixture.memory, &mut fixture.ring.retry())
                        .ok()
                        .map(|(_, item)| item)
                })
            };
            let producer = {
                let fixture = Arc::clone(&fixture);
                thread::spawn(move || [0, 1].map(|item| fixture.push(item)))
            };
            let first = fixture.pop();
            producer.join().unwrap_or_else(|_| panic!("producer stopped"));
            // What the dead took is gone with it; a sweep finds the slot again.
            let gone = dying.join().unwrap();
            let second = fixture.ring.pop(&fixture.memory);
            let mut seen = alloc::vec![first];
            seen.extend(gone);
            seen.extend(second.ok());
            assert_eq!(sorted(seen), [0, 1]);
        });
    }
}

#[test]
fn batches_neither_lose_nor_reorder() {
    explore(2, || {
        let fixture = Fixture::new(1, 3);
        let batch = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                [0, 1].into_iter().for_each(|item| fixture.write(item));
                let mut left: &[u32] = &[0, 1];
                while !left.is_empty() {
                    let item = |at: usize| left.get(at).copied();
                    let (done, stopped) = fixture.ring.push_batch(&fixture.memory, left.len(), item);
                    left = &left[done..];
                    match stopped {
                        None => {}
                        Some(RingError::Full) => thread::yield_now(),
                        Some(refusal) => panic!("{refusal:?}"),
                    }
                }
            })
        };
        let single = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.push(2))
        };
        let mut popped = Vec::new();
        while popped.len() < 3 {
            let mut items = [0; 2];
            match fixture.ring.pop_batch(&fixture.memory, &mut items, &mut fixture.ring.retry()) {
                Ok(done) => popped.extend(&items[..done]),
                Err(RingError::Empty) => thread::yield_now(),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
        popped.iter().for_each(|item| fixture.read(*item));
        let place = |item| popped.iter().position(|popped| *popped == item);
        assert!(place(0) < place(1), "out of order: {popped:?}");
        assert_eq!(sorted(popped), [0, 1, 2]);
        batch.join().unwrap();
        single.join().unwrap();
    });
}

#[test]
fn two_batch_consumers_share_without_loss() {
    explore(2, || {
        let fixture = Fixture::new(1, 3);
        let consumer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let mut items = [0; 2];
                let done = fixture
                    .ring
                    .pop_batch(&fixture.memory, &mut items, &mut fixture.ring.retry())
                    .unwrap_or(0);
                items[..done].iter().for_each(|item| fixture.read(*item));
                items[..done].to_vec()
            })
        };
        let producer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || [0, 1].map(|item| fixture.push(item)))
        };
        let mut items = [0; 2];
        let done =
            fixture.ring.pop_batch(&fixture.memory, &mut items, &mut fixture.ring.retry()).unwrap_or(0);
        let mut seen = items[..done].to_vec();
        producer.join().unwrap();
        seen.extend(consumer.join().unwrap());
        while let Ok(item) = fixture.ring.pop(&fixture.memory) {
            seen.push(item);
        }
        assert_eq!(sorted(seen), [0, 1]);
    });
}
