//! A pair of fences of which only the rare side pays.
//!
//! A full fence takes about as long as all the rest of a spawn from inside a task. Where one side of a race is such a
//! spawn and the other a worker that falls asleep, the *heavy* fence of the sleeper makes every running thread of the
//! process fence (`membarrier`), and the *light* one of the spawner only keeps the compiler from mixing the steps up.
//! A light fence and a heavy one do for each other what two full ones do: what one side wrote before is seen by the
//! other after, or the other way round. Two light ones do nothing, nor do a light and a full one.
//!
//! A process has to announce itself to the kernel first. If it has other threads already that takes some ms (13 here),
//! so a thread of its own does it beside the start of the first pool. Until then, and where there is no such call, a
//! light fence is a full one.
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
    use std::thread;

    /// No pool has begun.
    const NEW: u32 = 0;
    /// The kernel is being told of this process.
    const ASKED: u32 = 1;
    /// Light fences are light.
    const LIGHT: u32 = 2;
    /// The kernel has no such call, or may not be asked: light fences are full ones, now and for ever.
    const FULL: u32 = 3;

    /// Only ever goes up, and is settled once. So a light fence that is none is never met by one who believes that all
    /// of them are full.
    static MODE: AtomicU32 = AtomicU32::new(NEW);

    /// Nothing: what it stands for is the kernel's.
    #[derive(Debug)]
    pub(crate) struct Barrier;

    impl Barrier {
        /// Announces the process, if nobody has, without waiting for that.
        pub(crate) fn new() -> Self {
            if MODE.compare_exchange(NEW, ASKED, Relaxed, Relaxed).is_ok() {
                let helper = thread::Builder::new().name("millpond-barrier".to_owned());
                if helper.spawn(|| settle(announce())).is_err() {
                    settle(false);
                }
            }
            Self
        }

        /// Whether there may be light fences that only a heavy one meets.
        pub(crate) fn may_be_light(&self) -> bool {
            MODE.load(Relaxed) != FULL
        }

        #[inline(always)]
        pub(crate) fn light(&self) {
            if MODE.load(Relaxed) == LIGHT {
                compiler_fence(SeqCst);
            } else {
                full_fence();
            }
        }

        pub(crate) fn heavy(&self) -> Reach {
            match MODE.load(Relaxed) {
                LIGHT if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) => Reach::All,
                FULL => {
                    full_fence();
                    Reach::All
                }
                _ => Reach::NotYet,
            }
        }

        /// To be called when heavy fences do not reach all for long: the process may have been copied before its
        /// announcement was over, or have lost it, or a filter of system calls has come over it.
        #[cold]
        pub(crate) fn announce_again(&self) {
            settle(announce());
        }
    }

    fn settle(is_announced: bool) {
        // Whoever comes second has nothing to say.
        let _ = MODE.compare_exchange(ASKED, if is_announced { LIGHT } else { FULL }, Relaxed, Relaxed);
    }

    fn announce() -> bool {
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
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

    #[derive(Debug)]
    pub(crate) struct Barrier;

    impl Barrier {
        pub(crate) fn new() -> Self {
            Self
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

        pub(crate) fn announce_again(&self) {}
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

        pub(crate) fn announce_again(&self) {}
    }
}

pub(crate) use make::Barrier;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Barrier, Reach};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

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
        // Until the process is announced, and its light fences are as light as they get.
        while barrier.heavy() == Reach::NotYet {
            thread::sleep(Duration::from_millis(1));
        }
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
