//! The peers that fork and join: each computes a Fibonacci number with a join at every level, in its own
//! words.
//!
//! A trait would have to hide that chili and forte hand their worker down the recursion, which is what makes
//! them fast; so each has a function. All get two threads to compute on: rayon two workers, since its caller
//! sleeps; chili and forte one worker, since their caller works.
//!
//! Not here: the group (`groups/pool/join.rs`), ours (`millpond_pool.rs`).

use super::pools::{Pool, Size};
use super::thread_pools::Rayon;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;

/// A pool that can compute Fibonacci numbers.
pub(crate) trait Fork: Sized + 'static {
    fn start(threads: usize) -> Self;
    fn fibonacci(&self, n: u32) -> u64;
}

/// The limit for one core: calls, and no joins.
pub(crate) struct Sequential;

impl Fork for Sequential {
    fn start(_threads: usize) -> Self {
        Self
    }

    fn fibonacci(&self, n: u32) -> u64 {
        #[inline(never)]
        fn compute(n: u32) -> u64 {
            if n < 2 { u64::from(n) } else { compute(n - 1) + compute(n - 2) }
        }
        compute(n)
    }
}

impl Fork for Rayon {
    fn start(threads: usize) -> Self {
        <Self as Pool>::start(Size { workers: threads, capacity: 0 })
    }

    fn fibonacci(&self, n: u32) -> u64 {
        fn compute(n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = rayon::join(|| compute(n - 1), || compute(n - 2));
            a + b
        }
        self.pool().install(|| compute(n))
    }
}

impl Fork for chili::ThreadPool {
    fn start(threads: usize) -> Self {
        // The caller is one of the threads.
        let config = chili::Config { thread_count: NonZero::new(threads), ..chili::Config::default() };
        Self::with_config(config)
    }

    fn fibonacci(&self, n: u32) -> u64 {
        fn compute(scope: &mut chili::Scope<'_>, n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = scope.join(|scope| compute(scope, n - 1), |scope| compute(scope, n - 2));
            a + b
        }
        compute(&mut self.scope(), n)
    }
}

/// Forte, with a pool that is left behind.
///
/// Its `depopulate` waits for the heartbeat thread while it holds the lock that this thread needs, and so
/// never returns. But from then on every thread of the pool sleeps, which is all that the next row asks for.
/// So it is called on a thread of its own, and pool and threads are leaked, once a round.
pub(crate) struct Forte(&'static forte::ThreadPool);

impl Fork for Forte {
    fn start(threads: usize) -> Self {
        let pool: &'static _ = Box::leak(Box::new(forte::ThreadPool::new()));
        pool.resize_to(threads - 1);
        Self(pool)
    }

    fn fibonacci(&self, n: u32) -> u64 {
        fn compute(worker: &forte::Worker, n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = worker.join(|worker| compute(worker, n - 1), |worker| compute(worker, n - 2));
            a + b
        }
        self.0.with_worker(|worker| compute(worker, n))
    }
}

impl Drop for Forte {
    fn drop(&mut self) {
        let pool = self.0;
        let (begun, beginning) = mpsc::channel();
        thread::spawn(move || {
            // The receiver waits for exactly this.
            let _ = begun.send(());
            pool.depopulate();
        });
        let _ = beginning.recv();
    }
}
