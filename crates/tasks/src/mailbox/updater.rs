//! An updater: a thread that takes letters out of the mailboxes of its domain and hands them over.
//!
//! It takes a few letters from one mailbox, then goes to the next, so that a busy mailbox does not keep the
//! others waiting. A letter for which there is no room goes back to the head of its mailbox, and that mailbox
//! is left alone for a while.
//!
//! What it has in hand lies outside of the part that may panic. If an intake panics, that letter is refused
//! and the next one is offered. If the updater itself panics, the same thread starts again with the same
//! domain and the same hand: a mailbox without an updater cannot come about.
//!
//! Not here: the lists (`desk.rs`) and the bounds (`inbox.rs`).

use super::desk::{Desk, Next};
use super::letter::{Letter, Take, drop_panic};
use super::load::Load;
use super::{Shared, inbox::Served};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Letters that are taken from one mailbox before the next one has its turn.
const TURN_LETTERS: usize = 32;
/// How soon a letter may be offered again, and how late.
const LATER_MIN: Duration = Duration::from_millis(1);
const LATER_MAX: Duration = Duration::from_secs(1);
/// After a panic of its own an updater pauses, so that a mistake here does not take a whole core.
const PANIC_PAUSE: Duration = Duration::from_millis(10);

/// One updater.
pub(super) struct Updater {
    shared: Arc<Shared>,
    desk: Arc<Desk>,
    hand: Hand,
}

/// The mailbox that is being served.
#[derive(Default)]
pub(super) struct Hand {
    mailbox: Option<usize>,
    /// Letters taken out and not yet dealt with.
    pub(super) letters: VecDeque<Letter>,
    /// Letters dealt with since they were taken out, and their bytes.
    pub(super) gone: usize,
    pub(super) gone_bytes: usize,
}

impl Updater {
    /// Starts a thread that serves what comes to `desk`.
    pub(super) fn start(name: String, shared: Arc<Shared>, desk: Arc<Desk>) -> io::Result<()> {
        let updater = Self { shared, desk, hand: Hand::default() };
        thread::Builder::new().name(name).spawn(move || updater.run()).map(drop)
    }

    fn run(mut self) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.serve_domain())) {
            drop_panic(panic);
            thread::sleep(PANIC_PAUSE);
        }
        let Self { shared, .. } = self;
        shared.domains.updater_ended();
    }

    /// Returns when the domain has been given away or all is over.
    fn serve_domain(&mut self) {
        let settings = &self.shared.settings;
        let mut load = Load::new(settings.split_after, settings.merge_after, Instant::now());
        // Something is in hand only after a panic.
        self.put_back(None);
        loop {
            match self.desk.next(load.patience()) {
                Next::Mailbox { index, rested } => {
                    self.serve(index);
                    if load.wants_help(rested, self.desk.has_ready(), Instant::now()) {
                        self.shared.domains.split(&self.shared, &self.desk);
                    }
                }
                Next::Nothing if self.shared.domains.merge(&self.shared, &self.desk) => return,
                Next::Nothing => load.must_stay(),
                Next::Over => return self.shared.sweep(),
            }
        }
    }

    /// One turn of one mailbox.
    fn serve(&mut self, mailbox: usize) {
        self.hand.mailbox = Some(mailbox);
        self.shared.inboxes[mailbox].take(TURN_LETTERS, &mut self.hand.letters);
        let mut later = None;
        while let Some(letter) = self.hand.letters.front() {
            if self.shared.over.load(Relaxed) {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| self.shared.intake.take(mailbox, letter))) {
                Ok(Take::Taken) => self.let_go().discard(),
                Ok(Take::TryLater(wait)) => {
                    later = Some(wait.clamp(LATER_MIN, LATER_MAX));
                    break;
                }
                Err(panic) => {
                    self.shared.counters.panics.fetch_add(1, Relaxed);
                    self.let_go().refuse_panicked(&*panic);
                    drop_panic(panic);
                }
            }
        }
        self.put_back(later);
    }

    /// Takes the first letter out of the hand for good.
    fn let_go(&mut self) -> Letter {
        let letter = self.hand.letters.pop_front().expect("it was just offered");
        self.hand.gone += 1;
        self.hand.gone_bytes += letter.text.len();
        letter
    }

    /// Returns what is in hand to its mailbox, which is listed again if it has letters.
    fn put_back(&mut self, later: Option<Duration>) {
        let Some(mailbox) = self.hand.mailbox.take() else { return };
        self.shared.counters.letters.fetch_add(self.hand.gone as u64, Relaxed);
        let Served { more, tell_room } = self.shared.inboxes[mailbox].served(&mut self.hand);
        match later {
            _ if !more => (),
            Some(wait) => self.desk.list_later(mailbox, Instant::now() + wait),
            None => self.desk.list(mailbox),
        }
        if tell_room {
            self.shared.intake.room(mailbox);
        }
    }
}
