//! What a service writes down so that a crash loses nothing it has accepted, and what it makes of that afterwards.
//!
//! Every step of a task is appended under the task's own lock, so the order of the records is the order of its steps.
//! Only what somebody is told is waited for: an acceptance and an end. Between the append and the sync the task stands
//! still: it is not begun before it is kept, and its outcome is not told before that is. Attempts and checkpoints are
//! appended and not waited for; losing the last of them costs an attempt that is made twice.
//!
//! The journal's writer calls back from its own thread, which must never wait for a task's lock, since whoever
//! holds that may be waiting for the writer. So the call only leaves a note (`told.rs`), and a thread of ours does
//! what follows.
//!
//! To follow one task: `records.rs` is what is written, `replay.rs` what records amount to, `restore.rs` how tasks come
//! back, `snapshot.rs` how the log is kept short.
//!
//! Not here: the log itself (the crate `millpond-journal`).

mod health;
mod records;
mod replay;
mod restore;
mod snapshot;
mod told;
mod words;

pub use health::JournalHealth;
pub(crate) use records::KeyRecord;
pub(crate) use restore::Restored;

use crate::config::{JournalSettings, JournalSync};
use crate::dead::DeadLetter;
use crate::error::{ErrorCode, TaskFailure};
use crate::outcome::Outcome;
use crate::service::{ServiceConfig, Shared};
use crate::task::{State, Task};
use health::Health;
use millpond_journal::{AppendError, Disk, Journal, JournalConfig, OpenError, Receipt, Record, SyncMode};
use records::Entry;
use replay::Table;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;
use told::{TellThread, Told};

/// How much a record has beside the request or the result that it is about.
const AROUND_BYTES: usize = 64 << 10;

/// Why a journal could not be begun or gone on with.
#[derive(Debug)]
pub enum JournalError {
    /// It could not be opened.
    Open(OpenError),
    /// It was read, and says what this release does not know.
    Unreadable(String),
    /// The thread that tells of what was kept could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for JournalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(formatter, "journal: {error}"),
            Self::Unreadable(what) => {
                write!(formatter, "journal: {what}; start the release that wrote it, or one that is newer")
            }
            Self::Thread(error) => write!(formatter, "journal: a thread could not be started: {error}"),
        }
    }
}

impl std::error::Error for JournalError {}

/// The journal of a service.
pub(crate) struct Ledger {
    settings: JournalSettings,
    /// Taken when the service has ended. Whoever appends holds it for reading.
    journal: RwLock<Option<Journal>>,
    teller: TellThread,
    health: Health,
    /// When it was opened.
    began: Instant,
}

impl Ledger {
    /// Opens the journal and reads what is in it.
    pub(crate) fn open(
        config: &ServiceConfig,
        settings: &JournalSettings,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, Table), JournalError> {
        let mut table = Table::default();
        let largest = config.results.result_bytes_max.max(config.request.request_bytes_max as usize);
        let plain = JournalConfig::default();
        let journal_config = JournalConfig {
            directory: settings.directory.clone(),
            sync: match settings.sync {
                JournalSync::Group => SyncMode::Group,
                JournalSync::Interval(interval) => SyncMode::Interval(interval),
                JournalSync::Off => SyncMode::Off,
            },
            segment_bytes: settings.segment_bytes,
            snapshot_bytes_min: settings.snapshot_bytes_min,
            payload_bytes_max: largest.saturating_mul(2).saturating_add(AROUND_BYTES),
            ..plain
        };
        let began = Instant::now();
        let opened = Journal::open_on(journal_config, disk, |record| table.apply(record));
        let (journal, recovery) = opened.map_err(JournalError::Open)?;
        if let Some(what) = table.unreadable.take() {
            return Err(JournalError::Unreadable(what));
        }
        let teller = TellThread::start().map_err(JournalError::Thread)?;
        let ledger = Self {
            settings: settings.clone(),
            journal: RwLock::new(Some(journal)),
            teller,
            began,
            health: Health::new(&recovery),
        };
        Ok((ledger, table))
    }

