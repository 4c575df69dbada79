//! How workers tell the reactor that a connection has something to send: a list, and one wake-up for many.
//!
//! The reactor sleeps in `poll`. A worker that finished a task puts the connection on the list and wakes the
//! reactor, but only if it sleeps or is about to: a wake-up is a system call, and a reactor that is awake
//! will look at the list anyway before it sleeps.
//!
//! Why no wake-up is lost: list and `asleep` are guarded by one lock.
//!
//! ```text
//!  reactor  may_sleep: lock { asleep = list is empty }, then poll; take: lock { asleep = false; the list }
//!  worker   tell:      lock { add to list; was_asleep = asleep; asleep = false }, then wake if was_asleep
//! ```
//!
//! Whatever a worker adds before `may_sleep` has the lock is seen by `may_sleep`, and the reactor stays
//! awake. Whatever is added after it finds `asleep` set, or finds it taken by another worker since, which
//! then owes the wake-up. The waker is an eventfd: written before `poll` begins, it still ends that `poll`.
//! The lock costs little, for a connection that is on the list is not added again (`outbox.rs`): one visit
//! for many answers.
//!
//! Not here: what the connection has to send.

use mio::{Token, Waker};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The list, and the bell beside it.
#[derive(Debug)]
pub(super) struct News {
    /// Touched by any thread, for a moment.
    board: Mutex<Board>,
    waker: Waker,
    /// How often the bell was rung; only a number for people.
    wakes: AtomicU64,
}

#[derive(Debug, Default)]
struct Board {
    /// Connections with something to send. Bounded: each is there once.
    list: Vec<Token>,
    /// Whether the reactor is in `poll` or will be, and nobody has woken it yet.
    asleep: bool,
}

impl News {
    pub(super) fn new(waker: Waker) -> Self {
        Self { board: Mutex::default(), waker, wakes: AtomicU64::new(0) }
    }

    /// A connection has something to send. Called by any thread.
    pub(super) fn tell(&self, connection: Token) {
        let mut board = self.lock();
        board.list.push(connection);
        let asleep = mem::replace(&mut board.asleep, false);
        drop(board);
        if asleep {
            self.ring();
        }
    }

    /// Wakes the reactor whatever it does.
    pub(super) fn ring(&self) {
        self.wakes.fetch_add(1, Relaxed);
        // An eventfd that cannot be written is full, and then the reactor is woken already.
        let _: io::Result<()> = self.waker.wake();
    }

    /// Whether the reactor may go to sleep now. If so, whoever has news from now on wakes it.
    pub(super) fn may_sleep(&self) -> bool {
        let mut board = self.lock();
        board.asleep = board.list.is_empty();
        board.asleep
    }

    /// The reactor is awake: moves the list to the end of `found`.
    pub(super) fn take(&self, found: &mut Vec<Token>) {
        let mut board = self.lock();
        board.asleep = false;
        found.append(&mut board.list);
    }

    pub(super) fn wakes(&self) -> u64 {
        self.wakes.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::hash::{BuildHasher, RandomState};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    const WAKER: Token = Token(usize::MAX);
    /// A wake-up that has not come by then was lost.
    const LOST_AFTER: Duration = Duration::from_secs(20);

    fn number_from(variable: &str) -> Option<u64> {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
    }

    /// A tiny generator: the next number of xorshift64.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Waits a random moment, from nothing to a turn of the scheduler.
    fn dawdle(dice: &mut u64) {
        match next(dice) % 8 {
            0 => thread::yield_now(),
            1..=4 => (0..next(dice) % 400).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// Each worker has one connection that it lists only when the reactor has seen the last listing, as the
    /// outbox does: so a single wake-up that is lost leaves that worker waiting for ever.
    #[test]
    fn no_wake_up_is_lost() {
        let seed = number_from("MILLPOND_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
        let rounds = number_from("MILLPOND_ROUNDS").unwrap_or(60_000);
        println!("MILLPOND_SEED={seed} MILLPOND_ROUNDS={rounds}");
        let mut poll = Poll::new().unwrap();
        let news = Arc::new(News::new(Waker::new(poll.registry(), WAKER).unwrap()));
        let listed: Arc<[AtomicBool; 3]> = Arc::default();
        let workers: Vec<_> = (0..listed.len())
            .map(|number| {
                let (news, listed) = (Arc::clone(&news), Arc::clone(&listed));
                let mut dice = seed.wrapping_add(number as u64 + 1).max(1);
                thread::spawn(move || {
                    for _ in 0..rounds {
                        while listed[number].swap(true, std::sync::atomic::Ordering::SeqCst) {
                            thread::yield_now();
                        }
                        dawdle(&mut dice);
                        news.tell(Token(number));
                    }
                })
            })
            .collect();
        let mut dice = seed.max(1);
        let mut events = Events::with_capacity(8);
        let mut found = Vec::new();
        let mut seen = 0;
        while seen < rounds * listed.len() as u64 {
            dawdle(&mut dice);
            if news.may_sleep() {
                dawdle(&mut dice);
                poll.poll(&mut events, Some(LOST_AFTER)).unwrap();
                assert!(!events.is_empty(), "a wake-up was lost after {seen} were seen; seed {seed}");
            }
            news.take(&mut found);
            for Token(number) in found.drain(..) {
                seen += 1;
                listed[number].store(false, std::sync::atomic::Ordering::SeqCst);
            }
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        println!("{} wake-ups for {seen} listings", news.wakes());
        assert!(news.wakes() <= seen);
    }
}
