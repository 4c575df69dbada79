//! Every letter is taken once and in order, however the domains change hands.
//!
//! A mailbox that two updaters serve at once, or none, is the mistake that the specification invites; the
//! intake here looks for it. Letters end by being taken or refused, and both are written down.

use millpond_tasks::mailbox::{
    Intake, Letter, MailboxSettings, MailboxStats, Mailboxes, PostError, Reply, Take,
};
use millpond_tasks::{ErrorCode, Outcome, Refused, TaskId};
use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SOON: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
}

/// Waits for a condition; a minute without it is a failure.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen within a minute");
        thread::yield_now();
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Sender {
    refused: Mutex<Vec<(u64, ErrorCode, String)>>,
}

impl Reply for Sender {
    fn ended(&self, _tag: u64, _id: &TaskId, _outcome: &Outcome) {
        unreachable!("no letter becomes a task here");
    }

    fn refused(&self, tag: u64, refused: Refused) {
        let row = (tag, refused.failure.code, refused.failure.message);
        self.refused.lock().unwrap().push(row);
    }
}

fn letter(sender: &Arc<Sender>, tag: u64) -> Letter {
    Letter { text: tag.to_string().into_bytes(), tag, reply: Arc::clone(sender) as Arc<dyn Reply> }
}

/// What a closure says to letters.
struct Taker<F>(F);

impl<F: Fn(usize, &Letter) -> Take + Send + Sync> Intake for Taker<F> {
    fn take(&self, mailbox: usize, letter: &Letter) -> Take {
        (self.0)(mailbox, letter)
    }
}

