//! A queue's end: the word that says which position is next, a guess at it, and how long a fruitless look lingers.
//!
//! Reading a word right after a compare-and-swap of it costs as much as the swap: the processor will not
//! hand on what a locked instruction wrote before that has reached the cache. So whoever moves the word
//! notes its new value beside it, and the next one starts from the note. It may be old, never too new; the
//! swap finds out.
//!
//! When a consumer is as fast as its producer, it finds the queue empty after nearly every item. Each such look
//! takes the cache lines the producer is working on away from it, and both crawl along at one transfer (here about
//! 60 ns) per item. A consumer that lingers for a moment instead finds several items at once, on lines
//! nobody else is writing. So the first fruitless look after a success lingers if lingering has paid off
//! lately, that is, if several items had come meanwhile. In a ping-pong, where at most one comes, it soon
//! stops, but for one probe in [`PROBE_EVERY`]. The second fruitless look in a row never lingers.
//!
//! Guess and lingering are hints: they decide when and where a thread looks first, never what it may take.
//! The models leave them out.

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The next position of one end, with whatever flags the queue keeps in the bits above it.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Moved by compare-and-swap by the threads of this end; read by anyone.
    pub(crate) word: AtomicU64,
    /// What the word was after one of the last moves; read and written by the threads of this end only.
    #[cfg(not(any(loom, shuttle)))]
    guess: AtomicU64,
    /// Used by the threads of this end only.
    pub(crate) lull: Lull,
}

impl Cursor {
    pub(crate) fn new(word: u64) -> Self {
        Self {
            word: AtomicU64::new(word),
            #[cfg(not(any(loom, shuttle)))]
            guess: AtomicU64::new(word),
            lull: Lull::new(),
        }
    }

    /// What the word probably is, or was a moment ago.
    #[inline(always)]
    pub(crate) fn guess(&self) -> u64 {
        #[cfg(not(any(loom, shuttle)))]
        return self.guess.load(Relaxed);
        #[cfg(any(loom, shuttle))]
        return self.word.load(Relaxed);
    }

    /// Moves the word on, if it is `old`.
    #[inline(always)]
    pub(crate) fn advance(&self, old: u64, new: u64) -> bool {
        let moved = self.word.compare_exchange(old, new, Relaxed, Relaxed).is_ok();
        #[cfg(not(any(loom, shuttle)))]
        if moved {
            self.guess.store(new, Relaxed);
        }
        moved
    }
}

#[cfg(not(any(loom, shuttle)))]
mod make {
    use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

    /// So many pauses a probe lingers.
    const PAUSES_PROBE: u32 = 12;
    /// Lingering pays off if it gains an item for every so many pauses.
    const PAUSES_PER_ITEM: u32 = 8;
    /// While lingering does not pay, one fruitless look in so many tries again.
    const PROBE_EVERY: u64 = 16;

    /// How long a fruitless look lingers. Torn or lost updates are harmless.
    #[derive(Debug)]
    pub(crate) struct Lull {
        /// Where the last fruitless look was; a second one there does not linger.
        fruitless_at: AtomicU64,
        pauses: AtomicU32,
    }

    impl Lull {
        pub(crate) const fn new() -> Self {
            Self { fruitless_at: AtomicU64::new(u64::MAX), pauses: AtomicU32::new(0) }
        }

        /// Lingers at `position`, if that is likely to pay, for at most `pauses_max` pauses. `gained` then
        /// counts what there is to do. Returns whether it is worth looking again.
        pub(crate) fn linger(&self, position: u64, pauses_max: u32, gained: impl FnOnce() -> usize) -> bool {
            if self.fruitless_at.load(Relaxed) == position {
                return false;
            }
            self.fruitless_at.store(position, Relaxed);
            let mut pauses = self.pauses.load(Relaxed);
            if pauses == 0 {
                if !position.is_multiple_of(PROBE_EVERY) {
                    return false;
                }
                pauses = PAUSES_PROBE;
            }
            let pauses = pauses.min(pauses_max);
            for _ in 0..pauses {
                core::hint::spin_loop();
            }
            let gained = gained();
            let paid = gained as u64 * u64::from(PAUSES_PER_ITEM) >= u64::from(pauses);
            let pauses = if paid { (pauses * 2).min(pauses_max) } else { pauses / 2 };
            self.pauses.store(pauses, Relaxed);
            gained > 0
        }
    }
}

#[cfg(any(loom, shuttle))]
mod make {
    /// A model has no time to linger in.
    #[derive(Debug)]
    pub(crate) struct Lull;

    impl Lull {
        pub(crate) const fn new() -> Self {
            Self
        }
        pub(crate) fn linger(
            &self,
            _position: u64,
            _pauses_max: u32,
            _gained: impl FnOnce() -> usize,
        ) -> bool {
            false
        }
    }
}

pub(crate) use make::Lull;
