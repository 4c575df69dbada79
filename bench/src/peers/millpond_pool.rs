//! Our pool, called as a user calls it.
//!
//! Rows without a further word use the defaults, but for the two workers and the room that every bounded peer
//! gets; a variant says in its name what was changed.
//!
//! Not here: our queues by themselves (`millpond.rs`), the peers (`thread_pools.rs`, `channel_pools.rs`,
//! `executors.rs`, `forks.rs`).

use super::forks::Fork;
use super::pools::{Pool, Size, Spawn, SpawnFuture, SpawnScoped, Submit};
use millpond::{PoolConfig, PoolHandle, Ticket};
use std::ops::Range;

impl Pool for millpond::Pool {
    type Handle = PoolHandle;

    fn start(size: Size) -> Self {
        let config =
            PoolConfig { workers: size.workers, queue_capacity: size.capacity, ..PoolConfig::default() };
        Self::start(config).expect("the size is a valid constant")
    }

    fn handle(&self) -> PoolHandle {
        PoolHandle::clone(self)
    }
}

/// With `batch_max` 64.
pub(crate) struct InBatches(millpond::Pool);

impl Pool for InBatches {
    type Handle = PoolHandle;

    fn start(size: Size) -> Self {
        let config = PoolConfig {
            workers: size.workers,
            queue_capacity: size.capacity,
            batch_max: 64,
            ..PoolConfig::default()
        };
        Self(millpond::Pool::start(config).expect("the size is a valid constant"))
    }

    fn handle(&self) -> PoolHandle {
        PoolHandle::clone(&self.0)
    }
}

impl Spawn for PoolHandle {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        // A closed pool is the only reason for a refusal, and the round's count would show it.
        let _ = Self::spawn(self, task);
    }
}

impl SpawnFuture for PoolHandle {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Dropping the ticket detaches the task; a refusal would show in the round's count.
        let _ = self.spawn_async(future);
    }
}

impl Submit for PoolHandle {
    type Ticket = Ticket<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Ticket<u64> {
        Self::submit(self, task).expect("the pool is not closed before its last task")
    }

    #[inline]
    fn wait(&self, ticket: Ticket<u64>) -> u64 {
        ticket.wait().expect("the task does not panic and is not cancelled")
    }
}

impl SpawnScoped for PoolHandle {
    fn scope_outside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.scope(|scope| items.for_each(|item| scope.spawn(move || task(item))));
    }

    fn scope_inside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.inside(|| self.scope_outside(items, task));
    }
}

impl Fork for millpond::Pool {
    fn start(threads: usize) -> Self {
        let config = PoolConfig { workers: threads, ..PoolConfig::default() };
        Self::start(config).expect("the size is a valid constant")
    }

    fn fibonacci(&self, n: u32) -> u64 {
        fn compute(n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = millpond::join(|| compute(n - 1), || compute(n - 2));
            a + b
        }
        self.inside(|| compute(n))
    }
}
