//! The file mailbox door: whoever may write into the private directory asks for tasks with `echo … >>`.
//!
//! ```text
//!   mailbox-1.json  ──► lines ──► mailbox 1 ──► updater ──► service ──► mailbox-1.results.json
//!   appended to by        │                                    │         one line for each task
//!   any program           └──────── mailbox-1.offset ◄─────────┘         that ended
//! ```
//!
//! Each worker has a file, from 1. A line is a request; a line that has not ended waits. Answers come in the
//! order in which tasks end, with the number of the line. How far a file is done with is kept over a restart:
//! after a clean stop no line is lost and none is run twice; after a kill, lines whose end had not been saved
//! are run again. `docs/mailbox.md` says all of it to users.
//!
//! Not here: the mailboxes in memory and their updaters (`millpond_tasks::mailbox`).

mod bell;
mod bookmark;
mod cutter;
mod mailbox_file;
mod outbox;
mod private_file;
mod reader;
mod results_file;
mod source;
mod watcher;
mod window;

use bell::Bell;
use mailbox_file::MailboxFile;
use millpond_tasks::RuntimeDir;
use millpond_tasks::config::MailboxFileSettings;
use millpond_tasks::mailbox::{Intake, Letter, MailboxSettings, MailboxStats, Mailboxes, Take};
use millpond_tasks::{Log, ServiceHandle};
use outbox::Outbox;
use reader::{Context, Reader};
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use watcher::Watcher;

/// The lock file in the directory.
const LOCK_NAME: &str = "mailbox.lock";
/// How much longer than it was told `close` waits for the thread to save how far it came.
const SAVE_TIME: Duration = Duration::from_secs(5);

/// How the door is made.
#[derive(Clone, Debug)]
pub struct MailboxDoorSettings {
    /// The private directory. It is made if it is missing.
    pub directory: PathBuf,
    /// How many workers there are, and so how many files.
    pub workers: usize,
    /// What the configuration says about the files. `enabled` is up to whoever opens the door.
    pub files: MailboxFileSettings,
    /// Look at the files every `poll_interval`, though the system might tell of changes.
    pub always_poll: bool,
    /// The lines of one mailbox from the first that has not ended to the last that was read. A task that runs
    /// for long holds back the lines that are so far behind it.
    pub window_lines_max: usize,
    /// How long a file that was rotated is looked at after its end was seen.
    pub rotation_grace: Duration,
}

impl Default for MailboxDoorSettings {
    fn default() -> Self {
        Self {
            directory: RuntimeDir::default_path(),
            workers: 1,
            files: MailboxFileSettings::default(),
            always_poll: false,
            window_lines_max: 1 << 16,
            rotation_grace: Duration::from_secs(10),
        }
    }
}

/// What the door has done, and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MailboxDoorStats {
    /// Lines read that ask for something.
    pub lines: u64,
    /// Answers written.
    pub answers: u64,
    /// Lines read whose tasks have not ended.
    pub under_way: u64,
    /// How often a mailbox was found to be another file.
    pub rotations: u64,
    /// How often a file was found to be cut short.
    pub truncations: u64,
    /// Whether the files are polled.
    pub is_polling: bool,
    /// The mailboxes in memory.
    pub mailboxes: MailboxStats,
}

/// The open door. Dropping it is [`close`](Self::close) without waiting for tasks.
pub struct MailboxDoor {
    mailboxes: Arc<Mailboxes>,
    counters: Arc<Counters>,
    control: Arc<Control>,
    bell: Arc<Bell>,
}

/// Only counted and read, so no order is needed.
#[derive(Debug, Default)]
struct Counters {
    lines: AtomicU64,
    answers: AtomicU64,
    under_way: AtomicU64,
    rotations: AtomicU64,
    truncations: AtomicU64,
    is_polling: AtomicBool,
}

/// What the door's thread is to do. It is rung for after a change.
#[derive(Debug)]
struct Control {
    state: Mutex<ControlState>,
    ended: Condvar,
}

#[derive(Debug)]
struct ControlState {
    order: Order,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// Read what comes.
    Read,
    /// Read no more lines, but write the answers of those that were read.
    Rest,
    /// End when all lines that were read have ended, and at this moment in any case.
    Close(Option<Instant>),
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self) -> Order {
        self.lock().order
    }
}

/// Tells when the thread ends, however it ends.
struct Ending(Arc<Control>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.ended.notify_all();
    }
}

/// Hands letters to the service, and rings when a mailbox has room again.
struct DoorIntake {
    service: ServiceHandle,
    bell: Arc<Bell>,
}

