//! How many submissions a second are on the disk and acknowledged, each submitter waiting for its own?
//!
//! `journal-64`, `journal-1`, `journal-512`: so many threads, 256 bytes each time, for about a second a round. After
//! every round the store is opened again, and what it acknowledged must be there. `millpond inbox` and `millpond
//! callbacks` have one thread with as many submissions under way, as a door has: acknowledged by the batch, or each by
//! a call.
//!
//! The rows with `~` are the disk itself: one thread that writes as many records as one sync of a store can share, at
//! most 64, and syncs. `~raw write and sync` goes over the same file again and again, `~raw append and sync` lets it
//! grow. `~raw with threads` does the first, and after each sync wakes as many threads as there are submitters, and
//! waits until they slept again: what is lost there no store can win back.
//!
//! `journal-recovery`: how long until the records of an earlier run are back in a table (`recovery.rs`).
//!
//! Not here: how the stores are called (`peers/journal/`).

mod recovery;

use crate::measure::{Better, Contestant, Figures, Group, Pace, Round};
use crate::peers::journal::beanstalkd::Beanstalkd;
use crate::peers::journal::fjall::Fjall;
use crate::peers::journal::millpond::Millpond;
use crate::peers::journal::redb::Redb;
use crate::peers::journal::sqlite::Sqlite;
use crate::peers::journal::{PAYLOAD_BYTES, Store, StoreFolder, raw};
use crate::peers::tasks::beanstalkd;
use crate::team::{self, Work};
use millpond_journal::{Inbox, Record};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub(crate) fn groups() -> Vec<Group> {
    vec![
        acknowledged("journal-64", "acknowledged submissions of 256 bytes, 64 submitters", 64),
        acknowledged("journal-1", "acknowledged submissions of 256 bytes, 1 submitter", 1),
        acknowledged("journal-512", "acknowledged submissions of 256 bytes, 512 submitters", 512),
        recovery::group(),
    ]
}

fn acknowledged(name: &'static str, question: &'static str, submitters: usize) -> Group {
    let beanstalkd = || beanstalkd::program().map(drop);
    let contestants = vec![
        contestant::<Millpond>("millpond", submitters),
        Contestant::new("millpond inbox", move |round| by_inbox(round, submitters)),
        Contestant::new("millpond callbacks", move |round| callbacks(round, submitters)),
        contestant::<Sqlite>("sqlite wal full", submitters),
        contestant::<Redb>("redb immediate", submitters),
        contestant::<Fjall>("fjall syncdata", submitters),
        contestant::<Beanstalkd>("beanstalkd -f0", submitters).needing(beanstalkd),
        Contestant::new("~raw write and sync", move |round| alone(round, submitters, raw::run)),
        Contestant::new("~raw append and sync", move |round| alone(round, submitters, raw::append)),
        Contestant::new("~raw with threads", move |round| alone(round, submitters, raw::with_threads)),
    ];
    let unit = "submissions/s";
    Group { name, question, unit, better: Better::Higher, pace: Pace::Rounds, contestants }
}

/// Items are how long a round takes: a second for a full one.
fn time_of(round: &Round) -> Duration {
    Duration::from_micros(round.items)
}

fn contestant<S: Store>(peer: &'static str, submitters: usize) -> Contestant {
    Contestant::new(peer, move |round| {
        let folder = StoreFolder::new()?;
        let store = Arc::new(S::start(folder.path(), submitters)?);
        let time = time_of(round);
        let work = |submitter: usize| {
            let store = Arc::clone(&store);
            let work: Work<Result<Vec<Duration>, String>> =
                Box::new(move || submit_for(&*store, submitter, time));
            work
        };
        let (elapsed, results) = team::run((0..submitters).map(work).collect(), round.pinned)?;
        let times: Result<Vec<_>, String> = results.into_iter().collect();
        let times: Vec<Duration> = times?.into_iter().flatten().collect();
        let store = Arc::into_inner(store).ok_or("a submitter still has the store")?;
        same(store.count(folder.path())?, times.len() as u64)?;
        Ok(figures(times, elapsed))
    })
}

fn submit_for<S: Store>(store: &S, submitter: usize, time: Duration) -> Result<Vec<Duration>, String> {
    let payload = [b'm'; PAYLOAD_BYTES];
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let submitted = Instant::now();
        store.submit(submitter, &payload)?;
        times.push(submitted.elapsed());
    }
    Ok(times)
}