/// Shut at first. Updaters wait inside of an intake, which a real one must not do, so that a test knows where
/// they are.
#[derive(Default)]
struct Barrier {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Barrier {
    fn pass(&self) {
        let shut = self.open.lock().unwrap();
        drop(self.changed.wait_while(shut, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

fn settings(mailboxes: usize) -> MailboxSettings {
    MailboxSettings {
        mailboxes,
        split_after: Duration::ZERO,
        merge_after: Duration::ZERO,
        ..MailboxSettings::default()
    }
}

#[test]
fn a_full_mailbox_hands_the_letter_back_and_says_when_there_is_room() {
    struct Held {
        barrier: Barrier,
        inside: AtomicBool,
        room: AtomicU64,
    }
    impl Intake for Held {
        fn take(&self, _mailbox: usize, _letter: &Letter) -> Take {
            self.inside.store(true, Ordering::SeqCst);
            self.barrier.pass();
            Take::Taken
        }
        fn room(&self, mailbox: usize) {
            assert_eq!(mailbox, 1);
            self.room.fetch_add(1, Ordering::SeqCst);
        }
    }
    let held = Arc::new(Held {
        barrier: Barrier::default(),
        inside: AtomicBool::new(false),
        room: AtomicU64::new(0),
    });
    let sender = Arc::new(Sender::default());
    let settings = MailboxSettings { lines_max: 3, bytes_max: 8, ..settings(2) };
    let mailboxes = Mailboxes::start(settings, Arc::clone(&held) as Arc<dyn Intake>).unwrap();
    for tag in 0..3 {
        mailboxes.post(1, letter(&sender, tag)).unwrap();
    }
    until("the first letter", || held.inside.load(Ordering::SeqCst));
    // The letter in hand counts: the bound is exact.
    let Err(PostError::Full(back)) = mailboxes.post(1, letter(&sender, 3)) else { panic!("expected full") };
    assert_eq!(back.tag, 3);
    assert!(matches!(mailboxes.post_timeout(1, back, Duration::ZERO), Err(PostError::Full(_))));
    let Err(PostError::TooLarge(_)) = mailboxes.post(0, letter(&sender, 123_456_789)) else {
        panic!("nine bytes never fit into eight")
    };
    assert!(matches!(mailboxes.post(2, letter(&sender, 3)), Err(PostError::Unknown(_))));
    assert_eq!((mailboxes.stats().refused, mailboxes.stats().backlog), (2, 3));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| mailboxes.post_timeout(1, letter(&sender, 3), SOON));
        held.barrier.open();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(mailboxes.close(SOON), 0);
    assert_eq!(held.room.load(Ordering::SeqCst), 1, "told once, however many were given back");
    assert_eq!(mailboxes.stats().letters, 4);
    assert!(matches!(mailboxes.post(1, letter(&sender, 9)), Err(PostError::Closed(_))));
}

#[test]
fn bytes_are_bounded_as_letters_are() {
    let barrier = Arc::new(Barrier::default());
    let gate = Arc::clone(&barrier);
    let intake = Taker(move |_, _: &Letter| {
        gate.pass();
        Take::Taken
    });
    let sender = Arc::new(Sender::default());
    let settings = MailboxSettings { bytes_max: 10, ..settings(1) };
    let mailboxes = Mailboxes::start(settings, Arc::new(intake)).unwrap();
    mailboxes.post(0, letter(&sender, 12_345)).unwrap();
    mailboxes.post(0, letter(&sender, 1234)).unwrap();
    assert!(matches!(mailboxes.post(0, letter(&sender, 12)), Err(PostError::Full(_))));
    mailboxes.post(0, letter(&sender, 1)).unwrap();
    barrier.open();
    assert_eq!(mailboxes.close(SOON), 0);
}

#[test]
fn a_mailbox_that_must_wait_holds_up_no_other_and_keeps_its_order() {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let blocked = Arc::new(AtomicBool::new(true));
    let (seen, closed) = (Arc::clone(&taken), Arc::clone(&blocked));
    let intake = Taker(move |mailbox, letter: &Letter| {
        if mailbox == 0 && closed.load(Ordering::SeqCst) {
            return Take::TryLater(Duration::from_millis(1));
        }
        seen.lock().unwrap().push((mailbox, letter.tag));
        Take::Taken
    });
    let sender = Arc::new(Sender::default());
    let settings = MailboxSettings { updaters_max: 1, ..settings(2) };
    let mailboxes = Mailboxes::start(settings, Arc::new(intake)).unwrap();
    for tag in 0..100 {
        mailboxes.post(0, letter(&sender, tag)).unwrap();
        mailboxes.post(1, letter(&sender, tag)).unwrap();
    }
    until("the letters of the other mailbox", || taken.lock().unwrap().len() == 100);
    assert_eq!(mailboxes.stats().backlog, 100);
    blocked.store(false, Ordering::SeqCst);
    assert_eq!(mailboxes.close(SOON), 0);
    let of = |mailbox| (0..100).map(move |tag| (mailbox, tag));
    assert_eq!(*taken.lock().unwrap(), of(1).chain(of(0)).collect::<Vec<_>>());
}

#[test]
fn updaters_come_with_the_load_and_go_without_it() {
    let barrier = Arc::new(Barrier::default());
    let gate = Arc::clone(&barrier);
    let intake = Taker(move |_, _: &Letter| {
        gate.pass();
        Take::Taken
    });
    let sender = Arc::new(Sender::default());
    let settings = MailboxSettings { updaters_max: 3, merge_after: SOON, ..settings(8) };
    let mailboxes = Mailboxes::start(settings.clone(), Arc::new(intake)).unwrap();
    assert_eq!(mailboxes.stats().updaters, 1);
    for mailbox in 0..8 {
        for tag in 0..64 {
            mailboxes.post(mailbox, letter(&sender, tag)).unwrap();
        }
    }
    barrier.open();
    until("two splits", || mailboxes.stats().splits == 2);
    assert_eq!(mailboxes.close(SOON), 0);
    let MailboxStats { letters, splits, merges, .. } = mailboxes.stats();
    assert_eq!((letters, splits, merges), (512, 2, 0), "three updaters are the limit");

    let intake = Taker(move |_, _: &Letter| Take::Taken);
    let settings = MailboxSettings { merge_after: Duration::ZERO, ..settings };
    let mailboxes = Mailboxes::start(settings, Arc::new(intake)).unwrap();
    until("a split", || {
        // A mailbox may be full for a moment; the next round posts again.
        (0..8).for_each(|mailbox| drop(mailboxes.post(mailbox, letter(&sender, 0))));
        mailboxes.stats().splits > 0
    });
    until("the last one alone", || mailboxes.stats().updaters == 1);
    assert_eq!(mailboxes.stats().splits, mailboxes.stats().merges);
}

#[test]
fn a_close_that_waits_for_nothing_refuses_what_is_left() {
    let intake = Taker(|_, _: &Letter| Take::TryLater(SOON));
    let sender = Arc::new(Sender::default());
    let mailboxes = Mailboxes::start(settings(3), Arc::new(intake)).unwrap();
    for mailbox in 0..3 {
        for tag in 0..50 {
            mailboxes.post(mailbox, letter(&sender, tag)).unwrap();
        }
    }
    assert_eq!(mailboxes.close(Duration::ZERO), 150);
    let refused = sender.refused.lock().unwrap();
    assert_eq!(refused.len(), 150);
    assert!(refused.iter().all(|(_, code, _)| *code == ErrorCode::Draining));
    assert_eq!((mailboxes.stats().backlog, mailboxes.stats().letters), (0, 0));
}

#[test]
fn a_letter_on_which_the_intake_panics_is_refused_and_the_next_is_taken() {
    let intake = Taker(|_, letter: &Letter| {
        if letter.tag % 2 == 1 {
            // Without the hook, which would print each of them.
            std::panic::resume_unwind(Box::new(format!("odd: {}", letter.tag)));
        }
        Take::Taken
    });
    let sender = Arc::new(Sender::default());
    let mailboxes = Mailboxes::start(settings(1), Arc::new(intake)).unwrap();
    for tag in 0..6 {
        mailboxes.post(0, letter(&sender, tag)).unwrap();
    }
    assert_eq!(mailboxes.close(SOON), 0);
    let expected = [1, 3, 5]
        .map(|tag| (tag, ErrorCode::Internal, format!("the intake panicked on this request: odd: {tag}")));
    assert_eq!(*sender.refused.lock().unwrap(), expected);
    assert_eq!((mailboxes.stats().letters, mailboxes.stats().panics), (6, 3));
}

#[test]
fn senders_that_panic_stop_no_mailbox() {
    struct Rude;
    impl Reply for Rude {
        fn ended(&self, _tag: u64, _id: &TaskId, _outcome: &Outcome) {}
        fn refused(&self, _tag: u64, _refused: Refused) {
            std::panic::resume_unwind(Box::new(Worse));
        }
    }
    impl Drop for Rude {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    struct Worse;
    impl Drop for Worse {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let intake = Taker(move |_, letter: &Letter| {
        if letter.tag == 1 {
            std::panic::resume_unwind(Box::new(Worse));
        }
        count.fetch_add(1, Ordering::SeqCst);
        Take::Taken
    });
    let sender = Arc::new(Sender::default());
    let mailboxes = Mailboxes::start(settings(2), Arc::new(intake)).unwrap();
    for tag in 0..10 {
        let rude = Letter { text: Vec::new(), tag: tag % 2, reply: Arc::new(Rude) };
        mailboxes.post(tag as usize % 2, rude).unwrap();
        mailboxes.post(tag as usize % 2, letter(&sender, 2)).unwrap();
    }
    assert_eq!(mailboxes.close(SOON), 0);
    assert_eq!(taken.load(Ordering::SeqCst), 15);
}

#[test]
fn an_updater_that_panics_leaves_no_mailbox_behind() {
    /// Panics where nothing but the updater itself stands above.
    struct Loud(Barrier, AtomicU64);
    impl Intake for Loud {
        fn take(&self, _mailbox: usize, _letter: &Letter) -> Take {
            self.0.pass();
            self.1.fetch_add(1, Ordering::SeqCst);
            Take::Taken
        }
        fn room(&self, mailbox: usize) {
            std::panic::resume_unwind(Box::new(mailbox));
        }
    }
    let loud = Arc::new(Loud(Barrier::default(), AtomicU64::new(0)));
    let sender = Arc::new(Sender::default());
    let settings = MailboxSettings { lines_max: 40, ..settings(3) };
    let mailboxes = Mailboxes::start(settings, Arc::clone(&loud) as Arc<dyn Intake>).unwrap();
    for mailbox in 0..3 {
        (0..40).for_each(|tag| mailboxes.post(mailbox, letter(&sender, tag)).unwrap());
        assert!(matches!(mailboxes.post(mailbox, letter(&sender, 40)), Err(PostError::Full(_))));
    }
    loud.0.open();
    (0..3).for_each(|mailbox| mailboxes.post_timeout(mailbox, letter(&sender, 40), SOON).unwrap());
    assert_eq!(mailboxes.close(SOON), 0);
    assert_eq!(loud.1.load(Ordering::SeqCst), 123);
}

/// Looks for a mailbox that is served twice at once, and writes down what comes.
struct Witness {
    serving: Vec<AtomicBool>,
    /// Sender and number of each letter, in the order in which they were taken.
    taken: Vec<Mutex<Vec<u64>>>,
    dice: Mutex<Dice>,
}

impl Intake for Witness {
    fn take(&self, mailbox: usize, letter: &Letter) -> Take {
        assert!(!self.serving[mailbox].swap(true, Ordering::SeqCst), "mailbox {mailbox} is served twice");
        let lot = self.dice.lock().unwrap().below(64);
        if lot < 4 {
            thread::yield_now();
        }
        let take = if lot == 5 { Take::TryLater(Duration::ZERO) } else { Take::Taken };
        if take == Take::Taken && lot != 6 {
            self.taken[mailbox].lock().unwrap().push(letter.tag);
        }
        self.serving[mailbox].store(false, Ordering::SeqCst);
        if lot == 6 {
            std::panic::resume_unwind(Box::new("by lot"));
        }
        take
    }
}

const SENDER_BITS: u32 = 40;

#[test]
fn every_letter_is_taken_once_and_in_order_while_domains_change_hands() {
    const MAILBOXES: usize = 7;
    const SENDERS: u64 = 6;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number_from("MILLPOND_SEED").unwrap_or(clock);
    let count = number_from("MILLPOND_LETTERS").unwrap_or(20_000);
    println!("MILLPOND_SEED={seed} MILLPOND_LETTERS={count}");
    let witness = Arc::new(Witness {
        serving: (0..MAILBOXES).map(|_| AtomicBool::new(false)).collect(),
        taken: (0..MAILBOXES).map(|_| Mutex::default()).collect(),
        dice: Mutex::new(Dice(seed)),
    });
    let settings = MailboxSettings { lines_max: 50, updaters_max: 5, ..settings(MAILBOXES) };
    let mailboxes = Mailboxes::start(settings, Arc::clone(&witness) as Arc<dyn Intake>).unwrap();
    let reply = Arc::new(Sender::default());
    let posted: Vec<Vec<Vec<u64>>> = thread::scope(|scope| {
        let (mailboxes, reply) = (&mailboxes, &reply);
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| scope.spawn(move || send(mailboxes, reply, sender, seed, count, MAILBOXES)))
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert_eq!(mailboxes.close(SOON), 0);
    let stats = mailboxes.stats();
    println!("{stats:?}");
    assert_eq!(stats.letters, SENDERS * count);
    assert!(stats.splits > 0 && stats.merges > 0, "the domains did not change hands: {stats:?}");
    check(&witness, &reply, &posted);
}

/// What one sender posted to each mailbox, in order.
fn send(
    mailboxes: &Mailboxes,
    reply: &Arc<Sender>,
    sender: u64,
    seed: u64,
    count: u64,
    mailbox_count: usize,
) -> Vec<Vec<u64>> {
    let mut dice = Dice(seed ^ (sender + 1));
    let mut posted = vec![Vec::new(); mailbox_count];
    for number in 0..count {
        let mailbox = dice.below(mailbox_count as u64) as usize;
        let tag = (sender << SENDER_BITS) | number;
        let mut waiting = letter(reply, tag);
        if dice.below(4) > 0 {
            mailboxes.post_timeout(mailbox, waiting, SOON).unwrap();
        } else {
            let deadline = Instant::now() + SOON;
            while let Err(back) = mailboxes.post(mailbox, waiting) {
                assert!(matches!(back, PostError::Full(_)), "{back}");
                assert!(Instant::now() < deadline, "mailbox {mailbox} is not served any more");
                waiting = back.into_letter();
                thread::yield_now();
            }
        }
        posted[mailbox].push(tag);
        // A pause lets updaters run dry, so that they merge; they split when all senders are back.
        if dice.below(2000) == 0 {
            until("a pause", || mailboxes.stats().backlog == 0);
        }
    }
    posted
}

/// Each mailbox took what each sender posted to it, in the same order, but for what was refused.
fn check(witness: &Witness, reply: &Sender, posted: &[Vec<Vec<u64>>]) {
    let mut refused = BTreeMap::new();
    for (tag, code, _) in reply.refused.lock().unwrap().iter() {
        assert_eq!(*code, ErrorCode::Internal);
        assert_eq!(refused.insert(*tag, ()), None, "refused twice");
    }
    assert!(!refused.is_empty(), "no intake panicked");
    for (mailbox, taken) in witness.taken.iter().enumerate() {
        let taken = taken.lock().unwrap();
        for (sender, posted) in posted.iter().enumerate() {
            let came: Vec<_> = taken.iter().filter(|tag| **tag >> SENDER_BITS == sender as u64).collect();
            let meant: Vec<_> = posted[mailbox].iter().filter(|tag| !refused.contains_key(*tag)).collect();
            assert_eq!(came, meant, "mailbox {mailbox}, sender {sender}");
        }
        let total: usize = posted.iter().map(|posted| posted[mailbox].len()).sum();
        let lost = posted.iter().flat_map(|posted| &posted[mailbox]).filter(|tag| refused.contains_key(*tag));
        assert_eq!(taken.len() + lost.count(), total, "mailbox {mailbox}");
    }
}
