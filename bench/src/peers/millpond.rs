//! Ours, called as a user calls it.
//!
//! Rows without a further word use the defaults; a variant says in its name what was changed.
//!
//! Not here: the peers (`queues.rs`, `channels.rs`, `deques.rs`, `injectors.rs`).

use super::deques::Burglar;
use super::injectors::{BATCH, Fetcher};
use super::{Fetch, Owner, Theft, Thief, TryPop, TryPopMany, TryPush, TryPushMany, WaitPop, WaitPush};
use millpond_queue::{Gate, GateConfig, GlobalQueue, LaneTurn, Ring, Steal, StealQueue, Stealer};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A ring for the bench's capacities, which are all valid.
pub(crate) fn ring(capacity: usize) -> Ring<u64> {
    Ring::with_capacity(capacity).expect("the capacity is a valid constant")
}

impl TryPush for Arc<Ring<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item).is_ok()
    }
}

impl TryPop for Arc<Ring<u64>> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.pop()
    }
}

/// The two ends of a ring for whole batches, each with the thread's own collection of items.
pub(crate) fn ring_batches(capacity: usize) -> (Batches<VecDeque<u64>>, Batches<Vec<u64>>) {
    let ring = Arc::new(ring(capacity));
    (Batches { ring: Arc::clone(&ring), items: VecDeque::new() }, Batches { ring, items: Vec::new() })
}

/// One end of a ring, and the items that go in or came out.
pub(crate) struct Batches<Items> {
    ring: Arc<Ring<u64>>,
    items: Items,
}

impl TryPushMany for Batches<VecDeque<u64>> {
    #[inline]
    fn try_push_many(&mut self, items: Range<u64>) -> u64 {
        self.items.clear();
        self.items.extend(items);
        self.ring.push_batch(&mut self.items) as u64
    }
}

impl TryPopMany for Batches<Vec<u64>> {
    #[inline]
    fn try_pop_many(&mut self, max: usize, each: impl FnMut(u64)) -> usize {
        let taken = self.ring.pop_batch(&mut self.items, max);
        self.items.drain(..).for_each(each);
        taken
    }
}

/// A gate as users get it, which measures the wait of one item in 32.
pub(crate) fn gate(capacity: usize) -> Gate<u64> {
    Gate::with_capacity(capacity).expect("the capacity is a valid constant")
}

/// A gate that keeps no figures about waiting, like its peers.
pub(crate) fn gate_unmeasured(capacity: usize) -> Gate<u64> {
    let config = GateConfig { capacity, measure_every: 0, ..GateConfig::default() };
    Gate::start(config).expect("the capacity is a valid constant")
}

impl WaitPush for Arc<Gate<u64>> {
    #[inline]
    fn push(&mut self, item: u64) {
        self.enqueue(item).expect("the gate is closed behind the last producer");
    }

    fn close(&mut self) {
        Gate::close(self);
    }
}

impl WaitPop for Arc<Gate<u64>> {
    #[inline]
    fn pop(&mut self) -> Option<u64> {
        self.dequeue()
    }
}

impl Owner for StealQueue<u64> {
    type Thief = Burglar<Stealer<u64>, Self>;

    #[inline]
    fn push(&mut self, item: u64) -> bool {
        Self::push(self, item).is_ok()
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        Self::pop(self)
    }

    fn thief(&self) -> Self::Thief {
        Burglar { victim: self.stealer(), own: Self::new() }
    }
}

impl Thief for Burglar<Stealer<u64>, StealQueue<u64>> {
    #[inline]
    fn steal_one(&mut self) -> Theft<u64> {
        self.victim.steal().into()
    }

    #[inline]
    fn steal_half(&mut self) -> Theft<()> {
        Theft::from(self.victim.steal_half(&self.own)).map(drop)
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.pop()
    }
}

/// The same queue, popped from the end that thieves take from.
pub(crate) struct OldestFirst(StealQueue<u64>);

impl OldestFirst {
    pub(crate) fn new() -> Self {
        Self(StealQueue::new())
    }
}

impl Owner for OldestFirst {
    type Thief = Burglar<Stealer<u64>, Self>;

    #[inline]
    fn push(&mut self, item: u64) -> bool {
        self.0.push(item).is_ok()
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        self.0.pop_oldest()
    }

    fn thief(&self) -> Self::Thief {
        Burglar { victim: self.0.stealer(), own: Self::new() }
    }
}

impl Thief for Burglar<Stealer<u64>, OldestFirst> {
    #[inline]
    fn steal_one(&mut self) -> Theft<u64> {
        self.victim.steal().into()
    }

    #[inline]
    fn steal_half(&mut self) -> Theft<()> {
        Theft::from(self.victim.steal_half(&self.own.0)).map(drop)
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.0.pop_oldest()
    }
}

impl<T> From<Steal<T>> for Theft<T> {
    #[inline]
    fn from(steal: Steal<T>) -> Self {
        match steal {
            Steal::Success(item) => Self::Success(item),
            Steal::Retry => Self::Retry,
            Steal::Empty => Self::Empty,
        }
    }
}

/// A shared queue with one lane, for the bench's capacities, which are all valid.
pub(crate) fn global(capacity: usize) -> GlobalQueue<u64> {
    GlobalQueue::with_capacity(capacity).expect("the capacity is a valid constant")
}

impl TryPush for Arc<GlobalQueue<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(0, item).is_ok()
    }
}

/// What a worker keeps for itself beside the shared queue.
pub(crate) struct Own {
    turn: LaneTurn,
    queue: StealQueue<u64>,
}

impl Own {
    pub(crate) fn new() -> Self {
        Self { turn: LaneTurn::default(), queue: StealQueue::new() }
    }
}

impl Fetch for Fetcher<GlobalQueue<u64>, Own> {
    #[inline]
    fn fetch(&mut self) -> Option<u64> {
        self.shared.pop_batch(&mut self.own.turn, &self.own.queue, BATCH)
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.queue.pop()
    }
}
