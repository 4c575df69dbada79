//! Every interleaving of producers, consumers and a closer at a gate for one or two values.
//!
//! What must hold: nobody sleeps for ever (the checker reports a deadlock); every accepted value is taken
//! once; none is accepted after closing; a consumer is told *closed* only when nothing is left; closing
//! wakes both sides, however many.

use crate::gate::Gate;
use crate::gate_claimed::Claimed;
use crate::gate_refusal::{NoValue, Refusal};
use crate::model::explore;
use crate::sync::{Arc, AtomicU32, Ordering::Relaxed, UnsafeCell, full_fence, thread};
use alloc::vec::Vec;

/// A cell written before an event and read after it, which the checker watches.
struct Note(UnsafeCell<u32>);

// SAFETY: who may touch the cell when is what the models check.
unsafe impl Sync for Note {}
// SAFETY: the cell holds a plain number, which may be dropped on any thread.
unsafe impl Send for Note {}

fn gate(capacity: usize) -> Arc<Gate<u32>> {
    Arc::new(Gate::with_capacity(capacity).unwrap())
}

fn start<R: Send + 'static>(
    gate: &Arc<Gate<u32>>,
    act: impl FnOnce(&Gate<u32>) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let gate = Arc::clone(gate);
    thread::spawn(move || act(&gate))
}

#[test]
fn a_sleeping_consumer_is_woken_by_a_push() {
    explore(3, || {
        let gate = gate(1);
        let consumer = start(&gate, |gate| (gate.dequeue(), gate.dequeue()));
        assert_eq!(gate.enqueue(1), Ok(()));
        assert_eq!(gate.enqueue(2), Ok(()));
        assert_eq!(consumer.join().unwrap(), (Some(1), Some(2)));
    });
}

#[test]
fn every_sleeping_consumer_gets_a_wake_up_of_its_own() {
    explore(1, || {
        let gate = gate(2);
        let consumers = [0; 2].map(|_| start(&gate, |gate| gate.dequeue()));
        assert_eq!(gate.enqueue(1), Ok(()));
        assert_eq!(gate.enqueue(2), Ok(()));
        let mut taken: Vec<_> = consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)]);
    });
}

#[test]
fn every_sleeping_producer_gets_a_wake_up_of_its_own() {
    explore(1, || {
        let gate = gate(1);
        assert_eq!(gate.try_enqueue(0), Ok(()));
        let producers = [1, 2].map(|value| start(&gate, move |gate| gate.enqueue(value)));
        let mut taken = [gate.dequeue(), gate.dequeue(), None];
        for producer in producers {
            assert_eq!(producer.join().unwrap(), Ok(()));
        }
        taken[2] = gate.dequeue();
        taken.sort_unstable();
        assert_eq!(taken, [Some(0), Some(1), Some(2)]);
    });
}

#[test]
fn closing_wakes_every_consumer_and_loses_nothing() {
    explore(1, || {
        let gate = gate(1);
        let consumers = [0; 2].map(|_| start(&gate, |gate| gate.dequeue()));
        let accepted = gate.try_enqueue(1).is_ok();
        gate.close();
        let taken: Vec<_> = consumers.into_iter().filter_map(|consumer| consumer.join().unwrap()).collect();
        assert!(accepted, "nobody but this thread fills the gate");
        assert_eq!(taken, [1], "the accepted value is served, the other consumer is told");
        assert_eq!(gate.try_dequeue(), Err(NoValue::Closed));
    });
}

#[test]
fn closing_wakes_every_producer_and_hands_their_values_back() {
    explore(2, || {
        let gate = gate(1);
        assert_eq!(gate.try_enqueue(0), Ok(()));
        let producers = [1, 2].map(|value| start(&gate, move |gate| gate.enqueue(value)));
        gate.close();
        for (value, producer) in [1, 2].into_iter().zip(producers) {
            assert_eq!(producer.join().unwrap(), Err(Refusal::Closed(value)));
        }
        assert_eq!(gate.dequeue(), Some(0));
        assert_eq!(gate.dequeue(), None);
    });
}

