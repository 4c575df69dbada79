//! Who owns which mailboxes: the table of domains, and how a domain is shared, given away and ended.
//!
//! ```text
//!   mailboxes   0  1  2 │ 3  4 │ 5  6  7      every mailbox in exactly one domain, always
//!   updaters        A   │   B  │    C         neighbours in the table are neighbours in number
//!
//!   split: A keeps 0..b and gives b..3 to a new D       merge: B gives 3..5 to A and ends
//! ```
//!
//! The table is changed under one lock, and only by the updater whose domain becomes smaller, between two
//! mailboxes, when it has no letter in hand. So a mailbox is served by one updater at any time: before the
//! change by the one, after it by the other. The order is always the same: first the mailboxes learn of their
//! new owner (each under its own lock, after which nobody lists them on the old desk), then what stands on
//! the old desk is moved. A letter that is posted in between finds its mailbox listed already, or lists it on
//! the new desk.
//!
//! Not here: when to share and when to end (`load.rs`).

use super::Shared;
use super::desk::Desk;
use super::updater::Updater;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long `close` waits for updaters that are in the middle of a letter, whatever it was told.
const LAST_LETTER: Duration = Duration::from_secs(1);

/// The table of domains.
pub(super) struct Domains {
    table: Mutex<Table>,
    /// Told when an updater has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Table {
    /// In the order of their mailboxes, without gaps.
    domains: Vec<Domain>,
    /// Threads that have not ended.
    alive: usize,
    /// Updaters ever started; the next one's name.
    started: u64,
    splits: u64,
    merges: u64,
    closed: bool,
}

struct Domain {
    mailboxes: Range<usize>,
    desk: Arc<Desk>,
}

impl Domains {
    pub(super) fn new() -> Self {
        Self { table: Mutex::default(), ended: Condvar::new() }
    }

    /// The desk of the first updater.
    pub(super) fn first_desk(&self) -> Arc<Desk> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the first updater, which owns everything.
    pub(super) fn begin(&self, shared: &Arc<Shared>, desk: Arc<Desk>) -> io::Result<()> {
        let mut table = self.lock();
        table.start_updater(shared, &desk)?;
        table.domains.push(Domain { mailboxes: 0..shared.inboxes.len(), desk });
        Ok(())
    }

    /// Gives the upper part of a domain, with half of the mailboxes that have letters, to a new updater. If
    /// there may be no more of them, or the system will not start a thread, all stays as it is.
    pub(super) fn split(&self, shared: &Arc<Shared>, desk: &Arc<Desk>) {
        let mut table = self.lock();
        if table.closed || table.domains.len() >= shared.settings.updaters_max {
            return;
        }
        let ready = desk.ready_sorted();
        if ready.len() < 2 {
            return;
        }
        let boundary = ready[ready.len() / 2];
        let place = table.place_of(desk);
        let given = boundary..table.domains[place].mailboxes.end;
        let new = Arc::default();
        if table.start_updater(shared, &new).is_err() {
            return;
        }
        table.domains[place].mailboxes.end = boundary;
        hand_over(shared, &given, desk, &new);
        table.domains.insert(place + 1, Domain { mailboxes: given, desk: new });
        table.splits += 1;
    }

    /// Gives a whole domain to a neighbour, if there is one: then its updater must end.
    pub(super) fn merge(&self, shared: &Shared, desk: &Arc<Desk>) -> bool {
        let mut table = self.lock();
        if table.closed || table.domains.len() < 2 {
            return false;
        }
        let place = table.place_of(desk);
        let given = table.domains.remove(place).mailboxes;
        let neighbour = &mut table.domains[place.saturating_sub(1)];
        if neighbour.mailboxes.end == given.start {
            neighbour.mailboxes.end = given.end;
        } else {
            neighbour.mailboxes.start = given.start;
        }
        hand_over(shared, &given, desk, &neighbour.desk);
        table.merges += 1;
        true
    }

    /// Updaters now, splits and merges so far.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let table = self.lock();
        (table.domains.len() as u64, table.splits, table.merges)
    }

    /// Ends all updaters, and waits for them until the deadline, but for a letter that is being taken at
    /// least.
    pub(super) fn end(&self, deadline: Option<Instant>) {
        let last_letter = Instant::now() + LAST_LETTER;
        let deadline = deadline.map_or(last_letter, |deadline| deadline.max(last_letter));
        let mut table = self.lock();
        table.closed = true;
        for domain in &table.domains {
            domain.desk.end();
        }
        while table.alive > 0 && Instant::now() < deadline {
            let patience = deadline.saturating_duration_since(Instant::now());
            table = self.ended.wait_timeout(table, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// An updater's thread ends.
    pub(super) fn updater_ended(&self) {
        self.lock().alive -= 1;
        self.ended.notify_all();
    }
}

impl Table {
    fn place_of(&self, desk: &Arc<Desk>) -> usize {
        let place = self.domains.iter().position(|domain| Arc::ptr_eq(&domain.desk, desk));
        place.expect("an updater has a domain until it ends")
    }

    fn start_updater(&mut self, shared: &Arc<Shared>, desk: &Arc<Desk>) -> io::Result<()> {
        Updater::start(format!("millpond-updater-{}", self.started), Arc::clone(shared), Arc::clone(desk))?;
        self.started += 1;
        self.alive += 1;
        Ok(())
    }
}

/// Moves mailboxes from one desk to another. The caller has the table, and none of them is in hand.
fn hand_over(shared: &Shared, mailboxes: &Range<usize>, from: &Desk, to: &Arc<Desk>) {
    for inbox in &shared.inboxes[mailboxes.clone()] {
        inbox.give_to(to);
    }
    from.move_to(mailboxes, to);
}
