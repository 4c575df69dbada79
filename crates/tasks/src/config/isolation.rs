//! Where function handlers run: on the daemon's own threads, or in processes that may crash for themselves.
//!
//! A thread costs least. A process costs a few microseconds a task, and what goes wrong in it (a crash, a loop
//! without end, too much memory) costs one task and not the daemon.
//!
//! Not here: command handlers, which are processes in any case (`named.rs`).

use super::load::Loaded;
use super::table::{Setting, setting};
use super::typed::{number, text};
use super::value::Kind::{Bytes, Count, OneOf};

/// The settings of isolation, as they stand in the table. They have no section, so they come before all that
/// have one.
pub(super) const ISOLATION_SETTINGS: &[Setting] = &[
    setting(
        "isolation",
        OneOf(|| vec!["thread", "process"]),
        "thread",
        "daemon",
        "Whether handlers that are functions run on threads of the daemon or in processes of their own.",
    ),
    setting(
        "isolation_processes",
        Count(1, 4096),
        "auto",
        "daemon",
        "How many of those processes there are.",
    )
    .or("auto", "as many as `workers`")
    .only_with("isolation", "process"),
    setting(
        "isolation_memory_max",
        Bytes(1 << 20, 1 << 44),
        "none",
        "daemon",
        "How much memory each of them may take.",
    )
    .or("none", "as much as there is")
    .only_with("isolation", "process"),
];

/// Where function handlers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// On threads of the daemon.
    Thread,
    /// In processes of their own.
    Process,
}

/// Where function handlers run, and how many processes there are for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationSettings {
    /// Where.
    pub mode: Isolation,
    /// How many processes there are.
    pub processes: usize,
    /// How much memory each may take.
    pub memory_bytes_max: Option<u64>,
}

impl Loaded {
    /// `workers` is how many processes there are if nobody says.
    pub(super) fn isolation(&self, workers: usize) -> IsolationSettings {
        IsolationSettings {
            mode: match text(self.value("isolation")) {
                Some("process") => Isolation::Process,
                _ => Isolation::Thread,
            },
            processes: number(self.value("isolation_processes")).map_or(workers, |count| count as usize),
            memory_bytes_max: number(self.value("isolation_memory_max")),
        }
    }
}