#[test]
fn a_value_is_either_refused_or_taken_whenever_the_gate_closes() {
    explore(2, || {
        let gate = gate(1);
        let producer = start(&gate, |gate| (1..=2).filter(|value| gate.enqueue(*value).is_ok()).count());
        let consumer = start(&gate, |gate| core::iter::from_fn(|| gate.dequeue()).count());
        gate.close();
        assert_eq!(producer.join().unwrap(), consumer.join().unwrap());
    });
}

#[test]
fn what_the_closer_did_before_is_seen_by_who_is_told() {
    explore(2, || {
        let gate = gate(1);
        let note = Arc::new(Note(UnsafeCell::new(0)));
        let told = {
            let note = Arc::clone(&note);
            start(&gate, move |gate| {
                if gate.try_dequeue() == Err(NoValue::Closed) || gate.try_enqueue(1).is_err() {
                    // SAFETY: the closer is done with the note before it closes, as the checker verifies.
                    note.0.with(|note| assert_eq!(unsafe { *note }, 7));
                }
            })
        };
        // SAFETY: nobody reads the note before the gate is closed.
        note.0.with_mut(|note| unsafe { *note = 7 });
        gate.close();
        told.join().unwrap();
    });
}

#[test]
fn two_producers_and_a_consumer_pass_everything_through_one_slot() {
    explore(if cfg!(shadow) { 1 } else { 2 }, || {
        let gate = gate(1);
        let producers = [1, 2].map(|value| start(&gate, move |gate| gate.enqueue(value)));
        let mut taken = [gate.dequeue(), gate.dequeue()];
        for producer in producers {
            assert_eq!(producer.join().unwrap(), Ok(()));
        }
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)]);
    });
}

#[test]
fn one_whose_time_runs_out_takes_its_wake_up_along_and_loses_nothing() {
    explore(3, || {
        let gate = gate(2);
        let hasty = start(&gate, |gate| gate.dequeue_out_of_time().ok());
        assert_eq!(gate.enqueue(1), Ok(()));
        let mut taken: Vec<u32> = hasty.join().unwrap().into_iter().collect();
        // Whether it left in time or was owed a wake-up, the next to lie down is woken for a reason.
        let patient = start(&gate, |gate| (taken.is_empty().then(|| gate.dequeue()), gate.dequeue(), taken));
        assert_eq!(gate.enqueue(2), Ok(()));
        let (first, second, before) = patient.join().unwrap();
        taken = before;
        taken.extend(first.flatten());
        taken.extend(second);
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn a_producer_that_waits_is_told_of_a_place_elsewhere() {
    explore(3, || {
        let gate = gate(1);
        gate.try_enqueue(1).unwrap();
        let place = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&place);
        let producer = start(&gate, move |gate| {
            gate.enqueue_unless(2, None, || {
                full_fence();
                seen.load(Relaxed) == 1
            })
        });
        place.store(1, Relaxed);
        full_fence();
        gate.nudge();
        assert_eq!(producer.join().unwrap(), Err(Refusal::Full(2)));
        assert_eq!(gate.try_dequeue(), Ok(1));
    });
}

/// Two values at once, or as many as there are; the oldest comes last.
fn claim_two(gate: &Gate<u32>) -> Vec<u32> {
    let mut taken = Vec::new();
    let oldest = gate.try_claim_some(1, |other| taken.push(other.take()));
    taken.extend(oldest.map(Claimed::take));
    taken
}

#[test]
fn what_is_claimed_with_one_step_is_whole() {
    explore(2, || {
        let gate = gate(2);
        let consumer = start(&gate, claim_two);
        assert_eq!(gate.try_enqueue(1), Ok(()));
        assert_eq!(gate.try_enqueue(2), Ok(()));
        let mut taken = consumer.join().unwrap();
        taken.extend(core::iter::from_fn(|| gate.try_dequeue().ok()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn what_is_claimed_with_one_step_is_nobody_elses() {
    explore(2, || {
        let gate = gate(3);
        (1..=3).for_each(|value| assert_eq!(gate.try_enqueue(value), Ok(())));
        let some = start(&gate, claim_two);
        let mut taken = claim_two(&gate);
        taken.extend(some.join().unwrap());
        taken.extend(core::iter::from_fn(|| gate.try_dequeue().ok()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}