    /// How often the daemon may die while a task runs.
    pub(crate) fn crash_attempts_max(&self) -> u32 {
        self.settings.crash_attempts_max
    }

    /// Writes down that a task is accepted, with whatever came of the same step. It is told when that is kept. Never
    /// waits for the writer.
    pub(crate) fn accept(
        &self,
        task: &Arc<Task>,
        due_ms: Option<u64>,
        along: Along<'_>,
    ) -> Result<(), TaskFailure> {
        let mut state = task.lock();
        let mut entries = vec![records::accepted(task, due_ms, state.checkpoint.as_deref())];
        entries.extend(along.undead.map(|number| records::plain(records::UNDEAD, number)));
        entries.extend(along.fired.map(|(name, at_ms)| records::fired(name, at_ms)));
        let receipt = self.append(&entries, Journal::try_append).map_err(|error| self.refusal(&error))?;
        state.unsynced += 1;
        drop(state);
        let told = Told::Kept(Arc::clone(task));
        self.teller.when_synced(receipt, told);
        Ok(())
    }

    /// Writes down how a task ends. It is told when that is kept. Called under its lock.
    pub(crate) fn end(&self, task: &Arc<Task>, state: &mut State, ended: Ended) {
        state.unsynced += 1;
        self.append_end(task, ended);
    }

    /// As [`end`](Self::end), for one that could not be written before.
    fn append_end(&self, task: &Arc<Task>, ended: Ended) {
        let mut entries = vec![records::ended(task.sequence, &ended.outcome, ended.is_kept, ended.at_ms)];
        entries.extend(ended.letter.as_ref().map(records::dead));
        let appended = self.append(&entries, Journal::append);
        let told = Told::Ended(Arc::clone(task), Box::new(ended));
        match appended {
            Ok(receipt) => self.teller.when_synced(receipt, told),
            Err(error) => self.teller.tell(told, Err(error)),
        }
    }

    /// An attempt begins.
    pub(crate) fn began(&self, task: &Task, attempt: u32) {
        self.note(records::attempt(records::BEGAN, task, attempt));
    }

    /// A shutdown interrupts an attempt.
    pub(crate) fn held(&self, task: &Task, attempt: u32) {
        self.note(records::attempt(records::HELD, task, attempt));
    }

    /// An attempt failed, and the next one is due then.
    pub(crate) fn failed(&self, task: &Task, attempt: u32, due_ms: u64) {
        self.note(records::failed(task, attempt, due_ms));
    }

    pub(crate) fn checkpoint(&self, task: &Task, value: &RawValue) {
        self.note(records::checkpoint(task, value));
    }

    /// Somebody took the outcome.
    pub(crate) fn forgotten(&self, task: &Task) {
        self.note(records::plain(records::FORGOTTEN, task.sequence));
    }

    /// Dead letters were let go.
    pub(crate) fn undead(&self, numbers: &[u64]) {
        for number in numbers {
            self.note(records::plain(records::UNDEAD, *number));
        }
    }

    /// A schedule was due and became no task.
    pub(crate) fn fired(&self, schedule: &str, at_ms: u64) {
        self.note(records::fired(schedule, at_ms));
    }

