//! Where a key was last: it stays with that worker for a while, whoever its owner is by now.
//!
//! When workers come, owners change, and a key that is in use would leave the caches it has warmed. This
//! table holds it where it was until it has not been used for the time given. The table is built like a
//! processor's cache: a key has a set of sixteen places, and a new one takes the place that has run out or
//! will run out first. So every call looks at sixteen places and no more, and nothing is allocated after the
//! beginning. A table made for n keys has 2n places, or more up to a power of two; with n keys in use, one in
//! a hundred or fewer is forgotten early.

use super::hash::mix_two;
use super::{Affinity, more_than_none, within};
use crate::setting::Complaint;
use crate::{BadSetting, Moment};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// The most keys a table may be made for.
pub(super) const KEYS_MAX: usize = 1 << 24;

const WAYS: usize = 16;
/// A constant that keeps a key's set apart from its places on a ring and from draws.
const SET: u64 = 0x7374_6963_6B79_5F73;

/// Keys and the workers they stay with.
#[derive(Clone, Debug)]
pub struct Sticky {
    /// Sets of sixteen, one behind the other; their number is a power of two.
    places: Vec<Entry>,
    life: Duration,
    counts: StickyCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    /// The entry counts before this moment, and is a free place from then on. At first that is the beginning
    /// of time.
    until: Moment,
    worker: u32,
}

/// What has happened to keys so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StickyCounts {
    /// Looked for, and found where they had been.
    pub hits: u64,
    /// Looked for, and not known or no longer.
    pub misses: u64,
    /// Forgotten because their worker went.
    pub moved: u64,
    /// Forgotten early, for want of a place.
    pub evicted: u64,
}

impl StickyCounts {
    /// Which share of those looked for was found, of 10 000.
    pub fn hit_rate(&self) -> u16 {
        let looked = u128::from(self.hits) + u128::from(self.misses);
        let rate = (u128::from(self.hits) * 10_000).checked_div(looked).unwrap_or(0);
        u16::try_from(rate).unwrap_or(u16::MAX)
    }
}

impl Sticky {
    /// A table for so many keys (1 to 16 777 216), each of which stays for `life` after it was last used.
    pub fn new(keys_max: usize, life: Duration) -> Result<Self, BadSetting> {
        Self::checked(keys_max, life)
    }

    /// The same without words, for programs that have their own and must be small; none if that cannot work.
    pub fn new_silently(keys_max: usize, life: Duration) -> Option<Self> {
        Self::checked::<()>(keys_max, life).ok()
    }

    fn checked<E: Complaint>(keys_max: usize, life: Duration) -> Result<Self, E> {
        within("affinity.sticky_keys_max", 1, KEYS_MAX, keys_max)?;
        more_than_none("affinity.sticky_for", life)?;
        let sets = (2 * keys_max).div_ceil(WAYS).next_power_of_two();
        Ok(Self { places: vec![Entry::default(); sets * WAYS], life, counts: StickyCounts::default() })
    }

    /// The worker for a key: the one it is with, or else its owner, with whom it stays from now on. Nobody if
    /// there are no workers. True if it was with that worker before.
    pub fn route(&mut self, key: u64, owners: &Affinity, now: Moment) -> Option<(u32, bool)> {
        if let Some(worker) = self.find(key, now) {
            return Some((worker, true));
        }
        let owner = owners.owner(key)?;
        self.bind(key, owner, now);
        Some((owner, false))
    }

    /// The worker a key is with, and it stays there anew. Counts a hit or a miss.
    pub fn find(&mut self, key: u64, now: Moment) -> Option<u32> {
        let until = now + self.life;
        let entry = self.set(key).iter_mut().find(|entry| entry.key == key && entry.until > now);
        let worker = entry.map(|entry| {
            entry.until = until;
            entry.worker
        });
        match worker {
            Some(_) => self.counts.hits += 1,
            None => self.counts.misses += 1,
        }
        worker
    }

    /// From now on the key is with this worker.
    pub fn bind(&mut self, key: u64, worker: u32, now: Moment) {
        let until = now + self.life;
        // Where the key is, or else the place that is free for longest or will be first.
        let is_here = |entry: &Entry| entry.key == key && entry.until > now;
        let place = self.set(key).iter_mut().min_by_key(|entry| (!is_here(entry), entry.until));
        let Some(place) = place else { return };
        let evicts = !is_here(place) && place.until > now;
        *place = Entry { key, until, worker };
        self.counts.evicted += u64::from(evicts);
    }

    /// Forgets a key; false if it was not with a worker.
    pub fn forget(&mut self, key: u64, now: Moment) -> bool {
        let entry = self.set(key).iter_mut().find(|entry| entry.key == key && entry.until > now);
        entry.map(|entry| *entry = Entry::default()).is_some()
    }

    /// Forgets all keys of a worker that goes, and says how many were with it. Goes over the whole table.
    pub fn forget_worker(&mut self, worker: u32, now: Moment) -> usize {
        self.forget_workers(|other| other == worker, now)
    }

    /// As [`forget_worker`](Self::forget_worker), for all workers that are gone, in one pass.
    pub fn forget_workers(&mut self, is_gone: impl Fn(u32) -> bool, now: Moment) -> usize {
        let mut moved = 0;
        for entry in self.places.iter_mut().filter(|entry| is_gone(entry.worker) && entry.until > now) {
            *entry = Entry::default();
            moved += 1;
        }
        self.counts.moved += moved as u64;
        moved
    }

    /// How many keys are with a worker now. Goes over the whole table.
    pub fn len(&self, now: Moment) -> usize {
        self.places.iter().filter(|entry| entry.until > now).count()
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// What has happened so far.
    pub const fn counts(&self) -> StickyCounts {
        self.counts
    }

    fn set(&mut self, key: u64) -> &mut [Entry] {
        let sets = self.places.len() / WAYS;
        let set = mix_two(SET, key) as usize & (sets - 1);
        &mut self.places[set * WAYS..][..WAYS]
    }
}
