//! The settings of the memory door: their part of the table, and what the door is given.
//!
//! Programs of the same user hand in memory of their own and then talk to the daemon through it. Each has a
//! share of the daemon's memory, files and attention, so each share has a limit.
//!
//! Not here: what lies in that memory (the crate `millpond-shm`).

use super::load::Loaded;
use super::table::{Setting, setting};
use super::typed::is_on;
use super::value::Kind::{self, Bytes, Count, Span, Switch};
use std::time::Duration;

const fn memory_door(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "memory door", about).only_with("memory_door.enabled", "true")
}

/// The settings of the memory door, as they stand in the table.
pub(super) const MEMORY_DOOR_SETTINGS: &[Setting] = &[
    setting(
        "memory_door.enabled",
        Switch,
        "true",
        "memory door",
        "Whether programs of this user may attach by shared memory.",
    ),
    memory_door("memory_door.clients_max", Count(1, 4096), "64", "How many programs may be attached."),
    memory_door(
        "memory_door.region_bytes_max",
        Bytes(64 << 10, 1 << 40),
        "256 MiB",
        "The largest memory that one of them may hand in.",
    ),
    memory_door(
        "memory_door.in_flight_max",
        Count(1, 1 << 20),
        "4096",
        "How many tasks of one program may be under way before no more are taken from it.",
    ),
    memory_door(
        "memory_door.linger",
        Span(Duration::ZERO, Duration::from_secs(1)),
        "50us",
        "How long the door looks for more before it sleeps.",
    ),
];

/// The memory door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDoorSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// How many programs may be attached.
    pub clients_max: usize,
    /// The largest memory that one of them may hand in.
    pub region_bytes_max: u64,
    /// How many tasks of one program may be under way before no more are taken from it.
    pub in_flight_max: usize,
    /// How long the door looks for more before it sleeps.
    pub linger: Duration,
}

impl Loaded {
    pub(super) fn memory_door(&self) -> MemoryDoorSettings {
        MemoryDoorSettings {
            enabled: is_on(self.value("memory_door.enabled")),
            clients_max: self.count("memory_door.clients_max"),
            region_bytes_max: self.count("memory_door.region_bytes_max") as u64,
            in_flight_max: self.count("memory_door.in_flight_max"),
            linger: self.duration("memory_door.linger"),
        }
    }
}