    /// A task that came back and cannot go on is a dead letter from now on.
    fn buried(&self, sequence: u64, outcome: &Outcome, letter: &DeadLetter) {
        let entries = [records::ended(sequence, outcome, false, letter.died_at_ms), records::dead(letter)];
        if self.append(&entries, Journal::append).is_err() {
            self.health.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Appends what nobody waits for.
    fn note(&self, entry: Entry) {
        if self.append(&[entry], Journal::append).is_err() {
            self.health.unwritten.fetch_add(1, Relaxed);
        }
    }

    fn append(&self, entries: &[Entry], how: Append) -> Result<Receipt, AppendError> {
        let records: Vec<Record<'_>> =
            entries.iter().map(|entry| Record::new(entry.kind, entry.key, &entry.bytes)).collect();
        let journal = self.journal();
        let appended = how(journal.as_ref().ok_or(AppendError::Closed)?, &records);
        if let Err(error) = &appended {
            self.health.note(error);
        }
        appended
    }

    fn journal(&self) -> RwLockReadGuard<'_, Option<Journal>> {
        self.journal.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a request is refused.
    fn refusal(&self, error: &AppendError) -> TaskFailure {
        let code = match error {
            AppendError::Full { .. } => ErrorCode::QueueFull,
            AppendError::Refused(_) | AppendError::Spill(_) => ErrorCode::JournalFull,
            AppendError::TooLarge { .. } => ErrorCode::TooLarge,
            AppendError::Poisoned(_) | AppendError::Closed => ErrorCode::JournalFailed,
        };
        TaskFailure::new(code, error.to_string())
    }

    /// Writes and syncs what was appended, tells everybody, and gives the directory back.
    pub(crate) fn close(&self) {
        let journal = self.journal.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(journal) = journal
            && let Err(error) = journal.close()
        {
            self.health.note(&error);
        }
        self.teller.stop();
    }
}

type Append = fn(&Journal, &[Record<'_>]) -> Result<Receipt, AppendError>;

/// What is written in one step with an acceptance, so that a crash leaves both or neither.
#[derive(Clone, Copy, Default)]
pub(crate) struct Along<'a> {
    /// The dead letter that became this task.
    pub(crate) undead: Option<u64>,
    /// The schedule that asked for it, and when it was due.
    pub(crate) fired: Option<(&'a str, u64)>,
}

/// How a task ended, on its way to the journal and back.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) letter: Option<DeadLetter>,
    pub(crate) is_kept: bool,
    pub(crate) at_ms: u64,
}

impl Shared {
    /// What the writer had to say about something that was waited for.
    fn hear(self: &Arc<Self>, told: Told, outcome: Result<(), AppendError>) -> Option<Told> {
        let ledger = self.ledger.as_ref()?;
        if outcome.is_ok() {
            ledger.health.has_room();
        }
        match (told, outcome) {
            (Told::Kept(task), Ok(())) => task.was_kept(),
            (Told::Kept(task), Err(error)) => {
                ledger.health.note(&error);
                task.was_not_kept(ledger.refusal(&error));
            }
            (Told::Ended(task, ended), Ok(())) => task.complete(ended.outcome, ended.letter),
            (Told::Ended(task, mut ended), Err(error)) => {
                ledger.health.note(&error);
                match error {
                    AppendError::Refused(_) | AppendError::Spill(_) | AppendError::Full { .. } => {
                        // Nobody is told before there is room: else a restart would do it once more.
                        let mut state = task.lock();
                        state.unsynced = state.unsynced.saturating_sub(1);
                        drop(state);
                        return Some(Told::Ended(task, ended));
                    }
                    AppendError::TooLarge { .. } => {
                        ended.outcome.result = Err(ledger.refusal(&error));
                        ended.letter = None;
                        ledger.append_end(&task, *ended);
                    }
                    AppendError::Poisoned(_) | AppendError::Closed => {
                        let message =
                            format!("it ended, and is done again after the restart, because {error}");
                        ended.outcome.result = Err(TaskFailure::new(ErrorCode::Postponed, message));
                        task.complete(ended.outcome, None);
                    }
                }
            }
        }
        None
    }

    /// Tries once more to write down an end.
    fn end_again(self: &Arc<Self>, task: &Arc<Task>, ended: Ended) {
        if let Some(ledger) = &self.ledger {
            task.lock().unsynced += 1;
            ledger.append_end(task, ended);
        }
    }
}
