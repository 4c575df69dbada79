//! An append log with group commit: a record that was acknowledged is there after a crash, whatever crashed.
//!
//! To follow one record: `append.rs` puts it into the batch that is being filled (`batch.rs`), `writer.rs` takes the
//! batch when the last sync is over (`gather.rs` says when), writes and syncs it, and wakes everybody who waits for it,
//! or tells them by a call or by an inbox (`inbox.rs`). After a crash `open.rs` finds the files, `scan.rs` tells what
//! is whole, torn or damaged, and the owner of the state gets its records back.
//!
//! Below: `frame.rs` is the layout of a record, `header.rs` that of a file's first bytes, `names.rs` what files are
//! called, `disk.rs` the one seam to the operating system, `segment.rs` how a file comes to be, `spill.rs` large
//! payloads in files of their own, `snapshot.rs` how the log is kept short, `repair.rs` what is done after damage.
//!
//! Not here: what a record means. The journal knows a kind, a key and bytes, and nothing of tasks.
#![forbid(unsafe_code)]

mod append;
mod batch;
mod config;
mod disk;
mod error;
mod frame;
mod gather;
mod header;
mod inbox;
mod inspect;
mod journal;
mod names;
mod open;
mod record;
mod repair;
mod salvage;
mod scan;
mod segment;
mod snapshot;
mod snapshot_read;
mod spill;
mod stats;
mod writer;

pub use batch::Receipt;
pub use config::{JournalConfig, SyncMode};
pub use disk::{Disk, DiskFile, FileFound, LockGuard, Locking, RealDisk};
pub use error::{AppendError, OpenError, ReadError, RepairError, SnapshotError};
pub use inbox::Inbox;
pub use inspect::{FileInspected, FileState, Inspection, inspect};
pub use journal::Journal;
pub use open::Recovery;
pub use record::{Payload, Record, SpillRef};
pub use repair::{Lost, RepairReport, RepairedFile, repair};
pub use snapshot::{SnapshotReport, SnapshotWriter};
pub use stats::JournalStats;

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
