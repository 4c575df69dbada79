//! What a group asks of a pool, in the fewest words: one trait per kind of task.
//!
//! As with the queues, the traits are implemented for what a user would hold (a clone of the pool, a
//! runtime's handle, a channel's sender), and the measured loops are compiled afresh for each. A pool ends
//! when it is dropped, and waits for its threads where the peer lets it, so that no row pays for the row
//! before.
//!
//! Not here: the pools (`thread_pools.rs`, `channel_pools.rs`, `executors.rs`, `millpond_pool.rs`), the loops
//! (`groups/pool/`).

use futures::channel::oneshot;
use futures_lite::future::block_on;
use std::fs;
use std::ops::Range;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How large to start a pool.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) workers: usize,
    /// Room for tasks that wait, where the peer has a limit.
    pub(crate) capacity: usize,
}

/// A running pool.
pub(crate) trait Pool: Sized + 'static {
    /// What tasks are given to; dropped before the pool is.
    type Handle: Clone + Send + 'static;

    fn start(size: Size) -> Self;
    fn handle(&self) -> Self::Handle;
}

/// Closures, fire and forget.
pub(crate) trait Spawn: Clone + Send + 'static {
    /// Waits for room where the peer has a limit. Tasks call it too.
    fn spawn(&self, task: impl FnOnce() + Send + 'static);
}

/// Closures whose result is waited for.
pub(crate) trait Submit: Clone + Send + 'static {
    type Ticket;

    fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Self::Ticket;
    fn wait(&self, ticket: Self::Ticket) -> u64;

    /// Both at once; some peers have a shorter way.
    #[inline]
    fn call(&self, task: impl FnOnce() -> u64 + Send + 'static) -> u64 {
        self.wait(self.submit(task))
    }
}

/// Futures, fire and forget.
pub(crate) trait SpawnFuture: Clone + Send + 'static {
    fn spawn_future(&self, future: impl Future<Output = ()> + Send + 'static);
}

/// Closures that are over when the call returns.
pub(crate) trait SpawnScoped: Clone + Send + 'static {
    /// Runs `task` for each item; the calling thread spawns.
    fn scope_outside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static);
    /// The same; a worker spawns.
    fn scope_inside(&self, items: Range<u64>, task: impl Fn(u64) + Copy + Send + Sync + 'static);
}

/// The claim on a result for peers that have none of their own.
pub(crate) type Reply = oneshot::Receiver<u64>;

/// A task that sends its result, and the claim on it.
#[inline]
pub(crate) fn with_reply(
    task: impl FnOnce() -> u64 + Send + 'static,
) -> (impl FnOnce() + Send + 'static, Reply) {
    let (sender, reply) = oneshot::channel();
    let task = move || {
        // A result that nobody waits for is found missing by who sums the results up.
        let _ = sender.send(task());
    };
    (task, reply)
}

#[inline]
pub(crate) fn wait_for_reply(reply: Reply) -> u64 {
    block_on(reply).expect("the pool runs every task it took")
}

/// Threads that are waited for in the end. Declared after whatever makes them stop, since fields drop in
/// order.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(crate) fn start(count: usize, mut work: impl FnMut() -> Box<dyn FnOnce() + Send>) -> Self {
        Self((0..count).map(|_| thread::spawn(work())).collect())
    }

    pub(crate) fn of(threads: Vec<JoinHandle<()>>) -> Self {
        Self(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // What a worker panicked with stands above; the round then lacks its tasks and says so.
            let _ = thread.join();
        }
    }
}

/// Waits, when it is dropped, until this process has no more threads than when it was made: for peers whose
/// threads end by themselves and cannot be joined. Declared last, like `Threads`. Where threads cannot be
/// counted it does not wait.
pub(crate) struct Departure(usize);

impl Departure {
    pub(crate) fn expected() -> Self {
        Self(threads_running())
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        // Somebody else may have started a thread meanwhile that stays; then the next row is a little less
        // quiet.
        let deadline = Instant::now() + Duration::from_secs(1);
        while threads_running() > self.0 && Instant::now() < deadline {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Zero where the system does not tell.
fn threads_running() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
