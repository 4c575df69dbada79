//! The peers that workers steal from, and the deque that nobody can steal from, as the limit.
//!
//! A thief always has a queue of its own, since some peers can only steal into one. "Half" is what the peer's own call
//! for a batch takes: crossbeam stops at 32 items, st3 takes what its closure says.
//!
//! Not here: ours (`millpond.rs`).

use super::{Owner, Theft, Thief};
use crossbeam_deque::{Steal, Stealer, Worker};
use std::collections::VecDeque;

/// Someone else's queue and one's own.
pub(crate) struct Burglar<V, Q> {
    pub(crate) victim: V,
    pub(crate) own: Q,
}

/// crossbeam-deque needs to be told again which end a new queue is popped from.
pub(crate) struct Crossbeam {
    worker: Worker<u64>,
    make: fn() -> Worker<u64>,
}

impl Crossbeam {
    pub(crate) fn lifo() -> Self {
        Self { worker: Worker::new_lifo(), make: Worker::new_lifo }
    }

    pub(crate) fn fifo() -> Self {
        Self { worker: Worker::new_fifo(), make: Worker::new_fifo }
    }
}

impl Owner for Crossbeam {
    type Thief = Burglar<Stealer<u64>, Worker<u64>>;

    #[inline]
    fn push(&mut self, item: u64) -> bool {
        self.worker.push(item);
        true
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        self.worker.pop()
    }

    fn thief(&self) -> Self::Thief {
        Burglar { victim: self.worker.stealer(), own: (self.make)() }
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

impl Thief for Burglar<Stealer<u64>, Worker<u64>> {
    #[inline]
    fn steal_one(&mut self) -> Theft<u64> {
        self.victim.steal().into()
    }

    #[inline]
    fn steal_half(&mut self) -> Theft<()> {
        self.victim.steal_batch(&self.own).into()
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.pop()
    }
}

/// Both flavours of st3 have the same calls and no type in common.
macro_rules! st3 {
    ($flavour:ident) => {
        impl Owner for st3::$flavour::Worker<u64> {
            type Thief = Burglar<st3::$flavour::Stealer<u64>, Self>;

            #[inline]
            fn push(&mut self, item: u64) -> bool {
                Self::push(self, item).is_ok()
            }

            #[inline]
            fn pop(&mut self) -> Option<u64> {
                Self::pop(self)
            }

            fn thief(&self) -> Self::Thief {
                Burglar { victim: self.stealer(), own: Self::new(self.capacity()) }
            }
        }

        impl Thief for Burglar<st3::$flavour::Stealer<u64>, st3::$flavour::Worker<u64>> {
            #[inline]
            fn steal_one(&mut self) -> Theft<u64> {
                match self.victim.steal_and_pop(&self.own, |_| 1) {
                    Ok((item, _)) => Theft::Success(item),
                    Err(st3::StealError::Busy) => Theft::Retry,
                    Err(st3::StealError::Empty) => Theft::Empty,
                }
            }

            #[inline]
            fn steal_half(&mut self) -> Theft<()> {
                match self.victim.steal(&self.own, |count| count - count / 2) {
                    Ok(_) => Theft::Success(()),
                    Err(st3::StealError::Busy) => Theft::Retry,
                    Err(st3::StealError::Empty) => Theft::Empty,
                }
            }

            #[inline]
            fn pop_own(&mut self) -> Option<u64> {
                self.own.pop()
            }
        }
    };
}

st3!(lifo);
st3!(fifo);

/// The limit of what an owner can do: nobody else ever looks, so there is nothing to steal from it either.
impl Owner for VecDeque<u64> {
    type Thief = Nobody;

    #[inline]
    fn push(&mut self, item: u64) -> bool {
        self.push_back(item);
        true
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        self.pop_back()
    }

    fn thief(&self) -> Nobody {
        Nobody
    }
}

/// The thief of a queue that is not shared.
pub(crate) struct Nobody;

impl Thief for Nobody {
    fn steal_one(&mut self) -> Theft<u64> {
        Theft::Empty
    }

    fn steal_half(&mut self) -> Theft<()> {
        Theft::Empty
    }

    fn pop_own(&mut self) -> Option<u64> {
        None
    }
}
