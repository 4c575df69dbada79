//! Sleeping on a word until somebody changes it: the one system call everything that blocks is built on.
//!
//! `wait` sleeps only if the word still holds what the caller saw, and the kernel checks that under its own lock,
//! so a wake-up between the look and the sleep is never lost. Returns may be spurious: callers look again.
//! On 64-bit Linux this is the futex call (32-bit systems do not agree on the width of its clock).
//! Elsewhere, and under the model checkers, one lock and one condition variable have the same contract, at
//! the price of waking everybody.
//!
//! Not here: what the words mean (`gate.rs`, `wpol/`).

use crate::sync::AtomicU32;
use core::time::Duration;

/// Who may share the word: threads of this process, or any process that maps the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(loom, shuttle, not(target_os = "linux")), allow(dead_code))]
pub enum Scope {
    /// One process; the kernel takes a shorter way.
    Private,
    /// Several processes.
    Shared,
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(any(loom, shuttle))))]
mod make {
    use super::{AtomicU32, Duration, Scope};

    /// Sleeps while `word` is `seen`, at most `timeout`. May return early.
    pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>, scope: Scope) {
        let limit = timeout.map(|timeout| libc::timespec {
            // A wait longer than the clock can say is cut short, which callers see as a spurious return.
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as _,
        });
        let limit = limit.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: `word` and `limit` are valid for the whole call, FUTEX_WAIT only reads them, and the kernel
        // checks the address itself. Every error (changed, interrupted, timed out) means "look again".
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | flag(scope), seen, limit) };
    }

    /// Wakes at most `count` sleepers of `word`.
    pub fn wake(word: &AtomicU32, count: u32, scope: Scope) {
        let count = count.min(i32::MAX as u32);
        // SAFETY: FUTEX_WAKE uses the address as a name only and touches no memory.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flag(scope), count) };
    }

    fn flag(scope: Scope) -> libc::c_int {
        match scope {
            Scope::Private => libc::FUTEX_PRIVATE_FLAG,
            Scope::Shared => 0,
        }
    }
}

#[cfg(not(any(all(target_os = "linux", target_pointer_width = "64"), loom, shuttle)))]
mod make {
    use super::{AtomicU32, Duration, Scope};
    use core::sync::atomic::Ordering::Relaxed;
    use std::sync::{Condvar, Mutex, PoisonError};

    static LOCK: Mutex<()> = Mutex::new(());
    static CHANGED: Condvar = Condvar::new();
    /// Between processes nobody can signal our condition variable: look again this often.
    const SHARED_NAP: Duration = Duration::from_millis(1);

    /// Sleeps while `word` is `seen`, at most `timeout`. May return early.
    pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>, scope: Scope) {
        let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Relaxed) != seen {
            return;
        }
        let nap = match scope {
            Scope::Private => timeout,
            Scope::Shared => Some(timeout.map_or(SHARED_NAP, |timeout| timeout.min(SHARED_NAP))),
        };
        match nap {
            None => drop(CHANGED.wait(guard)),
            Some(nap) => drop(CHANGED.wait_timeout(guard, nap)),
        }
    }

    /// Wakes the sleepers of `word`, and those of every other word: they look again.
    pub fn wake(_word: &AtomicU32, _count: u32, _scope: Scope) {
        drop(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
        CHANGED.notify_all();
    }
}

#[cfg(any(loom, shuttle))]
mod make {
    use super::{AtomicU32, Duration, Scope};
    use crate::sync::{Ordering, thread};
    use alloc::vec::Vec;
    use core::cell::RefCell;

    std::thread_local! {
        /// Who sleeps on which word, oldest first. The checkers run all threads of a model on one real thread and
        /// switch at their own operations only, so what happens here between two of those is one step.
        static SLEEPERS: RefCell<Vec<(usize, thread::Thread)>> = const { RefCell::new(Vec::new()) };
    }

    fn name(word: &AtomicU32) -> usize {
        core::ptr::from_ref(word) as usize
    }

    /// The contract of the kernel: compare and lie down as one step. The sleeper lies down first and gets up
    /// again if the word has changed, and a wake-up spent on it meanwhile is one
    /// the kernel would have given to another, so the model is the stricter of the two. A model has no
    /// clock, so a time-out never comes.
    pub fn wait(word: &AtomicU32, seen: u32, _timeout: Option<Duration>, _scope: Scope) {
        let me = thread::current().id();
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.push((name(word), thread::current())));
        // A read-modify-write, since the kernel compares with the newest value.
        if word.fetch_or(0, Ordering::Relaxed) == seen {
            thread::park();
        }
        SLEEPERS.with_borrow_mut(|sleepers| {
            if let Some(bed) = sleepers.iter().position(|(_, sleeper)| sleeper.id() == me) {
                sleepers.remove(bed);
            }
        });
    }

    /// Wakes exactly as many as asked, oldest first: one wake-up too few must show in the models.
    pub fn wake(word: &AtomicU32, count: u32, _scope: Scope) {
        for _ in 0..count {
            let woken = SLEEPERS.with_borrow_mut(|sleepers| {
                let bed = sleepers.iter().position(|(slept_on, _)| *slept_on == name(word))?;
                Some(sleepers.remove(bed).1)
            });
            match woken {
                Some(sleeper) => sleeper.unpark(),
                None => return,
            }
        }
    }
}

pub use make::{wait, wake};
