//! A bell: one word by which a consumer of several queues says that it sleeps, and a producer that it must be woken.
//!
//! ```text
//! sleeper                                  ringer, after it has published something
//! 1 word = how to be woken                 1 fence
//! 2 fence                                  2 word = 0? nobody sleeps, done
//! 3 look at everything again: done?        3 swap the word with 0: what it was says how to wake
//! 4 sleep while the word is not 0          4 wake
//! 5 word = 0
//! ```
//!
//! Between the two fences one comes first. If the sleeper's does, the ringer reads what the sleeper wrote and wakes;
//! if the ringer's does, the sleeper's look finds what was published. While nobody sleeps, ringing only reads, so that
//! many ringers do not tear at one line. Whoever swaps the word owes the wake-up, and nobody else does.
//!
//! The wait words of a ring (`v2_wait.rs`) serve one ring and count their sleepers. A bell serves any number of rings
//! and one sleeper, which is not always a thread: a JavaScript event loop waits by a promise or by a message.
//!
//! Not here: sleeping and waking themselves, which are the host's. A ringer killed between steps 3 and 4 takes the
//! wake-up along; the host hears of its death and lets the sleeper look.

use crate::edge::left_out;
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use crate::sync::full_fence;

/// What the word says while nobody sleeps.
pub const AWAKE: u32 = 0;

/// A bell over a word that two threads share. The word changes only through this type.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'m>(pub &'m AtomicU32);

impl Bell<'_> {
    /// The sleeper is about to sleep, and wants to be woken in the way of that number, which is not [`AWAKE`]. It must
    /// look at everything it waits for after this, and then sleep only while the word is what it put there.
    pub fn arm(self, way: u32) {
        self.0.store(way, Relaxed);
        if !left_out("BELL_ARM_FENCES") {
            full_fence();
        }
    }

    /// The sleeper is awake: because it was woken, or because its look found something.
    pub fn disarm(self) {
        self.0.store(AWAKE, Relaxed);
    }

    /// Something was published. Says how to wake the sleeper: [`AWAKE`] if there is nobody to wake.
    #[inline]
    pub fn ring(self) -> u32 {
        if !left_out("BELL_RING_FENCES") {
            full_fence();
        }
        if self.0.load(Relaxed) == AWAKE { AWAKE } else { self.0.swap(AWAKE, Relaxed) }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_once_and_in_the_way_it_asked_for() {
        let word = AtomicU32::new(AWAKE);
        let bell = Bell(&word);
        assert_eq!(bell.ring(), AWAKE);
        bell.arm(2);
        assert_eq!((bell.ring(), bell.ring()), (2, AWAKE));
        bell.arm(1);
        bell.disarm();
        assert_eq!(bell.ring(), AWAKE);
    }
}
