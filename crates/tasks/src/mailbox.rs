//! Mailboxes: requests wait here, in order, until an updater hands them to the service.
//!
//! One mailbox belongs to each worker, and each is bounded in letters and in bytes: a full one gives the
//! letter back to whoever posts. Updaters are threads. Each owns a *domain*, a range of neighbouring
//! mailboxes, and only the owner takes letters out, so what one sender posted to one mailbox comes to the
//! service in the order in which it was posted. How many updaters there are follows the load: one that does
//! not get to the end of its work shares its domain with a new one, one that has nothing to do gives its own
//! to a neighbour and ends. One always stays.
//!
//! Nobody polls. An updater sleeps until a letter comes to a mailbox of its domain, or until it is time to
//! try again because the service was full. `docs/decisions/0013-updaters-own-domains.md` says why it is built
//! so.
//!
//! Not here: what a letter says (`request.rs`), and what becomes of it (`service.rs`).

mod answer;
mod desk;
mod domains;
mod inbox;
mod letter;
mod load;
mod service_intake;
mod updater;

pub use answer::{write_outcome, write_refused};
pub use letter::{Intake, Letter, PostError, Reply, Take};

use domains::Domains;
use inbox::Inbox;
use serde::Serialize;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest that anybody waits for room: a year, which an `Instant` can always be added to.
const POST_WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How many mailboxes there are, how much they hold, and how many updaters may serve them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSettings {
    /// How many mailboxes, usually one for each worker: 1 or more.
    pub mailboxes: usize,
    /// The letters that one mailbox holds at most: 1 or more.
    pub lines_max: usize,
    /// The bytes of text that one mailbox holds at most. A longer letter is refused for good.
    pub bytes_max: usize,
    /// The most updaters at a time: 1 or more.
    pub updaters_max: usize,
    /// An updater that found work for so long without a pause shares it with a new one.
    pub split_after: Duration,
    /// An updater that found no work for so long ends, unless it is the last.
    pub merge_after: Duration,
}

impl Default for MailboxSettings {
    fn default() -> Self {
        Self {
            mailboxes: 1,
            lines_max: 1024,
            bytes_max: 4 << 20,
            updaters_max: 4,
            split_after: Duration::from_millis(20),
            merge_after: Duration::from_secs(2),
        }
    }
}

/// What the mailboxes have done, and how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MailboxStats {
    /// Letters that were handed over, with those that went wrong.
    pub letters: u64,
    /// Letters that wait now.
    pub backlog: u64,
    /// Updaters now.
    pub updaters: u64,
    /// How often an updater shared its domain with a new one.
    pub splits: u64,
    /// How often an updater gave its domain to a neighbour and ended.
    pub merges: u64,
    /// Letters that were given back because a mailbox was full.
    pub refused: u64,
    /// Letters on which whoever takes them panicked.
    pub panics: u64,
}

/// The mailboxes and their updaters. Dropping it is [`close`](Self::close) without waiting for letters.
pub struct Mailboxes {
    shared: Arc<Shared>,
}

/// What posters and updaters share. Locks are taken in the order `domains`, one of `inboxes`, a desk.
struct Shared {
    settings: MailboxSettings,
    intake: Arc<dyn Intake>,
    inboxes: Box<[Inbox]>,
    domains: Domains,
    counters: Counters,
    /// Updaters leave the letters that they have in hand. Set once, when `close` waits no longer.
    over: AtomicBool,
}

/// Only counted and read, so no order is needed.
#[derive(Default)]
struct Counters {
    letters: AtomicU64,
    refused: AtomicU64,
    panics: AtomicU64,
    left: AtomicU64,
}

impl Mailboxes {
    /// Makes the mailboxes and starts one updater. Every letter is handed to `intake`.
    pub fn start(settings: MailboxSettings, intake: Arc<dyn Intake>) -> io::Result<Self> {
        let invalid = |wrong: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, wrong.to_owned()));
        if settings.mailboxes == 0 || settings.lines_max == 0 || settings.updaters_max == 0 {
            return invalid("mailboxes, lines_max and updaters_max: expected 1 or more, got 0");
        }
        let domains = Domains::new();
        let first = domains.first_desk();
        let shared = Arc::new(Shared {
            inboxes: (0..settings.mailboxes).map(|_| Inbox::new(Arc::clone(&first))).collect(),
            domains,
            settings,
            intake,
            counters: Counters::default(),
            over: AtomicBool::new(false),
        });
        shared.domains.begin(&shared, first)?;
        Ok(Self { shared })
    }

    /// Posts a letter. Never waits: a mailbox that is full or closed gives the letter back.
    pub fn post(&self, mailbox: usize, letter: Letter) -> Result<(), PostError> {
        self.post_until(mailbox, letter, None)
    }

    /// Posts a letter, and waits for room so long at most.
    pub fn post_timeout(&self, mailbox: usize, letter: Letter, timeout: Duration) -> Result<(), PostError> {
        self.post_until(mailbox, letter, Some(Instant::now() + timeout.min(POST_WAIT_MAX)))
    }

    fn post_until(&self, mailbox: usize, letter: Letter, deadline: Option<Instant>) -> Result<(), PostError> {
        let Some(inbox) = self.shared.inboxes.get(mailbox) else { return Err(PostError::Unknown(letter)) };
        let posted = inbox.post(mailbox, letter, &self.shared.settings, deadline);
        if let Err(PostError::Full(_)) = posted {
            self.shared.counters.refused.fetch_add(1, Relaxed);
        }
        posted
    }

    /// Takes no more letters, and waits so long at most until those that are there have been handed over.
    /// Then the updaters end, and every letter that is left is refused with `draining`. Says how many those
    /// were.
    pub fn close(&self, within: Duration) -> u64 {
        self.shared.close(within)
    }

    /// What has been done so far. Numbers of different moments, if letters come and go meanwhile.
    pub fn stats(&self) -> MailboxStats {
        let Shared { counters, domains, inboxes, .. } = &*self.shared;
        let (updaters, splits, merges) = domains.counts();
        MailboxStats {
            letters: counters.letters.load(Relaxed),
            backlog: inboxes.iter().map(|inbox| inbox.len() as u64).sum(),
            updaters,
            splits,
            merges,
            refused: counters.refused.load(Relaxed),
            panics: counters.panics.load(Relaxed),
        }
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        self.shared.close(Duration::ZERO);
    }
}

impl fmt::Debug for Mailboxes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mailboxes").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Shared {
    fn close(&self, within: Duration) -> u64 {
        let deadline = Instant::now().checked_add(within);
        for inbox in &self.inboxes {
            inbox.close();
        }
        for inbox in &self.inboxes {
            inbox.wait_empty(deadline);
        }
        self.over.store(true, Relaxed);
        self.domains.end(deadline);
        self.sweep();
        self.counters.left.load(Relaxed)
    }

    /// Refuses what nobody will serve any more. Called when all is over: by `close`, and by an updater that
    /// had letters in hand when `close` stopped waiting for it.
    fn sweep(&self) {
        for inbox in &self.inboxes {
            for letter in inbox.take_rest() {
                self.counters.left.fetch_add(1, Relaxed);
                letter.refuse_closed();
            }
        }
    }
}
