//! The settings of what outlives a task: the journal, and letters of tasks that failed for good.
//!
//! Without a directory there is no journal, and everything is gone with the daemon. Dead letters are kept in memory
//! too if somebody asks for that; with a journal they are kept unless somebody asks for the contrary.
//!
//! Not here: how a journal is written (the crate `millpond-journal`), what is written (`ledger.rs`).

use super::load::Loaded;
use super::table::{GIB, Setting, setting};
use super::typed::{is_on, number, span, text};
use super::value::Kind::{self, Bytes, Count, OneOf, Path, Span, Switch};
use super::value::Value;
use std::path::PathBuf;
use std::time::Duration;

const fn journal(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "journal", about)
}

const fn dead(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "dead letters", about)
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The settings of the journal and of dead letters, as they stand in the table.
pub(super) const DURABLE_SETTINGS: &[Setting] = &[
    journal("journal.dir", Path, "none", "Where accepted tasks are kept, so that no crash loses one.")
        .or("none", "tasks live in memory only"),
    journal(
        "journal.sync",
        OneOf(|| vec!["group", "interval", "off"]),
        "group",
        "When a task counts as kept: on the disk, or in the operating system, which is synced now and then or not.",
    ),
    journal(
        "journal.sync_interval",
        Span(Duration::from_millis(1), Duration::from_secs(3600)),
        "50ms",
        "How often the disk is synced; a crash of the machine may lose as much.",
    )
    .only_with("journal.sync", "interval"),
    journal("journal.segment_bytes", Bytes(8 << 20, GIB), "16 MiB", "How large a file of the log is."),
    journal(
        "journal.snapshot_bytes_min",
        Bytes(1 << 20, 1 << 40),
        "64 MiB",
        "How long the log may grow before what is alive is written anew and the rest is removed.",
    ),
    journal(
        "journal.crash_attempts_max",
        Count(0, 1000),
        "3",
        "How often the daemon may die while a task runs before that task is a dead letter.",
    ),
    dead("dead_letters.enabled", Switch, "auto", "Whether tasks whose last attempt failed are kept.")
        .or("auto", "if there is a journal"),
    dead("dead_letters.max", Count(1, 1 << 24), "10000", "How many are kept; beyond that the oldest goes."),
    dead(
        "dead_letters.bytes_max",
        Bytes(64 << 10, 1 << 40),
        "64 MiB",
        "How much memory they may take together.",
    ),
    dead("dead_letters.age_max", Span(Duration::from_millis(1), YEAR), "30d", "How long one is kept.")
        .or("none", "until there is no room"),
];

/// Where accepted tasks are kept, and how carefully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// The directory.
    pub directory: PathBuf,
    /// When something counts as kept.
    pub sync: JournalSync,
    /// How large a file of the log is.
    pub segment_bytes: u64,
    /// How long the log may grow before a snapshot.
    pub snapshot_bytes_min: u64,
    /// How often the daemon may die while a task runs before that task is a dead letter.
    pub crash_attempts_max: u32,
}

/// When something counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSync {
    /// When it is on the disk.
    Group,
    /// When the operating system has it; the disk is synced this often.
    Interval(Duration),
    /// When the operating system has it.
    Off,
}

/// Which tasks that failed for good are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadSettings {
    /// Whether they are; without, if there is a journal.
    pub enabled: Option<bool>,
    /// How many.
    pub max: usize,
    /// How much memory they may take together.
    pub bytes_max: u64,
    /// How long one is kept, if not until there is no room.
    pub age_max: Option<Duration>,
}

impl Loaded {
    pub(super) fn journal(&self) -> Option<JournalSettings> {
        let directory = PathBuf::from(text(self.value("journal.dir"))?);
        let sync = match text(self.value("journal.sync")) {
            Some("interval") => JournalSync::Interval(self.duration("journal.sync_interval")),
            Some("off") => JournalSync::Off,
            _ => JournalSync::Group,
        };
        Some(JournalSettings {
            directory,
            sync,
            segment_bytes: self.count("journal.segment_bytes") as u64,
            snapshot_bytes_min: self.count("journal.snapshot_bytes_min") as u64,
            crash_attempts_max: u32::try_from(self.count("journal.crash_attempts_max")).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn dead_letters(&self) -> DeadSettings {
        let enabled = self.value("dead_letters.enabled");
        DeadSettings {
            enabled: matches!(enabled, Value::Switch(_)).then(|| is_on(enabled)),
            max: self.count("dead_letters.max"),
            bytes_max: number(self.value("dead_letters.bytes_max")).unwrap_or_default(),
            age_max: span(self.value("dead_letters.age_max")),
        }
    }
}
