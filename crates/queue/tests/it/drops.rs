//! Every value is dropped exactly once, wherever it was when its queue went away.
//!
//! A value is a line in a ledger. Dropping it makes a mark there, and at the end every line must have one mark: none
//! is a leak, two are a value that lived on after its end. Here the queues are used by one thread; what several threads
//! do is in `drops_concurrent.rs`.

use millpond_queue::{Gate, GlobalQueue, Lane, LaneTurn, Ring, Steal, StealQueue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// One mark per drop of each value.
pub(crate) struct Ledger {
    drops: Vec<AtomicU8>,
    made: AtomicUsize,
    /// The value whose drop panics, if any.
    panics_at: usize,
}

/// A value that is in the ledger. It owns memory, so that checkers of memory would notice a second drop as well.
pub(crate) struct Counted {
    ledger: Arc<Ledger>,
    number: Box<usize>,
}

impl Ledger {
    /// A ledger for at most so many values.
    pub(crate) fn new(lines: usize) -> Arc<Self> {
        Self::that_panics_at(lines, usize::MAX)
    }

    fn that_panics_at(lines: usize, panics_at: usize) -> Arc<Self> {
        let drops = (0..lines).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { drops, made: AtomicUsize::new(0), panics_at })
    }

    /// The next value.
    pub(crate) fn make(self: &Arc<Self>) -> Counted {
        let number = self.made.fetch_add(1, Relaxed);
        assert!(number < self.drops.len(), "the ledger has {} lines", self.drops.len());
        Counted { ledger: Arc::clone(self), number: Box::new(number) }
    }

    /// How many values live.
    fn live(&self) -> usize {
        self.made.load(Relaxed) - self.drops.iter().filter(|drops| drops.load(Relaxed) > 0).count()
    }

    /// Fails unless every value made was dropped once.
    pub(crate) fn settle(&self) {
        for (number, drops) in self.drops.iter().take(self.made.load(Relaxed)).enumerate() {
            assert_eq!(drops.load(Relaxed), 1, "value {number}: dropped so often");
        }
    }

    /// Fails if a value was dropped twice; says how many never were.
    fn leaked(&self) -> usize {
        assert!(self.drops.iter().all(|drops| drops.load(Relaxed) <= 1), "a value was dropped twice");
        self.live()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.drops[*self.number].fetch_add(1, Relaxed);
        assert!(*self.number != self.ledger.panics_at, "the drop that was told to panic");
    }
}

#[test]
fn a_ring_drops_what_is_left_in_it() {
    for (pushed, popped) in [(0, 0), (7, 0), (7, 7), (5, 2), (3, 1)] {
        let ledger = Ledger::new(32);
        let ring = Ring::with_capacity(7).unwrap();
        for _ in 0..5 {
            // Moves the start, so that what is left lies around the end of the slots.
            assert!(ring.push(ledger.make()).is_ok());
            drop(ring.pop());
        }
        (0..pushed).for_each(|_| assert!(ring.push(ledger.make()).is_ok()));
        (0..popped).for_each(|_| drop(ring.pop().unwrap()));
        assert_eq!(ledger.live(), pushed - popped);
        drop(ring);
        ledger.settle();
    }
}

#[test]
fn a_refused_value_is_still_the_callers() {
    let ledger = Ledger::new(8);
    let (ring, gate) = (Ring::with_capacity(1).unwrap(), Gate::with_capacity(1).unwrap());
    let global = GlobalQueue::with_capacity(1).unwrap();
    assert!(ring.push(ledger.make()).is_ok() && gate.try_enqueue(ledger.make()).is_ok());
    assert!(global.push(0, ledger.make()).is_ok());
    let refused = (
        ring.push(ledger.make()).err(),
        gate.try_enqueue(ledger.make()).err(),
        global.push(0, ledger.make()),
    );
    assert_eq!(ledger.live(), 6, "three inside and three refused");
    drop(refused);
    assert_eq!(ledger.live(), 3);
    drop((ring, gate, global));
    ledger.settle();
}

#[test]
fn batches_move_values_without_dropping_any() {
    let ledger = Ledger::new(64);
    let ring = Ring::with_capacity(6).unwrap();
    let mut waiting: std::collections::VecDeque<Counted> = (0..20).map(|_| ledger.make()).collect();
    let mut taken = Vec::new();
    while !waiting.is_empty() {
        ring.push_batch(&mut waiting);
        ring.pop_batch(&mut taken, 4);
    }
    assert_eq!(ledger.live(), 20);
    drop((ring, taken));
    ledger.settle();
}

