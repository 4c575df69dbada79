//! Every interleaving of version 1's slots, small: no slot has two owners, none is lost.
//!
//! Each slot has a cell that its owner writes (`model_cells.rs`): two owners at once, or one not ordered after the
//! one before it, are refused.

use super::error::{AllocateError, ReferenceError};
use super::model_cells::Cells;
use super::v1::{Queue, model_memory};
use crate::model::explore;
use crate::sync::{Arc, thread};
use alloc::vec::Vec;

struct Fixture {
    queue: Queue,
    cells: Cells,
}

impl Fixture {
    fn new(capacity: u32) -> Arc<Self> {
        let queue = Queue::create(model_memory(capacity), capacity).unwrap();
        Arc::new(Self { queue, cells: Cells::new(capacity as usize) })
    }

    /// Takes a slot and writes its cell, as only an owner may.
    fn allocate(&self) -> Option<u32> {
        match self.queue.allocate() {
            Ok(slot) => {
                self.write(slot);
                Some(slot)
            }
            Err(AllocateError::NoFreeSlot) => None,
            Err(refusal) => panic!("{refusal}"),
        }
    }

    fn write(&self, slot: u32) {
        self.cells.write(slot, 1);
    }

    fn read(&self, slot: u32) -> u32 {
        self.cells.read(slot)
    }

    /// Every slot can be taken exactly once, and then there is none.
    fn check_whole(&self) {
        let mut slots: Vec<u32> = core::iter::from_fn(|| self.queue.allocate().ok()).take(10).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..self.queue.capacity()).collect::<Vec<_>>());
    }
}

#[test]
fn a_slot_taken_and_given_back_under_a_look_has_one_owner() {
    explore(3, || {
        let fixture = Fixture::new(2);
        let other = Arc::clone(&fixture);
        let juggler = thread::spawn(move || {
            let first = other.allocate();
            let second = other.allocate();
            for slot in [first, second].into_iter().flatten() {
                other.write(slot);
                other.queue.release(slot).unwrap();
            }
        });
        if let Some(slot) = fixture.allocate() {
            fixture.write(slot);
            if let Some(second) = fixture.allocate() {
                fixture.write(second);
                fixture.queue.release(second).unwrap();
            }
            fixture.queue.release(slot).unwrap();
        }
        juggler.join().unwrap();
        fixture.check_whole();
    });
}

#[test]
fn three_threads_never_share_a_slot() {
    explore(2, || {
        let fixture = Fixture::new(2);
        let others = [0, 1].map(|_| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                if let Some(slot) = fixture.allocate() {
                    fixture.queue.release(slot).unwrap();
                }
            })
        });
        // Shadowed atomics multiply the search: one slot at a time is enough there.
        let second = if cfg!(shadow) { None } else { fixture.allocate() };
        for slot in [fixture.allocate(), second].into_iter().flatten() {
            fixture.write(slot);
            fixture.queue.release(slot).unwrap();
        }
        for other in others {
            other.join().unwrap();
        }
        fixture.check_whole();
    });
}

#[test]
fn a_slot_released_twice_is_freed_once() {
    explore(3, || {
        let fixture = Fixture::new(2);
        let slot = fixture.allocate().unwrap();
        let other = Arc::clone(&fixture);
        let second = thread::spawn(move || other.queue.release(slot));
        let answers = [fixture.queue.release(slot), second.join().unwrap()];
        assert!(answers.contains(&Ok(true)), "{answers:?}");
        assert!(answers.contains(&Err(ReferenceError::NotAllocated)), "{answers:?}");
        fixture.check_whole();
    });
}

#[test]
fn a_slot_is_not_reused_before_its_last_reader_is_done() {
    explore(3, || {
        let fixture = Fixture::new(1);
        let slot = fixture.allocate().unwrap();
        fixture.queue.retain(slot).unwrap();
        let other = Arc::clone(&fixture);
        let reader = thread::spawn(move || {
            assert_eq!(other.read(slot), 1);
            other.queue.release(slot).unwrap();
        });
        assert_eq!(fixture.read(slot), 1);
        fixture.queue.release(slot).unwrap();
        // Whoever can take it now, writes.
        fixture.allocate();
        reader.join().unwrap();
    });
}
