//! The door's thread: reads lines, writes answers, saves how far it came; otherwise it sleeps.
//!
//! One thread does all of it, so nothing here needs a lock but what tasks leave when they end. It wakes when
//! a file changes or when somebody rings: a task ended, a mailbox has room, the door is to close. The
//! mailboxes have turns, so that a long file does not keep the others waiting.
//!
//! Not here: what one mailbox does in its turn (`mailbox_file.rs`).

use super::bell::Bell;
use super::mailbox_file::{MailboxFile, Reading};
use super::watcher::{Changed, Watcher};
use super::{Control, Counters, MailboxDoorSettings, Order};
use millpond_tasks::mailbox::Mailboxes;
use millpond_tasks::{Limits, Log};
use millpond_tasks::{RuntimeDir, RuntimeLock};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long a line may have ended before that is saved. A process that is killed within this time runs the
/// line again.
const SAVE_INTERVAL: Duration = Duration::from_millis(100);
/// After how long a write that failed is tried again.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// What every mailbox needs.
pub(super) struct Context {
    pub(super) directory: RuntimeDir,
    pub(super) settings: MailboxDoorSettings,
    pub(super) limits: Limits,
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) counters: Arc<Counters>,
    pub(super) log: Log,
}

/// The state of the door's thread.
pub(super) struct Reader {
    pub(super) context: Context,
    pub(super) files: Vec<MailboxFile>,
    pub(super) watcher: Watcher,
    pub(super) bell: Arc<Bell>,
    pub(super) control: Arc<Control>,
    /// Nobody else reads these files as long as this lives.
    pub(super) lock: RuntimeLock,
}

/// What is to be done without being woken.
struct Agenda {
    /// Look at the files that nobody tells of.
    visit_at: Option<Instant>,
    /// Save how far the files are done with.
    save_at: Option<Instant>,
    /// Try again to write what could not be written.
    retry_at: Option<Instant>,
    /// Read on at once.
    has_more: bool,
}

impl Reader {
    /// Runs until the door is to close and is done, or has no more time.
    pub(super) fn run(mut self) {
        let mut agenda = Agenda { visit_at: None, save_at: None, retry_at: None, has_more: true };
        loop {
            let now = Instant::now();
            let timeout = agenda.timeout(now);
            if self.watcher.wait(&self.bell, timeout).is_err() {
                // Only a mistake of ours could do that; at least it must not take a core.
                std::thread::sleep(SAVE_INTERVAL);
            }
            self.bell.listen();
            let order = self.control.order();
            self.note_changes(&mut agenda);
            self.turn(&order, &mut agenda);
            if let Order::Close(deadline) = order {
                let is_done = self.under_way() == 0 && agenda.retry_at.is_none();
                if is_done || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                    break;
                }
                agenda.close_at(deadline);
            }
        }
        for file in &mut self.files {
            file.save(&self.context);
        }
        drop(self.lock);
    }

    fn under_way(&self) -> usize {
        self.files.iter().map(MailboxFile::under_way).sum()
    }

    /// Marks the mailboxes whose files may have changed.
    fn note_changes(&mut self, agenda: &mut Agenda) {
        let files = &mut self.files;
        let mut is_blind = false;
        self.watcher.changes(|changed| match changed {
            Changed::Mailbox(worker) => {
                if let Some(file) = worker.checked_sub(1).and_then(|index| files.get_mut(index)) {
                    file.has_changed = true;
                }
            }
            Changed::Everything => files.iter_mut().for_each(|file| file.has_changed = true),
            Changed::Blind => is_blind = true,
        });
        if is_blind {
            self.context
                .log
                .warn("mailboxes: the system tells no more of changes; the files are polled from now on");
            self.watcher = Watcher::Polling;
            self.context.counters.is_polling.store(true, Relaxed);
        }
        if agenda.visit_at.is_some_and(|due| due <= Instant::now()) {
            agenda.visit_at = None;
            let polls = self.polls();
            let visited = self.files.iter_mut().filter(|file| polls || file.must_be_visited());
            visited.for_each(|file| file.has_changed = true);
        }
    }

    fn polls(&self) -> bool {
        matches!(self.watcher, Watcher::Polling)
    }

    /// One turn of every mailbox.
    fn turn(&mut self, order: &Order, agenda: &mut Agenda) {
        let context = &self.context;
        let now = Instant::now();
        (agenda.has_more, agenda.retry_at) = (false, None);
        let is_time_to_save = agenda.save_at.is_some_and(|due| due <= now);
        for file in &mut self.files {
            if !file.settle(context) {
                agenda.retry_at = Some(now + TROUBLE_PAUSE);
            }
            if file.has_changed {
                file.look(context);
            }
            if file.has_unread && matches!(order, Order::Read) {
                agenda.has_more |= file.read(context, now) == Reading::More;
            }
            file.tidy(context, now);
            if file.has_moved && is_time_to_save {
                file.save(context);
            }
        }
        if is_time_to_save {
            agenda.save_at = None;
        }
        if self.files.iter().any(|file| file.has_moved) {
            agenda.save_at.get_or_insert(now + SAVE_INTERVAL);
        }
        if self.polls() || self.files.iter().any(MailboxFile::must_be_visited) {
            agenda.visit_at.get_or_insert(now + context.settings.files.poll_interval);
        }
        context.counters.under_way.store(self.under_way() as u64, Relaxed);
    }
}

impl Agenda {
    /// How long there is nothing to do; `None` until somebody rings.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        if self.has_more {
            return Some(Duration::ZERO);
        }
        let due = [self.visit_at, self.save_at, self.retry_at].into_iter().flatten().min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Wakes the thread when it must close in any case.
    fn close_at(&mut self, deadline: Option<Instant>) {
        self.retry_at = match (self.retry_at, deadline) {
            (Some(retry), Some(deadline)) => Some(retry.min(deadline)),
            (retry, deadline) => retry.or(deadline),
        };
    }
}