#[test]
fn a_drop_that_panics_ends_the_ring_and_drops_nothing_twice() {
    let ledger = Ledger::that_panics_at(8, 2);
    let ring = Ring::with_capacity(8).unwrap();
    (0..6).for_each(|_| assert!(ring.push(ledger.make()).is_ok()));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(ring))).is_err());
    assert!(ledger.leaked() <= 3, "what came before the panic is gone");
}

#[test]
fn a_gate_drops_what_is_left_in_it_open_or_closed() {
    for closed in [false, true] {
        let ledger = Ledger::new(16);
        let gate = Gate::with_capacity(5).unwrap();
        (0..5).for_each(|_| assert!(gate.try_enqueue(ledger.make()).is_ok()));
        drop(gate.dequeue());
        if closed {
            gate.close();
            assert!(gate.try_enqueue(ledger.make()).is_err());
        }
        assert_eq!(ledger.live(), 4);
        drop(gate);
        ledger.settle();
    }
}

#[test]
fn a_drained_gate_hands_over_what_it_held() {
    let ledger = Ledger::new(16);
    let gate = Gate::with_capacity(5).unwrap();
    (0..5).for_each(|_| assert!(gate.try_enqueue(ledger.make()).is_ok()));
    let left = gate.close_and_drain();
    drop(gate);
    assert_eq!((left.len(), ledger.live()), (5, 5));
    drop(left);
    ledger.settle();
}

#[test]
fn a_drop_that_panics_ends_the_gate_and_drops_nothing_twice() {
    let ledger = Ledger::that_panics_at(8, 2);
    let gate = Gate::with_capacity(8).unwrap();
    (0..6).for_each(|_| assert!(gate.try_enqueue(ledger.make()).is_ok()));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(gate))).is_err());
    assert!(ledger.leaked() <= 3, "what came before the panic is gone");
}

#[test]
fn a_steal_queue_drops_what_is_left_at_every_size() {
    for count in [0, 1, 63, 64, 65, 129, 1_000] {
        let ledger = Ledger::new(2 * count + 2);
        let queue = StealQueue::new();
        (0..count).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
        (0..count / 3).for_each(|_| drop(queue.pop()));
        (0..count / 3).for_each(|_| drop(queue.pop_oldest()));
        (0..count / 4).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
        assert_eq!(ledger.live(), queue.len());
        drop(queue);
        ledger.settle();
    }
}

#[test]
fn the_last_stealer_drops_what_the_owner_left() {
    let ledger = Ledger::new(200);
    let queue = StealQueue::new();
    (0..200).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
    let (thief, other) = (queue.stealer(), queue.stealer());
    drop(queue);
    drop(thief.steal());
    drop(thief);
    assert_eq!(ledger.live(), 199, "as long as there is a thief, there may be a theft");
    drop(other);
    ledger.settle();
}

#[test]
fn halves_move_values_without_dropping_any() {
    let ledger = Ledger::new(2_000);
    let (queue, own) = (StealQueue::new(), StealQueue::new());
    (0..2_000).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
    let thief = queue.stealer();
    while let Steal::Success(_) = thief.steal_half(&own) {
        if let Steal::Success(taken) = thief.steal_batch_and_pop(&own) {
            drop(taken);
        }
    }
    assert!(queue.is_empty());
    assert_eq!(ledger.live(), own.len());
    drop((queue, thief));
    assert_eq!(ledger.live(), own.len(), "what was stolen does not belong to the victim");
    drop(own);
    ledger.settle();
}

#[test]
fn a_drop_that_panics_ends_the_steal_queue_and_drops_nothing_twice() {
    let ledger = Ledger::that_panics_at(200, 2);
    let queue = StealQueue::new();
    (0..100).for_each(|_| assert!(queue.push(ledger.make()).is_ok()));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err());
    assert!(ledger.leaked() <= 97, "what came before the panic is gone");
}

#[test]
fn a_global_queue_drops_what_is_left_in_every_lane() {
    let ledger = Ledger::new(100);
    let queue =
        GlobalQueue::with_lanes(&[Lane { capacity: 20, weight: 2 }, Lane { capacity: 20, weight: 1 }])
            .unwrap();
    let own = StealQueue::new();
    (0..40).for_each(|number| assert!(queue.push(number / 20, ledger.make()).is_ok()));
    let mut turn = LaneTurn::default();
    drop(queue.pop(&mut turn));
    drop(queue.pop_batch(&mut turn, &own, 8));
    assert_eq!((ledger.live(), own.len(), queue.len()), (38, 7, 31));
    drop(queue);
    assert_eq!(ledger.live(), 7);
    drop(own);
    ledger.settle();
}
