//! `Gate` when it closes: everyone who waits is told, and every value that was accepted is served or handed back.
//!
//! The specification's queue woke at most as many as it had slots, and consumers only. So the tests here use twice as
//! many sleepers as slots, on either side, and several closers at once.

use crate::dice::{Dice, seed};
use crate::eventually::{Sleeper, eventually};
use millpond_queue::{Gate, GateConfig, NoValue, Refusal};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const WAITING: usize = 200;

fn gate(capacity: usize) -> Gate<usize> {
    Gate::start(GateConfig { capacity, spins: 0, ..GateConfig::default() }).unwrap()
}

/// Starts as many threads as are told to wait, and calls `then` when all of them sleep. Returns what they brought back.
fn when_all_sleep<R: Send>(wait: impl Fn(usize) -> R + Sync, then: impl FnOnce()) -> Vec<R> {
    let sleepers: Vec<Sleeper> = (0..WAITING).map(|_| Sleeper::default()).collect();
    thread::scope(|scope| {
        let wait = &wait;
        let threads: Vec<_> = sleepers
            .iter()
            .enumerate()
            .map(|(number, sleeper)| {
                scope.spawn(move || {
                    sleeper.about_to_sleep();
                    wait(number)
                })
            })
            .collect();
        eventually("all of them sleep", || sleepers.iter().all(Sleeper::is_asleep));
        then();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn closing_wakes_two_hundred_consumers() {
    let gate = gate(100);
    let answers = when_all_sleep(|_| gate.dequeue(), || gate.close());
    assert!(answers.iter().all(Option::is_none));
    assert!(gate.is_closed());
}

#[test]
fn closing_wakes_two_hundred_producers_and_hands_their_values_back() {
    let gate = gate(100);
    for value in 0..100 {
        assert_eq!(gate.try_enqueue(value), Ok(()));
    }
    let answers = when_all_sleep(|number| gate.enqueue(1_000 + number), || gate.close());
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Err(Refusal::Closed(1_000 + number)));
    }
    assert_eq!(
        gate.close_and_drain(),
        (0..100).collect::<Vec<_>>(),
        "what was accepted is still there, in order"
    );
}

#[test]
fn closing_wakes_those_who_wait_with_a_limit() {
    let gate = gate(1);
    let wait = Duration::from_secs(3600);
    let answers = when_all_sleep(|_| gate.dequeue_timeout(wait), || gate.close());
    assert!(answers.iter().all(|answer| *answer == Err(NoValue::Closed)));
}

#[test]
fn two_hundred_sleepers_are_each_served() {
    let gate = gate(3);
    let mut taken =
        when_all_sleep(|_| gate.dequeue(), || (0..WAITING).for_each(|value| gate.enqueue(value).unwrap()));
    taken.sort_unstable();
    assert!(taken.into_iter().eq((0..WAITING).map(Some)));
}

#[test]
fn a_closed_gate_serves_what_it_accepted_and_takes_nothing_more() {
    let gate = gate(3);
    assert_eq!((gate.try_enqueue(1), gate.try_enqueue(2)), (Ok(()), Ok(())));
    assert!(!gate.is_closed());
    gate.close();
    gate.close();
    assert!(gate.is_closed());
    assert_eq!(gate.try_enqueue(3), Err(Refusal::Closed(3)));
    assert_eq!(gate.enqueue(3), Err(Refusal::Closed(3)));
    assert_eq!(gate.enqueue_timeout(3, Duration::MAX), Err(Refusal::Closed(3)));
    assert_eq!(gate.len(), 2);
    assert_eq!((gate.dequeue(), gate.try_dequeue()), (Some(1), Ok(2)));
    assert_eq!((gate.dequeue(), gate.try_dequeue()), (None, Err(NoValue::Closed)));
    assert_eq!(gate.dequeue_timeout(Duration::MAX), Err(NoValue::Closed));
    assert_eq!(gate.close_and_drain(), []);
}

#[test]
fn a_full_closed_gate_says_closed_and_not_full() {
    let gate = gate(1);
    assert_eq!(gate.try_enqueue(1), Ok(()));
    gate.close();
    assert_eq!(gate.try_enqueue(2), Err(Refusal::Closed(2)));
    assert_eq!(gate.len(), 1);
}

/// Producers and consumers at work in all three manners, until two threads close the gate at some random moment.
struct Closing {
    seed: u64,
    gate: Gate<usize>,
    /// How many values were offered; the gate is closed when it passes this.
    offered: AtomicUsize,
    close_at: usize,
    accepted: AtomicUsize,
    refused: AtomicUsize,
    closed_seen: AtomicBool,
}

impl Closing {
    fn produce(&self, number: usize) {
        let mut dice = Dice::new(self.seed, number);
        loop {
            let value = self.offered.fetch_add(1, Relaxed);
            let answer = match dice.below(3) {
                0 => self.gate.try_enqueue(value),
                1 => self.gate.enqueue_timeout(value, Duration::from_micros(dice.below(50) as u64)),
                _ => self.gate.enqueue(value),
            };
            match answer {
                Ok(()) => self.accepted.fetch_add(1, Relaxed),
                Err(refusal) => {
                    let closed = matches!(refusal, Refusal::Closed(_));
                    assert_eq!(refusal.into_inner(), value, "the value that was offered comes back");
                    self.refused.fetch_add(1, Relaxed);
                    if closed {
                        self.closed_seen.store(true, Relaxed);
                        return;
                    }
                    0
                }
            };
        }
    }

    fn consume(&self, number: usize) -> Vec<usize> {
        let mut dice = Dice::new(self.seed, number);
        let mut taken = Vec::new();
        loop {
            let answer = match dice.below(3) {
                0 => self.gate.try_dequeue(),
                1 => self.gate.dequeue_timeout(Duration::from_micros(dice.below(50) as u64)),
                _ => self.gate.dequeue().ok_or(NoValue::Closed),
            };
            match answer {
                Ok(value) => taken.push(value),
                Err(NoValue::Closed) => return taken,
                Err(NoValue::Empty | NoValue::TimedOut) => thread::yield_now(),
            }
        }
    }

    /// Two threads close at the same time, and what is left belongs to whoever drains it.
    fn close(&self) -> Vec<usize> {
        eventually("enough values are offered", || self.offered.load(Relaxed) >= self.close_at);
        self.gate.close_and_drain()
    }
}

#[test]
fn each_accepted_value_is_taken_once_however_the_gate_closes() {
    let seed = seed("gate closing");
    let mut dice = Dice::new(seed, 99);
    for round in 0..60 {
        let closing = Closing {
            seed: seed.wrapping_add(round),
            gate: gate(1 + dice.below(8)),
            offered: AtomicUsize::new(0),
            close_at: dice.below(2_000),
            accepted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            closed_seen: AtomicBool::new(false),
        };
        let mut taken: Vec<usize> = thread::scope(|scope| {
            let closing = &closing;
            (0..3).for_each(|number| drop(scope.spawn(move || closing.produce(number))));
            let takers: Vec<_> = (3..6)
                .map(|number| scope.spawn(move || closing.consume(number)))
                .chain((0..2).map(|_| scope.spawn(move || closing.close())))
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        let accepted = closing.accepted.into_inner();
        assert_eq!(accepted + closing.refused.into_inner(), closing.offered.into_inner(), "round {round}");
        assert_eq!(taken.len(), accepted, "round {round}: accepted and not served, or served twice");
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), accepted, "round {round}: a value was served twice");
        assert!(closing.closed_seen.into_inner());
        let stats = closing.gate.stats();
        assert_eq!((stats.enqueued, stats.dequeued, stats.len), (accepted as u64, accepted as u64, 0));
    }
}
