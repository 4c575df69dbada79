//! Which worker a key belongs to, and with whom it stays for a while.
//!
//! A key is a number of 64 bits, given in two halves; a text is hashed on the slate first ([`affinity_hash`]), and the
//! halves of its number stay here as "the key" for the call that follows. So a text costs two calls and no garbage.

use crate::brain::{self, Brain, has_room};
use crate::number::{moment, optional, whole, worker};
use millpond_policy::Moment;
use millpond_policy::affinity::{Affinity, AffinitySettings, Method, Rendezvous, Sticky, hash_bytes};

/// The most workers that [`affinity_preference`] lists.
pub const PREFERENCE_MAX: usize = 64;
/// What one place of the table of sticky keys takes, in bytes; the table has two to four for each key.
const PLACE_BYTES: usize = 24;
/// What one point on the ring takes, in bytes.
const POINT_BYTES: usize = 16;

/// Owners of keys, and keys that stay where they were.
#[derive(Debug)]
pub(crate) struct Keys {
    owners: Affinity,
    /// What a worker more takes, in bytes.
    worker_bytes: usize,
    sticky: Option<Sticky>,
    /// The key that the next call is about.
    key: u64,
    /// Whether the last route was to where the key had been.
    was_hit: bool,
}

impl Default for Keys {
    fn default() -> Self {
        let owners = Affinity::Rendezvous(Rendezvous::new());
        Self { owners, worker_bytes: POINT_BYTES, sticky: None, key: 0, was_hit: false }
    }
}

/// Why settings are not taken.
enum Unfit {
    Setting,
    Memory,
}

impl Keys {
    fn configure(&mut self, settings: &AffinitySettings) -> Result<(), Unfit> {
        let owners = Affinity::new_silently(settings).ok_or(Unfit::Setting)?;
        let sticky = match settings.sticky_for {
            None => None,
            Some(_) if !has_room(table_bytes(settings.sticky_keys_max)) => return Err(Unfit::Memory),
            Some(life) => Sticky::new_silently(settings.sticky_keys_max, life),
        };
        let points = if settings.method == Method::Ring { settings.virtual_nodes as usize } else { 1 };
        *self = Self { owners, worker_bytes: points * POINT_BYTES, sticky, key: 0, was_hit: false };
        Ok(())
    }

    /// Adds a worker: 1, or 0 if it is there already, or -1 if there is no memory for it.
    fn add(&mut self, worker: u32) -> i32 {
        // Points grow by doubling into a block of a power of two, beside the old ones and a worker's new ones.
        if !has_room(4 * self.worker_bytes * (self.owners.len() + 2)) {
            return -1;
        }
        i32::from(self.owners.add(worker))
    }

    /// Takes a worker away, and says how many keys were with it; none if it was not there.
    pub(crate) fn remove(&mut self, worker: u32, now: Moment) -> Option<usize> {
        let was_there = self.owners.remove(worker);
        let moved = self.sticky.as_mut().map_or(0, |sticky| sticky.forget_worker(worker, now));
        (was_there || moved > 0).then_some(moved)
    }

    fn route(&mut self, now: Moment) -> Option<u32> {
        let (worker, was_hit) = match &mut self.sticky {
            Some(sticky) => match sticky.find(self.key, now) {
                Some(worker) => (worker, true),
                None => {
                    let owner = first(&self.owners, self.key)?;
                    sticky.bind(self.key, owner, now);
                    (owner, false)
                }
            },
            None => (first(&self.owners, self.key)?, false),
        };
        self.was_hit = was_hit;
        Some(worker)
    }
}

/// The worker a key belongs to: the first in its order of preference, which has to be found out anyway for those that
/// follow. Policy has a shorter way, which is faster by some nanoseconds and half a kilobyte longer.
fn first(owners: &Affinity, key: u64) -> Option<u32> {
    let mut worker = [0];
    (owners.preference(key, &mut worker) == 1).then_some(worker[0])
}

/// What a table for so many keys takes, which are 2^24 at most: that much was checked.
fn table_bytes(keys_max: usize) -> usize {
    let places = (2 * keys_max).max(16).next_power_of_two();
    // A block is a power of two, so a table takes a third more than its places.
    (places * PLACE_BYTES).next_power_of_two()
}

impl Brain {
    fn set_key(&mut self, key: u64) -> u32 {
        self.keys.key = key;
        key as u32
    }
}

/// Forgets owners and keys and begins anew with these settings; `method` is 0 for rendezvous and 1 for a ring, and a
/// `sticky_for` below 0 is none. 1, or 0 if they cannot work, or -1 if there is not enough memory.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_configure(
    method: u32,
    virtual_nodes: u32,
    probes: u32,
    sticky_for: f64,
    sticky_keys_max: u32,
) -> i32 {
    let settings = AffinitySettings {
        method: if method == 1 { Method::Ring } else { Method::Rendezvous },
        virtual_nodes,
        probes,
        sticky_for: optional(sticky_for),
        sticky_keys_max: sticky_keys_max as usize,
        ..AffinitySettings::default()
    };
    brain::with(|brain| match brain.keys.configure(&settings) {
        Ok(()) => 1,
        Err(Unfit::Setting) => 0,
        Err(Unfit::Memory) => -1,
    })
}

/// Adds a worker: 1, or 0 if it is there already, or -1 if there is no memory for it. All own as many keys.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_add(worker: u32) -> i32 {
    brain::with(|brain| brain.keys.add(worker))
}

