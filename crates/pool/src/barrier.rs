//! A pair of fences of which only the rare side pays.
//!
//! A full fence takes about as long as all the rest of a spawn from inside a task. Where one side of a race is such a
//! spawn and the other a worker that falls asleep, the *heavy* fence of the sleeper makes every running thread of the
//! process fence (`membarrier`), and the *light* one of the spawner only keeps the compiler from mixing the steps up.
//! A light fence and a heavy one do for each other what two full ones do: what one side wrote before is seen by the
//! other after, or the other way round. Two light ones do nothing, nor do a light and a full one.
//!
//! A process has to announce itself to the kernel first, which takes some ms (13 here) if it has other threads, and
//! cannot be interrupted. So that is asked for by a worker that has run many tasks of its own queue, and another thread
//! does it meanwhile. Until then, and where there is no such call, a light fence is a full one.
//!
//! ```text
//!   Unasked ─── prepare ───► Asked ─── announced ───► Announced ─── every thread has fenced ───► Light
//!                              └───── refused ──────────► Full
//! ```
//!
//! Before `Announced` who falls asleep makes a full fence and no heavy one. If it has asked for the mode after its own
//! step and before that one, all see its step by the time that there are light fences; and whoever asks later makes a
//! heavy one.
//!
//! Not here: who needs them (`sleep.rs`, `SLEEP.md`).

/// Whether heavy fences reach all light ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// They do: what comes after this one is certain.
    All,
    /// Not this time; to be asked again later.
    NotYet,
}

#[cfg(all(target_os = "linux", not(miri), not(any(loom, shuttle))))]
mod make {
    use super::Reach;
    use crate::sync::full_fence;
    use std::sync::atomic::{
        AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::SeqCst, compiler_fence,
    };
    use std::sync::{Mutex, PoisonError};
    use std::thread::{self, JoinHandle};

    const UNASKED: u32 = 0;
    const ASKED: u32 = 1;
    const ANNOUNCED: u32 = 2;
    const LIGHT: u32 = 3;
    /// The kernel has no such call, or may not be asked: light fences are full ones, now and for ever.
    const FULL: u32 = 4;

    /// See the picture above. A process that is copied while its mode is `ASKED` stays there, as the thread that would
    /// change it is not copied.
    static MODE: AtomicU32 = AtomicU32::new(UNASKED);

    /// What it stands for is the kernel's.
    #[derive(Debug)]
    pub(crate) struct Barrier {
        /// The thread that announces the process, if this one asked for it and nobody has taken it to be joined.
        announcer: Mutex<Option<JoinHandle<()>>>,
    }

    impl Barrier {
        pub(crate) fn new() -> Self {
            Self { announcer: Mutex::new(None) }
        }

        /// Has the process announced, if nobody has, without waiting for that.
        #[cold]
        pub(crate) fn prepare(&self) {
            if !step(UNASKED, ASKED) {
                return;
            }
            match thread::Builder::new().name("millpond-fence".to_owned()).spawn(announce) {
                Ok(announcer) => {
                    *self.announcer.lock().unwrap_or_else(PoisonError::into_inner) = Some(announcer)
                }
                Err(_) => _ = step(ASKED, FULL),
            }
        }

        /// The thread that announces the process, if it may still be there.
        pub(crate) fn announcer(&self) -> Option<JoinHandle<()>> {
            self.announcer.lock().unwrap_or_else(PoisonError::into_inner).take()
        }

        /// Whether there may be light fences that only a heavy one meets. To be asked after a full fence.
        pub(crate) fn may_be_light(&self) -> bool {
            matches!(MODE.load(Acquire), ANNOUNCED | LIGHT)
        }

        #[inline(always)]
        pub(crate) fn light(&self) {
            // Acquire: what all threads had done before fences were light is seen by what follows.
            if MODE.load(Acquire) == LIGHT {
                compiler_fence(SeqCst);
            } else {
                full_fence();
            }
        }

        /// For one who may meet light fences, and has made a full one before.
        pub(crate) fn heavy(&self) -> Reach {
            // If the kernel has just refused the first one, no fence ever was light.
            if fence_all() || MODE.load(Acquire) == FULL { Reach::All } else { Reach::NotYet }
        }

        /// Has the process announced and waits for that. Says whether fences are light from now on.
        #[cfg(test)]
        pub(crate) fn settle(&self) -> bool {
            self.prepare();
            while !matches!(MODE.load(Acquire), LIGHT | FULL) {
                thread::yield_now();
            }
            MODE.load(Acquire) == LIGHT
        }
    }

