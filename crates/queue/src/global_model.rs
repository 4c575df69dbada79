//! A producer, a worker that takes a batch into its own queue, and a thief that robs it, in every interleaving.
//!
//! What must hold: an item that moves from the shared lane to a private queue and on to a thief arrives once.

use crate::global::{GlobalQueue, LaneTurn};
use crate::model::explore;
use crate::steal::StealQueue;
use crate::steal_thief::Steal;
use crate::sync::{Arc, thread};
use alloc::vec::Vec;

#[test]
fn a_batch_taken_from_a_lane_and_robbed_arrives_once() {
    explore(2, || {
        let lane = Arc::new(GlobalQueue::with_capacity(3).unwrap());
        assert!(lane.push(0, 1).is_ok());
        let producer = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || assert!(lane.push(0, 2).is_ok() && lane.push(0, 3).is_ok()))
        };
        let own = StealQueue::new();
        let thief = own.stealer();
        let robber = thread::spawn(move || match thief.steal() {
            Steal::Success(item) => Some(item),
            Steal::Empty | Steal::Retry => None,
        });
        let mut turn = LaneTurn::default();
        let mut seen: Vec<u32> = lane.pop_batch(&mut turn, &own, 3).into_iter().collect();
        assert_eq!(seen, [1], "the oldest is the one to run");
        producer.join().unwrap();
        seen.extend(robber.join().unwrap());
        seen.extend(core::iter::from_fn(|| own.pop()));
        seen.extend(core::iter::from_fn(|| lane.pop(&mut turn)));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    });
}
