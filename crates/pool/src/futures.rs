//! The async tasks that live: how many there may be, and where they are when the pool ends.
//!
//! A future that waits is in no queue; only what will wake it knows of it. So that a stop can end it all the same,
//! its address is noted here from submit to end. The note is no reference: a future that nobody can wake any more
//! must be seen to be so. What makes it safe to follow is the lock: an address is taken out under it before its
//! task may be freed.

use crate::cell::TaskRef;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks to spread the notes over.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct Futures {
    /// Places taken: by those that live, and by those whose submitter waits for room in a queue.
    places: AtomicUsize,
    places_max: usize,
    /// Those that were taken in and have not ended.
    live: AtomicUsize,
    /// The addresses of the live ones, by their middle bits.
    shards: [Mutex<Addresses>; SHARDS],
}

/// And whether the task was taken in: before, it is its submitter's alone.
type Addresses = HashMap<usize, bool, BuildHasherDefault<AddressHasher>>;

impl Futures {
    pub(crate) fn new(places_max: usize) -> Self {
        let places = AtomicUsize::new(0);
        Self { places, places_max, live: AtomicUsize::new(0), shards: Default::default() }
    }

    /// Makes place for one more and notes it; `false` if there are too many.
    pub(crate) fn enter(&self, task: &TaskRef) -> bool {
        if self.places.fetch_add(1, Relaxed) >= self.places_max {
            self.places.fetch_sub(1, Relaxed);
            return false;
        }
        self.shard(task.address()).insert(task.address(), false);
        true
    }

    /// It was taken in; it may have ended since.
    pub(crate) fn was_admitted(&self, address: usize) {
        if let Some(admitted) = self.shard(address).get_mut(&address) {
            *admitted = true;
            self.live.fetch_add(1, Relaxed);
        }
    }

    /// One has ended, or was not taken in.
    pub(crate) fn leave(&self, address: usize) {
        let mut shard = self.shard(address);
        if shard.remove(&address) == Some(true) {
            self.live.fetch_sub(1, Relaxed);
        }
        drop(shard);
        self.places.fetch_sub(1, Relaxed);
    }

    /// How many live.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// How many live or are on their way in.
    pub(crate) fn places(&self) -> usize {
        self.places.load(Relaxed)
    }

    /// References to all that were taken in and live at the moment.
    pub(crate) fn all(&self) -> Vec<TaskRef> {
        let mut all = Vec::with_capacity(self.live());
        for shard in &self.shards {
            let addresses = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let admitted = addresses.iter().filter(|(_, admitted)| **admitted).map(|(&address, _)| address);
            // SAFETY: a noted address is that of a task that has not ended, so its cell lives: whoever ends it comes
            // through `leave`, and so through this lock, before its last reference can go.
            all.extend(admitted.map(|address| unsafe { TaskRef::from_address(address) }));
        }
        all
    }

    fn shard(&self, address: usize) -> MutexGuard<'_, Addresses> {
        self.shards[mixed(address) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spreads addresses, which end in zeros, over all bits.
fn mixed(address: usize) -> u64 {
    (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20)
}

/// A hash for addresses, which nobody chooses with ill intent.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("an address is hashed as one number");
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = mixed(address);
    }
}