impl Intake for DoorIntake {
    fn take(&self, mailbox: usize, letter: &Letter) -> Take {
        Intake::take(&self.service, mailbox, letter)
    }

    fn room(&self, _mailbox: usize) {
        self.bell.ring();
    }
}

impl MailboxDoor {
    /// Opens the mailbox of every worker and goes on where an earlier process stopped.
    pub fn open(settings: MailboxDoorSettings, service: ServiceHandle, log: Log) -> io::Result<Self> {
        let directory = RuntimeDir::open(&settings.directory)?;
        let lock = directory.lock(LOCK_NAME)?;
        let bell = Arc::new(Bell::new()?);
        let in_memory = MailboxSettings {
            mailboxes: settings.workers,
            lines_max: settings.files.lines_max,
            bytes_max: settings.files.bytes_max,
            updaters_max: settings.files.updaters_max,
            ..MailboxSettings::default()
        };
        let limits = service.limits().clone();
        let intake = Arc::new(DoorIntake { service, bell: Arc::clone(&bell) });
        let mailboxes = Arc::new(Mailboxes::start(in_memory, intake)?);
        let counters = Arc::new(Counters::default());
        let context = Context {
            directory,
            settings,
            limits,
            mailboxes: Arc::clone(&mailboxes),
            counters: Arc::clone(&counters),
            log,
        };
        // The watch comes before the first look, or a change in between would not be seen.
        let watcher = watch(&context);
        mailbox_file::warn_of_others(&context)?;
        let open = |worker| MailboxFile::open(&context, worker, Arc::new(Outbox::new(Arc::clone(&bell))));
        let files = (1..=context.settings.workers).map(open).collect::<io::Result<_>>()?;
        let state = Mutex::new(ControlState { order: Order::Read, has_ended: false });
        let control = Arc::new(Control { state, ended: Condvar::new() });
        let ending = Ending(Arc::clone(&control));
        let (reader_bell, reader_control) = (Arc::clone(&bell), Arc::clone(&control));
        let reader = Reader { context, files, watcher, bell: reader_bell, control: reader_control, lock };
        thread::Builder::new().name("millpond-mailbox".into()).spawn(move || {
            let _ending = ending;
            reader.run();
        })?;
        Ok(Self { mailboxes, counters, control, bell })
    }

    /// Reads no more lines. Those that no worker has been offered yet stay in their files for the next
    /// process; the others go on, and their answers are written. Does not wait for them.
    pub fn stop_reading(&self) {
        let mut state = self.control.lock();
        if matches!(state.order, Order::Read) {
            state.order = Order::Rest;
        }
        drop(state);
        self.bell.ring();
        self.mailboxes.close(Duration::ZERO);
    }

    /// Reads no more lines, and waits so long at most until those that were handed to the service have ended.
    /// Then it writes down how far the files are done with. A line that has not ended by then is run again by
    /// the next process, so drain and stop the service between [`stop_reading`](Self::stop_reading) and this.
    /// Says how many lines those were.
    pub fn close(&self, within: Duration) -> u64 {
        self.stop_reading();
        let deadline = Instant::now().checked_add(within);
        let mut state = self.control.lock();
        state.order = Order::Close(deadline);
        self.bell.ring();
        let patience = within.saturating_add(SAVE_TIME);
        let waited = self.control.ended.wait_timeout_while(state, patience, |state| !state.has_ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.counters.under_way.load(Relaxed)
    }

    /// What has been done so far.
    pub fn stats(&self) -> MailboxDoorStats {
        let Counters { lines, answers, under_way, rotations, truncations, is_polling } = &*self.counters;
        MailboxDoorStats {
            lines: lines.load(Relaxed),
            answers: answers.load(Relaxed),
            under_way: under_way.load(Relaxed),
            rotations: rotations.load(Relaxed),
            truncations: truncations.load(Relaxed),
            is_polling: is_polling.load(Relaxed),
            mailboxes: self.mailboxes.stats(),
        }
    }
}

impl Drop for MailboxDoor {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl fmt::Debug for MailboxDoor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MailboxDoor").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// A watch on the directory, or polling where there is none to be had.
fn watch(context: &Context) -> Watcher {
    let watcher =
        if context.settings.always_poll { None } else { Some(Watcher::inotify(&context.directory)) };
    if let Some(Err(error)) = &watcher {
        context.log.warn(&format!(
            "{}: the system gives no watch ({error}); its files are polled every {} ms",
            context.directory.path().display(),
            context.settings.files.poll_interval.as_millis()
        ));
    }
    let watcher = watcher.and_then(Result::ok).unwrap_or(Watcher::Polling);
    context.counters.is_polling.store(matches!(watcher, Watcher::Polling), Relaxed);
    watcher
}
