//! What the parts of the program are given: settings as numbers, durations and paths.
//!
//! Each part has a plain struct of its own with public fields, so that it can be used and tested without a
//! file. Their defaults are those of the table (`typed.rs` takes them from there).
//!
//! Not here: what a value may be (`table.rs`, `named.rs`).

use super::durable::{DeadSettings, JournalSettings};
use super::isolation::IsolationSettings;
use super::library::LibrarySettings;
use super::memory_door::MemoryDoorSettings;
use super::nats::NatsSettings;
use super::schedule::ScheduleSettings;
use super::trace::TraceSettings;
use super::web::WebSettings;
use crate::request::Limits;
use crate::runtime_dir::RuntimeDir;
use millpond::PoolConfig;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A configuration that is known to work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the pool is made.
    pub pool: PoolConfig,
    /// How many tasks may wait or run at once, with delayed ones and those that wait for a retry.
    pub tasks_max: usize,
    /// Limits of idempotency keys.
    pub keys: KeySettings,
    /// How long a failed task waits before it is tried again.
    pub retry: RetrySettings,
    /// What the daemon is called.
    pub name: String,
    /// The private directory; without, the name says which ([`runtime_path`](Self::runtime_path)).
    pub runtime_dir: Option<PathBuf>,
    /// Where function handlers run.
    pub isolation: IsolationSettings,
    /// How long tasks may go on once the daemon was told to end.
    pub drain_timeout: Duration,
    /// The control socket.
    pub control: ControlSettings,
    /// The memory door.
    pub memory_door: MemoryDoorSettings,
    /// The HTTP door.
    pub web: WebSettings,
    /// The NATS door, if there is one.
    pub nats: Option<NatsSettings>,
    /// The mailbox files.
    pub mailbox: MailboxFileSettings,
    /// Limits of requests.
    pub request: Limits,
    /// Limits of the store of results.
    pub results: ResultSettings,
    /// Limits of partial results.
    pub stream: StreamSettings,
    /// Where traces go, and which.
    pub trace: TraceSettings,
    /// What built-in handlers may reach, and how much of it.
    pub builtin: BuiltinSettings,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: String,
    /// Command handlers by name.
    pub handlers: BTreeMap<String, HandlerSettings>,
    /// Where accepted tasks are kept, if anywhere.
    pub journal: Option<JournalSettings>,
    /// Which tasks that failed for good are kept.
    pub dead_letters: DeadSettings,
    /// What is asked for by the clock, by name.
    pub schedules: BTreeMap<String, ScheduleSettings>,
    /// How long failed tasks wait, of those handlers that say so.
    pub handler_retries: BTreeMap<String, RetrySettings>,
    /// Handlers in libraries by name. Whoever starts the service registers them.
    pub libraries: BTreeMap<String, LibrarySettings>,
    /// Memory regions by name.
    pub regions: BTreeMap<String, RegionSettings>,
    /// Which handler an opcode calls.
    pub opcodes: BTreeMap<u32, String>,
}

impl Settings {
    /// The private directory: `runtime_dir`, else the one of `name`.
    pub fn runtime_path(&self) -> PathBuf {
        let named = || RuntimeDir::path_for(&self.name).expect("the name was checked");
        self.runtime_dir.clone().unwrap_or_else(named)
    }
}

/// Limits of idempotency keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// How many are remembered; beyond that the oldest goes.
    pub max: usize,
    /// How long one is remembered.
    pub age_max: Duration,
}

/// How long a failed task waits before it is tried again: twice as long after each failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// After the first failure.
    pub backoff_min: Duration,
    /// After failures in a row, at most.
    pub backoff_max: Duration,
}

/// The control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// How many clients may be connected.
    pub connections_max: usize,
    /// How many tasks of one client may be under way before no more are read from it.
    pub in_flight_max: usize,
    /// How many bytes may wait for one client before no more is read from it.
    pub outbox_bytes_max: usize,
}

/// The mailbox files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxFileSettings {
    /// Whether tasks are read from them.
    pub enabled: bool,
    /// How many lines of one file may wait for the queue.
    pub lines_max: usize,
    /// How much memory those may take; at least as much as one request.
    pub bytes_max: usize,
    /// How many threads hand lines on, at most.
    pub updaters_max: usize,
    /// How often the files are looked at where the system cannot tell of changes.
    pub poll_interval: Duration,
    /// The largest file of results; then it is put aside and a new one begun.
    pub results_bytes_max: u64,
}

/// Limits of the store of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultSettings {
    /// How many are kept.
    pub max: usize,
    /// How much memory they may take together.
    pub bytes_max: u64,
    /// The largest result of one task.
    pub result_bytes_max: usize,
    /// The largest checkpoint of one task.
    pub checkpoint_bytes_max: usize,
    /// How long one is kept, if not until there is no room.
    pub age_max: Option<Duration>,
    /// What a full store does.
    pub full: ResultsFull,
}

/// What a full store of results does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsFull {
    /// New tasks wait.
    Block,
    /// The oldest result goes.
    DropOldest,
    /// New tasks are refused.
    Refuse,
}

/// Limits of partial results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// The largest.
    pub chunk_bytes_max: usize,
    /// How many of one task are held for its reader.
    pub chunks_max: usize,
    /// How much memory those may take.
    pub bytes_max: usize,
    /// How long a handler waits for a reader that does not read, before the oldest go.
    pub reader_wait: Duration,
    /// How many may read along with one task.
    pub readers_max: usize,
}

/// What built-in handlers may reach, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinSettings {
    /// Files and hosts that may be reached.
    pub allow: AllowSettings,
    /// How long `http_get` and `http_post` may take, with redirects and body.
    pub http_timeout: Duration,
    /// The largest body they take.
    pub http_body_bytes_max: u64,
    /// How many redirects they follow.
    pub http_redirects_max: u32,
    /// The most that `file_read` and `file_write` read or write at once.
    pub files_bytes_max: u64,
}

/// What built-in handlers may reach: nothing, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowSettings {
    /// Directories, with all that is below.
    pub files: Vec<PathBuf>,
    /// Hosts, each with or without a port.
    pub hosts: Vec<String>,
}

/// One command handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSettings {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// How many may run at once.
    pub concurrency: usize,
    /// How long one task may take.
    pub timeout: Option<Duration>,
    /// How much memory it may take.
    pub memory_bytes_max: Option<u64>,
    /// How much processor time it may use in its life.
    pub cpu_seconds_max: Option<u64>,
    /// How long it stays down after its first crash.
    pub restart_backoff_min: Duration,
    /// How long it stays down at most.
    pub restart_backoff_max: Duration,
    /// How long it may take to end by itself before it is killed.
    pub stop_grace: Duration,
    /// The longest line it may answer with.
    pub line_bytes_max: usize,
    /// After how many tasks a process is replaced by a fresh one.
    pub tasks_per_process_max: Option<u64>,
    /// Variables added to its environment.
    pub env: Vec<(String, String)>,
    /// Where it is started, if not where the daemon was.
    pub directory: Option<PathBuf>,
    /// What it does, for people.
    pub summary: Option<String>,
    /// Arguments to try it with: a JSON object.
    pub example: Option<String>,
}

/// One memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSettings {
    /// How large it is.
    pub bytes: usize,
    /// What tasks may do with it.
    pub access: RegionAccess,
}

/// What tasks may do with a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionAccess {
    /// Only read.
    Read,
    /// Only write.
    Write,
    /// Both.
    ReadWrite,
}
