//! Every value is dropped exactly once while threads race: a gate that closes, owners and thieves that go away.
//!
//! The queues are dropped by whoever happens to be last, often with values inside and a batch half taken.

use crate::dice::{Dice, seed};
use crate::drops::{Counted, Ledger};
use crate::eventually::Deadline;
use millpond_queue::{Gate, GlobalQueue, Lane, LaneTurn, Ring, Steal, StealQueue, Stealer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

const ROUNDS: u64 = 20;
const EACH: usize = 300;

#[test]
fn a_ring_left_by_all_its_threads_at_different_times() {
    let seed = seed("ring drops");
    for round in 0..ROUNDS {
        let ledger = Ledger::new(4 * EACH);
        let ring = Arc::new(Ring::with_capacity(1 + Dice::new(seed, 0).below(20)).unwrap());
        let producer = |number| {
            let (ring, ledger) = (Arc::clone(&ring), Arc::clone(&ledger));
            thread::spawn(move || {
                let mut dice = Dice::new(seed ^ round, number);
                let mut waiting: VecDeque<Counted> = (0..EACH).map(|_| ledger.make()).collect();
                // It does not insist: what found no room after so many attempts is dropped here.
                for _ in 0..2 * EACH {
                    if dice.below(2) == 0 {
                        ring.push_batch(&mut waiting);
                    } else if let Some(Err(value)) = waiting.pop_front().map(|value| ring.push(value)) {
                        waiting.push_front(value);
                    }
                }
            })
        };
        let consumer = |number| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut dice = Dice::new(seed ^ round, number);
                let mut taken = Vec::new();
                for _ in 0..EACH {
                    ring.pop_batch(&mut taken, dice.below(8));
                    drop(ring.pop());
                }
            })
        };
        let threads: Vec<_> = (1..3).map(producer).chain((3..5).map(consumer)).collect();
        drop(ring);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
    }
}

#[test]
fn a_gate_closed_by_several_threads_while_others_wait() {
    for round in 0..ROUNDS as usize {
        let ledger = Ledger::new(30 * EACH);
        let gate = Gate::with_capacity(1 + round % 5).unwrap();
        let served = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..10 * EACH).all(|_| gate.enqueue(ledger.make()).is_ok()));
                scope.spawn(|| {
                    while let Some(value) = gate.dequeue() {
                        served.fetch_add(1, Relaxed);
                        drop(value);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let deadline = Deadline::new("some values were served");
                    while served.load(Relaxed) < EACH {
                        deadline.idle();
                    }
                    drop(gate.close_and_drain());
                });
            }
        });
        ledger.settle();
    }
}

#[test]
fn a_gate_dropped_while_values_wait_in_it() {
    for _ in 0..ROUNDS {
        let ledger = Ledger::new(4 * EACH);
        let gate = Arc::new(Gate::with_capacity(64).unwrap());
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (gate, ledger) = (Arc::clone(&gate), Arc::clone(&ledger));
                thread::spawn(move || {
                    for _ in 0..EACH {
                        if number % 2 == 0 {
                            drop(gate.try_enqueue(ledger.make()));
                        } else {
                            drop(gate.try_dequeue());
                        }
                    }
                })
            })
            .collect();
        drop(gate);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
    }
}

/// Robs `victim` until it has been empty for a while or `takes` runs out; what is stolen goes down with the thief.
fn rob(seed: u64, number: usize, victim: &Stealer<Counted>, takes: usize) {
    let mut dice = Dice::new(seed, number);
    let own = StealQueue::new();
    for _ in 0..takes {
        match dice.below(4) {
            0 => drop(victim.steal_half(&own)),
            1 => drop(victim.steal_batch_and_pop(&own)),
            2 => drop(own.pop()),
            _ => drop(victim.steal()),
        }
    }
}

#[test]
fn an_owner_that_goes_away_while_thieves_are_at_work() {
    let seed = seed("steal drops");
    for round in 0..ROUNDS {
        let ledger = Ledger::new(20 * EACH);
        let queue = StealQueue::new();
        let thieves: Vec<_> = (1..4)
            .map(|number| {
                let thief = queue.stealer();
                thread::spawn(move || rob(seed ^ round, number, &thief, 2 * EACH))
            })
            .collect();
        let mut dice = Dice::new(seed ^ round, 0);
        for _ in 0..EACH {
            (0..dice.below(10)).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
            (0..dice.below(4)).for_each(|_| drop(queue.pop()));
        }
        drop(queue);
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
        ledger.settle();
    }
}

#[test]
fn buffers_outgrown_while_thieves_copy_from_them() {
    for _ in 0..ROUNDS {
        let ledger = Ledger::new(10 * EACH);
        let queue = StealQueue::new();
        let left = AtomicUsize::new(10 * EACH);
        thread::scope(|scope| {
            for _ in 0..3 {
                let (thief, left) = (queue.stealer(), &left);
                scope.spawn(move || {
                    let deadline = Deadline::new("every value was taken");
                    while left.load(Relaxed) > 0 {
                        match thief.steal() {
                            Steal::Success(value) => {
                                left.fetch_sub(1, Relaxed);
                                drop(value);
                            }
                            Steal::Empty | Steal::Retry => deadline.idle(),
                        }
                    }
                });
            }
            // Long bursts grow the buffer, and each time it runs empty it shrinks again.
            for burst in 0..10 {
                (0..EACH).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
                let keep = if burst % 2 == 0 { 0 } else { EACH / 2 };
                while queue.len() > keep {
                    if let Some(value) = queue.pop() {
                        left.fetch_sub(1, Relaxed);
                        drop(value);
                    }
                }
            }
        });
        ledger.settle();
    }
}

#[test]
fn lanes_and_private_queues_dropped_half_empty() {
    let seed = seed("global drops");
    for round in 0..ROUNDS {
        let ledger = Ledger::new(4 * EACH);
        let lanes = [Lane { capacity: 16, weight: 2 }, Lane { capacity: 16, weight: 1 }];
        let queue = Arc::new(GlobalQueue::with_lanes(&lanes).unwrap());
        let producer = |number| {
            let (queue, ledger) = (Arc::clone(&queue), Arc::clone(&ledger));
            thread::spawn(move || {
                let mut dice = Dice::new(seed ^ round, number);
                (0..EACH).for_each(|_| drop(queue.push(dice.below(2), ledger.make())));
            })
        };
        let worker = |number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut dice = Dice::new(seed ^ round, number);
                let (own, mut turn) = (StealQueue::new(), LaneTurn::default());
                for _ in 0..EACH / 2 {
                    drop(queue.pop_batch(&mut turn, &own, dice.below(6)));
                    drop(own.pop());
                }
            })
        };
        let threads: Vec<_> = (0..2).map(producer).chain((2..4).map(worker)).collect();
        drop(queue);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ledger.settle();
    }
}
