//! Every interleaving of a few pushes and pops on a ring of one to three slots.
//!
//! What must hold: an item comes out once or stays in, in the order of its producer; *full* and *empty* are
//! never said of a ring that is not; a value is read whole. The values are boxed cells that the checker
//! watches for races.

use crate::model::{Parcel, explore};
use crate::ring::Ring;
use crate::sync::{Arc, thread};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

fn pop_all(ring: &Ring<Parcel>) -> Vec<u32> {
    core::iter::from_fn(|| ring.pop()).map(Parcel::open).collect()
}

#[test]
fn two_producers_and_a_consumer_share_two_slots_over_two_laps() {
    explore(2, || {
        let ring = Arc::new(Ring::aged(2, 3));
        let producers = [1, 2].map(|number| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.push(Parcel::new(number)).is_ok().then_some(number))
        });
        let mut seen: Vec<u32> = ring.pop().map(Parcel::open).into_iter().collect();
        let mut accepted: Vec<u32> = ring.push(Parcel::new(3)).is_ok().then_some(3).into_iter().collect();
        accepted.extend(producers.into_iter().filter_map(|producer| producer.join().unwrap()));
        assert!(accepted.len() >= 2, "two slots hold two pushes");
        seen.extend(pop_all(&ring));
        seen.sort_unstable();
        accepted.sort_unstable();
        assert_eq!(seen, accepted, "what was accepted comes out once");
    });
}

#[test]
fn two_consumers_never_take_the_same_item() {
    explore(2, || {
        let ring = Arc::new(Ring::with_capacity(2).unwrap());
        let consumer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.pop().map(Parcel::open))
        };
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                assert!(ring.push(Parcel::new(1)).is_ok());
                assert!(ring.push(Parcel::new(2)).is_ok());
            })
        };
        let mine = ring.pop().map(Parcel::open);
        let theirs = consumer.join().unwrap();
        producer.join().unwrap();
        let mut seen: Vec<u32> = mine.into_iter().chain(theirs).collect();
        seen.extend(pop_all(&ring));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

#[test]
fn a_ring_of_one_slot_passes_items_in_order() {
    explore(3, || {
        let ring = Arc::new(Ring::aged(1, u64::MAX >> 18));
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..=2).filter(|number| ring.push(Parcel::new(*number)).is_ok()).collect())
        };
        let mut seen: Vec<u32> = ring.pop().map(Parcel::open).into_iter().collect();
        seen.extend(ring.pop().map(Parcel::open));
        let pushed: Vec<u32> = producer.join().unwrap();
        seen.extend(pop_all(&ring));
        assert_eq!(seen, pushed, "what was accepted comes out, in order");
    });
}

#[test]
fn empty_is_never_said_while_a_finished_push_waits() {
    explore(3, || {
        let ring = Arc::new(Ring::with_capacity(2).unwrap());
        let slow = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(ring.push(Parcel::new(1)).is_ok()))
        };
        // However far the other push has got, this thread's own item is in the ring, so a pop must find something.
        assert!(ring.push(Parcel::new(2)).is_ok());
        assert!(ring.pop().is_some(), "a push had finished and the ring was called empty");
        slow.join().unwrap();
        assert_eq!(pop_all(&ring).len(), 1);
    });
}

#[test]
fn full_is_never_said_after_a_finished_pop() {
    explore(3, || {
        let ring = Arc::new(Ring::with_capacity(2).unwrap());
        assert!(ring.push(Parcel::new(1)).is_ok() && ring.push(Parcel::new(2)).is_ok());
        let slow = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(ring.pop().is_some()))
        };
        assert!(ring.pop().is_some());
        assert!(ring.push(Parcel::new(3)).is_ok(), "a pop had finished and the ring was called full");
        slow.join().unwrap();
        assert_eq!(pop_all(&ring), [3]);
    });
}

#[test]
fn batches_keep_together_with_single_operations() {
    explore(2, || {
        let ring = Arc::new(Ring::with_capacity(3).unwrap());
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut batch: VecDeque<Parcel> = [1, 2].map(Parcel::new).into();
                assert_eq!(ring.push_batch(&mut batch), 2);
            })
        };
        let consumer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut batch = Vec::new();
                ring.pop_batch(&mut batch, 2);
                batch.into_iter().map(Parcel::open).collect::<Vec<u32>>()
            })
        };
        assert!(ring.push(Parcel::new(3)).is_ok());
        producer.join().unwrap();
        let mut seen = consumer.join().unwrap();
        seen.extend(pop_all(&ring));
        let batch: Vec<u32> = seen.iter().copied().filter(|number| *number != 3).collect();
        assert_eq!(batch, [1, 2], "a batch keeps its order");
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}
