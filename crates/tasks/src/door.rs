//! By which door a task came in: a name for people, a place for the counters.
//!
//! The doors are a closed list, so counting one costs an index and no look-up. A new door adds a line here
//! and is then seen in the figures of every surface.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DoorName {
    /// The program that holds the service hands requests in itself.
    #[default]
    Library,
    /// The control socket.
    Control,
    /// A mailbox file.
    Mailbox,
    /// HTTP.
    Http,
    /// Memory shared with another program.
    Memory,
    /// The clock: a schedule of the configuration.
    Schedule,
    /// A queue of a NATS server.
    Nats,
}

impl DoorName {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Library, Self::Control, Self::Mailbox, Self::Http, Self::Memory, Self::Schedule, Self::Nats];

    /// As it is written in JSON and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Control => "control",
            Self::Mailbox => "mailbox",
            Self::Http => "http",
            Self::Memory => "memory",
            Self::Schedule => "schedule",
            Self::Nats => "nats",
        }
    }
}

impl fmt::Display for DoorName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for DoorName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// How many tasks came in by each door.
#[derive(Debug, Default)]
pub(crate) struct DoorCounts([AtomicU64; DoorName::ALL.len()]);

impl DoorCounts {
    pub(crate) fn count(&self, door: DoorName) {
        self.0[door as usize].fetch_add(1, Relaxed);
    }

    /// By name; a door nobody came by is there with 0.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        DoorName::ALL.into_iter().map(|door| (door.name(), self.0[door as usize].load(Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_door_is_counted_in_its_own_place_and_under_its_own_name() {
        let counts = DoorCounts::default();
        for (times, door) in DoorName::ALL.into_iter().enumerate() {
            assert_eq!(door as usize, times, "the place in the list is the place of the counter");
            (0..times).for_each(|_| counts.count(door));
        }
        let named = [("library", 0), ("control", 1), ("mailbox", 2), ("http", 3), ("memory", 4)];
        let expected = BTreeMap::from_iter(named.into_iter().chain([("schedule", 5), ("nats", 6)]));
        assert_eq!(counts.by_name(), expected);
    }
}
