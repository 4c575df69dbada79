//! Which worker a key belongs to, so that tasks with the same key find what the last one left in the caches.
//!
//! Two methods, and both keep the promise that matters: when a worker comes or goes, only its own keys move.
//! [`Rendezvous`] is the default: every worker draws a number for the key, and the highest wins. It spreads
//! best and keeps nothing but the workers, and its cost grows with them. [`HashRing`] keeps points on a
//! circle, searches them by halves, and is the faster from some dozens of workers on. [`Sticky`] on top
//! remembers where a key was for a while, so that it also stays when workers come.
//!
//! Keys are numbers; [`hash_bytes`] makes one of a text. Workers are known by the numbers they keep for life.
//!
//! Not here: what happens when the owner is busy. The pool lets others take a task that has waited for
//! `steal_after`.

mod hash;
mod logarithm;
mod rendezvous;
mod ring;
mod sticky;

pub use hash::{hash_bytes, mix};
pub use rendezvous::Rendezvous;
pub use ring::HashRing;
pub use sticky::{Sticky, StickyCounts};

use crate::BadSetting;
use crate::setting::{Complaint, unknown_name};
use core::time::Duration;

/// How owners are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// The highest of the numbers that the workers draw for the key.
    #[default]
    Rendezvous,
    /// The nearest point on a circle.
    Ring,
}

impl Method {
    /// The names, as settings are written.
    pub const NAMES: &'static [&'static str] = &["rendezvous", "ring"];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rendezvous => "rendezvous",
            Self::Ring => "ring",
        }
    }

    /// The method of this name.
    pub fn by_name(name: &str) -> Result<Self, BadSetting> {
        match name {
            "rendezvous" => Ok(Self::Rendezvous),
            "ring" => Ok(Self::Ring),
            _ => Err(unknown_name("affinity.method", Self::NAMES, name)),
        }
    }
}

/// How keys find their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinitySettings {
    /// How owners are found. Default: rendezvous.
    pub method: Method,
    /// Points of each worker on the ring: 1 to 10 000. Default 150.
    pub virtual_nodes: u32,
    /// Places on the ring at which a key looks for the nearest point: 1 to 16. Default 3; 1 is a plain ring,
    /// whose workers differ about twice as much in their number of keys.
    pub probes: u32,
    /// For how long a key stays with the worker that had it last, counted from its last task. Default: none,
    /// so a key belongs to its owner alone, and moves there at once.
    pub sticky_for: Option<Duration>,
    /// For how many keys that is remembered: 1 to 16 777 216. Each takes 48 bytes or more. Default 4096.
    pub sticky_keys_max: usize,
    /// After which wait anybody may take a task with a key. Default 10 ms.
    pub steal_after: Duration,
}

impl Default for AffinitySettings {
    fn default() -> Self {
        Self {
            method: Method::Rendezvous,
            virtual_nodes: 150,
            probes: 3,
            sticky_for: None,
            sticky_keys_max: 4096,
            steal_after: Duration::from_millis(10),
        }
    }
}

impl AffinitySettings {
    /// Whether they can work.
    pub fn check(&self) -> Result<(), BadSetting> {
        self.checked()
    }

    fn checked<E: Complaint>(&self) -> Result<(), E> {
        within("affinity.virtual_nodes", 1, 10_000, self.virtual_nodes as usize)?;
        within("affinity.probes", 1, ring::PROBES_MAX, self.probes as usize)?;
        within("affinity.sticky_keys_max", 1, sticky::KEYS_MAX, self.sticky_keys_max)?;
        self.sticky_for.map_or(Ok(()), |life| more_than_none("affinity.sticky_for", life))
    }
}

fn within<E: Complaint>(setting: &'static str, least: usize, most: usize, got: usize) -> Result<(), E> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(E::about(setting, format_args!("{least} to {most}"), format_args!("{got}")))
}

fn more_than_none<E: Complaint>(setting: &'static str, got: Duration) -> Result<(), E> {
    if got.is_zero() {
        return Err(E::about(setting, format_args!("none, or more than 0 s"), format_args!("0 s")));
    }
    Ok(())
}

/// The owners of keys, by either method.
#[derive(Clone, Debug)]
pub enum Affinity {
    /// By the highest draw.
    Rendezvous(Rendezvous),
    /// By the nearest point.
    Ring(HashRing),
}

impl Affinity {
    /// Owners by the method of the settings, and no workers yet.
    pub fn new(settings: &AffinitySettings) -> Result<Self, BadSetting> {
        Self::checked(settings)
    }

    /// The same without words, for programs that have their own and must be small; none if the settings cannot work.
    pub fn new_silently(settings: &AffinitySettings) -> Option<Self> {
        Self::checked::<()>(settings).ok()
    }

    fn checked<E: Complaint>(settings: &AffinitySettings) -> Result<Self, E> {
        settings.checked()?;
        Ok(match settings.method {
            Method::Rendezvous => Self::Rendezvous(Rendezvous::new()),
            Method::Ring => Self::Ring(HashRing::checked(settings.virtual_nodes, settings.probes)?),
        })
    }

    /// Adds a worker; false if it is there already. May allocate.
    pub fn add(&mut self, worker: u32) -> bool {
        match self {
            Self::Rendezvous(owners) => owners.add(worker),
            Self::Ring(owners) => owners.add(worker),
        }
    }

    /// Takes a worker away; false if it is not there. Only its keys move.
    pub fn remove(&mut self, worker: u32) -> bool {
        match self {
            Self::Rendezvous(owners) => owners.remove(worker),
            Self::Ring(owners) => owners.remove(worker),
        }
    }

    /// The worker a key belongs to; nobody if there are none.
    pub fn owner(&self, key: u64) -> Option<u32> {
        match self {
            Self::Rendezvous(owners) => owners.owner(key),
            Self::Ring(owners) => owners.owner(key),
        }
    }

    /// Fills `workers` with those a key would belong to, the owner first, then who would follow if that one
    /// went, and so on. Says how many there are.
    pub fn preference(&self, key: u64, workers: &mut [u32]) -> usize {
        match self {
            Self::Rendezvous(owners) => owners.preference(key, workers),
            Self::Ring(owners) => owners.preference(key, workers),
        }
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Rendezvous(owners) => owners.len(),
            Self::Ring(owners) => owners.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