    fn announce() {
        let is_announced = call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && step(ASKED, ANNOUNCED);
        if is_announced && fence_all() {
            step(ANNOUNCED, LIGHT);
        } else {
            // There was no light fence yet.
            step(if is_announced { ANNOUNCED } else { ASKED }, FULL);
        }
    }

    fn step(from: u32, to: u32) -> bool {
        MODE.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    fn fence_all() -> bool {
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    fn call(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only, and touches no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

#[cfg(not(any(all(target_os = "linux", not(miri)), loom, shuttle)))]
mod make {
    use super::Reach;
    use crate::sync::full_fence;
    use std::thread::JoinHandle;

    #[derive(Debug)]
    pub(crate) struct Barrier;

    impl Barrier {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn prepare(&self) {}

        pub(crate) fn announcer(&self) -> Option<JoinHandle<()>> {
            None
        }

        #[cfg(test)]
        pub(crate) fn settle(&self) -> bool {
            false
        }

        pub(crate) fn may_be_light(&self) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) fn light(&self) {
            full_fence();
        }

        pub(crate) fn heavy(&self) -> Reach {
            full_fence();
            Reach::All
        }
    }
}

#[cfg(any(loom, shuttle))]
mod make {
    use super::Reach;
    use crate::sync::{AtomicU32, Ordering};

    /// The fences come one after the other, as the swaps of one word do, and who comes later has seen all that was
    /// before the earlier. Of a full fence it says nothing. Of two light ones it says more than is true: a model has
    /// one thread that takes them.
    #[derive(Debug)]
    pub(crate) struct Barrier(AtomicU32);

    impl Barrier {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }

        pub(crate) fn prepare(&self) {}

        pub(crate) fn announcer(&self) -> Option<std::thread::JoinHandle<()>> {
            None
        }

        pub(crate) fn may_be_light(&self) -> bool {
            true
        }

        pub(crate) fn light(&self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }

        pub(crate) fn heavy(&self) -> Reach {
            self.0.fetch_add(1, Ordering::AcqRel);
            Reach::All
        }
    }
}

pub(crate) use make::Barrier;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Barrier, Reach};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
    use std::thread;

    const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };

    /// Writes that go before the one that counts, and hold it up on its way out of the processor.
    const HELD_UP_BY: usize = 32;

    /// One side of a race, on lines of its own.
    #[derive(Default)]
    #[repr(align(128))]
    struct Side {
        /// The round it is in.
        begun: AtomicU32,
        wrote: Line,
        /// Both sides write here, so that a line is mostly the other's.
        before: [Line; HELD_UP_BY],
    }

    #[derive(Default)]
    #[repr(align(128))]
    struct Line(AtomicU32);

    /// In each round: begins together with the other side, writes, fences, looks. Says in which rounds it saw nothing.
    fn race(own: &Side, other: &Side, fence: impl Fn()) -> Vec<u32> {
        let blind = |&round: &u32| {
            own.begun.store(round, SeqCst);
            let mut looks = 0u32;
            while other.begun.load(SeqCst) < round {
                looks += 1;
                if looks.is_multiple_of(256) {
                    thread::yield_now();
                }
            }
            for (own, other) in own.before.iter().zip(&other.before) {
                own.0.store(round, Relaxed);
                other.0.store(round, Relaxed);
            }
            own.wrote.0.store(round, Relaxed);
            fence();
            other.wrote.0.load(Relaxed) < round
        };
        (1..=ROUNDS).filter(blind).collect()
    }

    #[test]
    fn of_a_light_fence_and_a_heavy_one_one_side_sees_the_other() {
        let barrier = Barrier::new();
        barrier.settle();
        let (light, heavy) = (Side::default(), Side::default());
        let reached_all = AtomicBool::new(true);
        let (by_light, by_heavy) = thread::scope(|scope| {
            let by_light = scope.spawn(|| race(&light, &heavy, || barrier.light()));
            let by_heavy = race(&heavy, &light, || {
                reached_all.fetch_and(barrier.heavy() == Reach::All, Relaxed);
            });
            (by_light.join().unwrap(), by_heavy)
        });
        assert!(reached_all.into_inner(), "the kernel refused a fence");
        let by_both: Vec<_> = by_light.iter().filter(|round| by_heavy.binary_search(round).is_ok()).collect();
        assert!(by_both.is_empty(), "neither side saw the other in {} of {ROUNDS} rounds", by_both.len());
    }
}
