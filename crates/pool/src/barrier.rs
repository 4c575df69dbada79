//! A pair of fences of which only the rare side pays.
//!
//! A full fence takes about as long as all the rest of a spawn from inside a task. Where one side of a race is such a
//! spawn and the other a worker that falls asleep, the *heavy* fence of the sleeper makes every running thread of the
//! process fence (`membarrier`), and the *light* one of the spawner only keeps the compiler from mixing the steps up.
//! A light fence and a heavy one do for each other what two full ones do: what one side wrote before is seen by the
//! other after, or the other way round. Two light ones do nothing, nor do a light and a full one.
//!
//! A process has to announce itself to the kernel first. If it has other threads already that takes 13 ms, so it is
//! done beside the start of the first pool. Until then, and where there is no such call, a light fence is a full one.
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
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
    use std::thread;

    /// Nobody knows yet.
    const ASKED: u32 = 0;
    /// Light fences are light.
    const LIGHT: u32 = 1;
    /// The kernel has no such call, or may not be asked: light fences are full ones, now and for ever.
    const FULL: u32 = 2;

    static MODE: AtomicU32 = AtomicU32::new(ASKED);

    /// Nothing: what it stands for is the kernel's.
    #[derive(Debug)]
    pub(crate) struct Barrier;

    impl Barrier {
        /// Announces the process, if nobody has, without waiting for that.
        pub(crate) fn new() -> Self {
            static BEGUN: Once = Once::new();
            BEGUN.call_once(|| {
                let announce = || MODE.store(if announce() { LIGHT } else { FULL }, Relaxed);
                let begun = thread::Builder::new().name("millpond-barrier".to_owned()).spawn(announce);
                if begun.is_err() {
                    MODE.store(FULL, Relaxed);
                }
            });
            Self
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
                // A filter of system calls may have come over the process since.
                _ => Reach::NotYet,
            }
        }
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
    /// before the earlier. With a full fence that says nothing.
    #[derive(Debug)]
    pub(crate) struct Barrier(AtomicU32);

    impl Barrier {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };

    /// One side of a race, on lines of its own.
    #[derive(Default)]
    #[repr(align(128))]
    struct Side {
        /// The round it is in.
        begun: AtomicU32,
        wrote: Line,
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
        let (by_light, by_heavy) = thread::scope(|scope| {
            let by_light = scope.spawn(|| race(&light, &heavy, || barrier.light()));
            let by_heavy = race(&heavy, &light, || assert_eq!(barrier.heavy(), Reach::All));
            (by_light.join().unwrap(), by_heavy)
        });
        let by_both: Vec<_> = by_light.iter().filter(|round| by_heavy.binary_search(round).is_ok()).collect();
        assert!(by_both.is_empty(), "neither side saw the other in {} of {ROUNDS} rounds", by_both.len());
    }
}