/// One thread that hands in another record whenever one is acknowledged.
fn callbacks(round: &Round, in_flight: usize) -> Result<Figures, String> {
    let folder = StoreFolder::new()?;
    let store = Millpond::start(folder.path(), 1)?;
    let payload = [b'm'; PAYLOAD_BYTES];
    let (sender, acknowledged) = mpsc::channel();
    let submit = |key: u64| {
        let (sender, submitted) = (sender.clone(), Instant::now());
        let receipt = store.journal().append(&[Record::new(1, key, &payload)]);
        let receipt = receipt.map_err(|error| error.to_string())?;
        // The receiver lives until everything is acknowledged.
        receipt.on_synced(move |outcome| _ = sender.send((outcome, submitted.elapsed())));
        Ok::<(), String>(())
    };
    let began = Instant::now();
    let mut submitted = 0;
    let mut times = Vec::new();
    while submitted < in_flight as u64 || times.len() < submitted as usize {
        if submitted < in_flight as u64 {
            submit(submitted)?;
            submitted += 1;
            continue;
        }
        let (outcome, time) = acknowledged.recv().map_err(|error| error.to_string())?;
        outcome.map_err(|error: millpond_journal::AppendError| error.to_string())?;
        times.push(time);
        if began.elapsed() < time_of(round) {
            submit(submitted)?;
            submitted += 1;
        }
    }
    let elapsed = began.elapsed();
    same(store.count(folder.path())?, times.len() as u64)?;
    Ok(figures(times, elapsed))
}

/// The same, with everything that was synced together acknowledged together.
fn by_inbox(round: &Round, in_flight: usize) -> Result<Figures, String> {
    let folder = StoreFolder::new()?;
    let store = Millpond::start(folder.path(), 1)?;
    let payload = [b'm'; PAYLOAD_BYTES];
    let inbox = Arc::new(Inbox::new());
    let submit = |key: u64| {
        let submitted = Instant::now();
        let receipt = store.journal().append(&[Record::new(1, key, &payload)]);
        receipt.map(|receipt| receipt.deliver(&inbox, submitted)).map_err(|error| error.to_string())
    };
    let began = Instant::now();
    (0..in_flight as u64).try_for_each(submit)?;
    let (mut submitted, mut times, mut notes) = (in_flight, Vec::new(), Vec::new());
    while times.len() < submitted {
        inbox.take(&mut notes);
        for (at, outcome) in notes.drain(..) {
            outcome.map_err(|error| error.to_string())?;
            times.push(at.elapsed());
            if began.elapsed() < time_of(round) {
                submit(submitted as u64)?;
                submitted += 1;
            }
        }
    }
    let elapsed = began.elapsed();
    same(store.count(folder.path())?, times.len() as u64)?;
    Ok(figures(times, elapsed))
}

fn alone(round: &Round, submitters: usize, run: raw::Run) -> Result<Figures, String> {
    let folder = StoreFolder::new()?;
    let (count, elapsed) = run(folder.path(), submitters.min(64), time_of(round))?;
    let rate = count as f64 / elapsed.as_secs_f64();
    let sync = elapsed.as_secs_f64() * 1e6 * submitters.min(64) as f64 / count as f64;
    // Whoever shares a sync waits for it.
    Ok(Figures { main: rate, beside: vec![("p50_us", sync), ("p99_us", sync)] })
}

fn same(found: u64, acknowledged: u64) -> Result<(), String> {
    if found == acknowledged {
        return Ok(());
    }
    Err(format!("{acknowledged} were acknowledged, and {found} are there after the store was opened again"))
}

fn figures(mut times: Vec<Duration>, elapsed: Duration) -> Figures {
    times.sort_unstable();
    let microseconds = |share: f64| {
        let rank = (times.len().saturating_sub(1) as f64 * share).round() as usize;
        times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    Figures { main: rate, beside: vec![("p50_us", microseconds(0.5)), ("p99_us", microseconds(0.99))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_lost_something_is_found_out() {
        assert_eq!(same(3, 3), Ok(()));
        let message = same(2, 3).unwrap_err();
        assert_eq!(message, "3 were acknowledged, and 2 are there after the store was opened again");
    }
}
