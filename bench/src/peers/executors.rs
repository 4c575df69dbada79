//! The peers that run futures: tokio, async-executor, the `ThreadPool` of futures; and forte, in place.
//!
//! A closure is given to them as a future that is ready at its first poll, as their users do; tokio also has
//! `spawn_blocking` for closures. None of them has a limit on what waits.
//!
//! Not here: pools for closures (`thread_pools.rs`).

use super::pools::{Departure, Pool, Size, Spawn, SpawnFuture, SpawnScoped, Submit, Threads};
use async_executor::Executor;
use futures::executor::ThreadPool;
use futures::future::RemoteHandle;
use futures::task::SpawnExt;
use futures_lite::future::block_on;
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// Tokio's multi-threaded runtime.
pub(crate) struct Tokio(Runtime);

impl Pool for Tokio {
    type Handle = Handle;

    fn start(size: Size) -> Self {
        let mut builder = Builder::new_multi_thread();
        Self(builder.worker_threads(size.workers).build().expect("two threads can be started"))
    }

    fn handle(&self) -> Handle {
        self.0.handle().clone()
    }
}

impl Spawn for Handle {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        Self::spawn(self, async { task() });
    }
}

impl SpawnFuture for Handle {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        Self::spawn(self, future);
    }
}

impl Submit for Handle {
    type Ticket = JoinHandle<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> JoinHandle<u64> {
        Self::spawn(self, async { task() })
    }

    #[inline]
    fn wait(&self, ticket: JoinHandle<u64>) -> u64 {
        self.block_on(ticket).expect("the task does not panic and is not cancelled")
    }
}

/// Tokio's threads for closures that block, as many as others have workers.
pub(crate) struct TokioBlocking(Runtime);

/// The way to those threads.
#[derive(Clone)]
pub(crate) struct BlockingHandle(Handle);

impl Pool for TokioBlocking {
    type Handle = BlockingHandle;

    fn start(size: Size) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(size.workers);
        Self(builder.build().expect("three threads can be started"))
    }

    fn handle(&self) -> BlockingHandle {
        BlockingHandle(self.0.handle().clone())
    }
}

impl Spawn for BlockingHandle {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn_blocking(task);
    }
}

impl Submit for BlockingHandle {
    type Ticket = JoinHandle<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> JoinHandle<u64> {
        self.0.spawn_blocking(task)
    }

    #[inline]
    fn wait(&self, ticket: JoinHandle<u64>) -> u64 {
        self.0.block_on(ticket).expect("the task does not panic and is not cancelled")
    }
}

/// An executor that is run by threads until nobody can stop them any more.
pub(crate) struct AsyncExecutor {
    _stop: async_channel::Sender<()>,
    executor: Arc<Executor<'static>>,
    _threads: Threads,
}

impl Pool for AsyncExecutor {
    type Handle = Arc<Executor<'static>>;

    fn start(size: Size) -> Self {
        let executor = Arc::new(Executor::new());
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let threads = Threads::start(size.workers, || {
            let (executor, stopped) = (Arc::clone(&executor), stopped.clone());
            Box::new(move || {
                // An error is the sign to stop: the sender is gone.
                let _ = block_on(executor.run(stopped.recv()));
            })
        });
        Self { _stop: stop, executor, _threads: threads }
    }

    fn handle(&self) -> Self::Handle {
        Arc::clone(&self.executor)
    }
}

impl Spawn for Arc<Executor<'static>> {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        Executor::spawn(self, async { task() }).detach();
    }
}

impl SpawnFuture for Arc<Executor<'static>> {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        Executor::spawn(self, future).detach();
    }
}

impl Submit for Arc<Executor<'static>> {
    type Ticket = async_executor::Task<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Self::Ticket {
        Executor::spawn(self, async { task() })
    }

    #[inline]
    fn wait(&self, ticket: Self::Ticket) -> u64 {
        block_on(ticket)
    }
}

/// The `ThreadPool` of the crate `futures`. Its threads end soon after the last handle.
pub(crate) struct FuturesPool {
    pool: ThreadPool,
    _departure: Departure,
}

impl Pool for FuturesPool {
    type Handle = ThreadPool;

    fn start(size: Size) -> Self {
        let departure = Departure::expected();
        let pool = ThreadPool::builder().pool_size(size.workers).create();
        Self { pool: pool.expect("two threads can be started"), _departure: departure }
    }

    fn handle(&self) -> ThreadPool {
        self.pool.clone()
    }
}

impl Spawn for ThreadPool {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.spawn_ok(async { task() });
    }
}

impl SpawnFuture for ThreadPool {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_ok(future);
    }
}

impl Submit for ThreadPool {
    type Ticket = RemoteHandle<u64>;

    #[inline]
    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Self::Ticket {
        self.spawn_with_handle(async { task() }).expect("the pool is not shut down")
    }

    #[inline]
    fn wait(&self, ticket: Self::Ticket) -> u64 {
        block_on(ticket)
    }
}

/// Forte shares only what `join` forks. What an outsider spawns, it runs on the outsider's own thread before
/// `spawn` returns, and all that this spawns with it; so no worker is started here, and the row is a limit:
/// what a task costs that goes nowhere. Each time an outsider comes it gets a place, and looks through those
/// of all who came before, so the row stands only where outsiders come seldom, and every round has a pool of
/// its own, which is leaked.
pub(crate) struct ForteInPlace(&'static forte::ThreadPool);

impl Pool for ForteInPlace {
    type Handle = &'static forte::ThreadPool;

    fn start(_size: Size) -> Self {
        Self(Box::leak(Box::new(forte::ThreadPool::new())))
    }

    fn handle(&self) -> Self::Handle {
        self.0
    }
}

impl Spawn for &'static forte::ThreadPool {
    #[inline]
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        forte::ThreadPool::spawn(self, |_| task());
    }
}

impl SpawnScoped for &'static forte::ThreadPool {
    fn scope_outside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.scope(|scope| items.for_each(|item| scope.spawn(move |_| task(item))));
    }

    fn scope_inside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static) {
        self.scope_outside(items, task);
    }
}

impl SpawnFuture for &'static forte::ThreadPool {
    #[inline]
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static) {
        forte::ThreadPool::spawn_future(self, future).detach();
    }
}
