//! The peers that run closures on threads of their own: rayon, threadpool, rusty_pool.
//!
//! None of them has a limit on what waits. Those without tickets of their own get a oneshot channel for each
//! result.
//!
//! Not here: pools that are a channel and two threads (`channel_pools.rs`), runtimes for futures
//! (`executors.rs`).

use super::pools::{
    Departure, Pool, Reply, Size, Spawn, SpawnFuture, SpawnScoped, Submit, Threads, wait_for_reply,
    with_reply,
};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Rayon, on threads that can be waited for.
pub(crate) struct Rayon {
    pool: Arc<rayon::ThreadPool>,
    _threads: Threads,
}

impl Rayon {
    pub(crate) fn pool(&self) -> &rayon::ThreadPool {
        &self.pool
    }
}

impl Pool for Rayon {
    type Handle = Arc<rayon::ThreadPool>;

    fn start(size: Size) -> Self {
        let started = Arc::new(Mutex::new(Vec::new()));
        let threads = Arc::clone(&started);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(size.workers)
            .spawn_handler(move |worker| {
                let thread = thread::spawn(|| worker.run());
                threads.lock().expect("nothing panics under this lock").push(thread);
                Ok(())
            })
            .build()
            .expect("two threads can be started");
        let threads = std::mem::take(&mut *started.lock().expect("nothing panics under this lock"));
        Self { pool: Arc::new(pool), _threads: Threads::of(threads) }
    }

    fn handle(&self) -> Self::Handle {
        Arc::clone(&self.pool)
    }
}

impl Spawn for Arc<rayon::ThreadPool> {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        rayon::ThreadPool::spawn(self, task);
    }
}

impl Submit for Arc<rayon::ThreadPool> {
    type Ticket = Reply;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Reply {
        let (task, reply) = with_reply(task);
        rayon::ThreadPool::spawn(self, task);
        reply
    }

    #[inline]
    fn wait(&self, ticket: Reply) -> u64 {
        wait_for_reply(ticket)
    }

    #[inline]
    fn call(&self, task: impl FnOnce() -> u64 + Send + 'static) -> u64 {
        self.install(task)
    }
}

impl SpawnScoped for Arc<rayon::ThreadPool> {
    fn scope_outside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.in_place_scope(|scope| items.for_each(|item| scope.spawn(move |_| task(item))));
    }

    fn scope_inside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.scope(|scope| items.for_each(|item| scope.spawn(move |_| task(item))));
    }
}

/// The crate `threadpool`. Its threads end soon after the last handle.
pub(crate) struct PlainThreadPool {
    pool: threadpool::ThreadPool,
    _departure: Departure,
}

impl Pool for PlainThreadPool {
    type Handle = threadpool::ThreadPool;

    fn start(size: Size) -> Self {
        let departure = Departure::expected();
        Self { pool: threadpool::ThreadPool::new(size.workers), _departure: departure }
    }

    fn handle(&self) -> Self::Handle {
        self.pool.clone()
    }
}

impl Spawn for threadpool::ThreadPool {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.execute(task);
    }
}

impl Submit for threadpool::ThreadPool {
    type Ticket = Reply;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Reply {
        let (task, reply) = with_reply(task);
        self.execute(task);
        reply
    }

    #[inline]
    fn wait(&self, ticket: Reply) -> u64 {
        wait_for_reply(ticket)
    }
}

/// The crate `rusty_pool`, with as many threads at most as at least.
pub(crate) struct RustyPool(Option<rusty_pool::ThreadPool>);

impl Pool for RustyPool {
    type Handle = rusty_pool::ThreadPool;

    fn start(size: Size) -> Self {
        let keep_alive = Duration::from_secs(60);
        Self(Some(rusty_pool::ThreadPool::new(size.workers, size.workers, keep_alive)))
    }

    fn handle(&self) -> Self::Handle {
        self.0.clone().expect("the pool is taken when it is dropped and not before")
    }
}

impl Drop for RustyPool {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.shutdown_join();
        }
    }
}

impl Spawn for rusty_pool::ThreadPool {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.execute(task);
    }
}

impl Submit for rusty_pool::ThreadPool {
    type Ticket = rusty_pool::JoinHandle<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Self::Ticket {
        self.evaluate(task)
    }

    #[inline]
    fn wait(&self, ticket: Self::Ticket) -> u64 {
        ticket.await_complete()
    }
}

impl SpawnFuture for rusty_pool::ThreadPool {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        rusty_pool::ThreadPool::spawn(self, future);
    }
}