/// Takes a worker away, and says how many keys were with it; -1 if it was not there.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_remove(worker: u32, now: f64) -> i32 {
    brain::with(|brain| brain.keys.remove(worker, moment(now)).map_or(-1, |moved| moved as i32))
}

/// The key is the hash of so many bytes on the slate. Answers with its low half; [`affinity_key_high`] has the other.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_hash(len: u32) -> u32 {
    brain::with(|brain| {
        let key = hash_bytes(brain.slate.bytes(len));
        brain.set_key(key)
    })
}

/// The key is this number.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_key(low: u32, high: u32) {
    brain::with(|brain| brain.set_key(whole(low, high)));
}

/// The high half of the key.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_key_high() -> u32 {
    brain::with(|brain| (brain.keys.key >> 32) as u32)
}

/// Writes the workers to whom the key would belong to the slate, the owner first, at most `most` of them and
/// [`PREFERENCE_MAX`]; each as a number of 64 bits. Says how many.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_preference(most: u32) -> u32 {
    brain::with(|brain| {
        let mut found = [0; PREFERENCE_MAX];
        let most = PREFERENCE_MAX.min(most as usize);
        let count = brain.keys.owners.preference(brain.keys.key, &mut found[..most]).min(most);
        found[..count].iter().enumerate().for_each(|(at, &worker)| brain.slate.put(at, worker.into()));
        count as u32
    })
}

/// The worker for the key: where it has been lately, if keys are sticky, or else its owner; -1 if there is nobody.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_route(now: f64) -> i32 {
    brain::with(|brain| worker(brain.keys.route(moment(now))))
}

/// Whether the last route was to where the key had been.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_was_hit() -> u32 {
    brain::with(|brain| brain.keys.was_hit.into())
}

/// Writes what has happened to sticky keys to the slate: hits, misses, moved, evicted.
#[unsafe(no_mangle)]
pub extern "C" fn affinity_counts() {
    brain::with(|brain| {
        let counts = brain.keys.sticky.as_ref().map(Sticky::counts).unwrap_or_default();
        brain.slate.put_all(&[counts.hits, counts.misses, counts.moved, counts.evicted]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;
    use crate::workers::workers_gone;

    fn hash(text: &str) -> u64 {
        let len = brain::with(|brain| brain.slate.write(text.as_bytes()));
        let low = affinity_hash(len);
        whole(low, affinity_key_high())
    }

    fn read<const N: usize>() -> [u64; N] {
        brain::with(|brain| core::array::from_fn(|at| brain.slate.read(at)))
    }

    /// The worker that policy says the key belongs to, if preferring it is the same.
    fn owner() -> i32 {
        let owner = brain::with(|brain| worker(brain.keys.owners.owner(brain.keys.key)));
        let preferred = (affinity_preference(1) == 1).then(|| read::<1>()[0] as u32);
        assert_eq!(worker(preferred), owner);
        owner
    }

    #[test]
    fn a_text_is_hashed_as_policy_does_and_its_owner_is_found() {
        assert_eq!(hash("user:42"), hash_bytes(b"user:42"));
        assert_eq!((owner(), affinity_route(0.0)), (-1, -1), "nobody is there");
        (0..4).for_each(|worker| assert_eq!(affinity_add(worker), 1));
        assert_eq!(affinity_add(3), 0, "it is there already");
        let first = owner();
        assert_eq!(first, affinity_route(0.0));
        assert_eq!(affinity_was_hit(), 0);
        assert_eq!(affinity_preference(3), 3);
        let [_, second, _] = read::<3>();
        assert_eq!(affinity_remove(first as u32, 0.0), 0);
        assert_eq!(owner(), second as i32, "the next in the order of preference");
        assert_eq!(affinity_remove(first as u32, 0.0), -1);
    }

    #[test]
    fn a_sticky_key_stays_until_its_time_is_over_or_its_worker_goes() {
        assert_ne!(slate_at(0), 0);
        assert_eq!(affinity_configure(0, 150, 3, 100.0, 16), 1);
        assert_eq!(affinity_add(2), 1);
        affinity_key(5, 0);
        assert_eq!((affinity_route(0.0), affinity_was_hit()), (2, 0));
        assert_eq!((affinity_route(50.0), affinity_was_hit()), (2, 1));
        assert_eq!((affinity_route(150.0), affinity_was_hit()), (2, 0), "its time is over");
        workers_gone(2, 164.0);
        assert_eq!(affinity_route(165.0), -1, "who is gone owns no keys");
        affinity_counts();
        assert_eq!(read::<4>(), [1, 3, 1, 0]);
    }

    #[test]
    fn rings_have_owners_too_and_settings_are_checked() {
        assert_ne!(slate_at(0), 0);
        assert_eq!(affinity_configure(1, 10, 3, -1.0, 1), 1);
        (0..3).for_each(|worker| assert_eq!(affinity_add(worker), 1));
        affinity_key(1, 2);
        assert!((0..3).contains(&owner()));
        for refused in [
            affinity_configure(1, 0, 3, -1.0, 1),
            affinity_configure(1, 1, 17, -1.0, 1),
            affinity_configure(1, 1, 3, 0.0, 1),
            affinity_configure(1, 1, 3, 5.0, 0),
            affinity_configure(1, 1, 3, 5.0, u32::MAX),
        ] {
            assert_eq!(refused, 0);
        }
        assert!((0..3).contains(&owner()), "what is refused changes nothing");
    }
}
