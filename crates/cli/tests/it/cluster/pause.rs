//! A daemon that was away and does not know it: paused, or cut off from the network for longer than its lease.
//!
//! Others are given its tasks meanwhile. When it is back it still believes that they are its own, and has results for
//! them. Those must change nothing, it must not take back what others hold, and then it must work like any other.

use super::books::Books;
use super::books::Work::{Note, Slow};
use super::link::Link;
use super::{Crew, Member, until};
use std::collections::BTreeMap;

/// Tasks of a second that are under way when somebody goes away.
const TASKS: u64 = 16;

/// Numbers of the tasks that this daemon has begun and nobody has ended.
fn begun_by(books: &Books, name: &str) -> Vec<u64> {
    let executions = books.executions();
    let results = books.results();
    let is_its = |told: &Option<(String, u64)>| told.as_ref().is_some_and(|(daemon, _)| daemon == name);
    let begun = executions.iter().filter(|run| is_its(&run.told) && !results.contains_key(&run.number));
    begun.map(|run| run.number).collect()
}

/// Everything is done although `away` is; what it held has been done by others.
fn done_without(books: &Books, away: &str, held: &[u64]) {
    books.wait_for_all();
    let results = books.results();
    for number in held {
        let entry = &results[number];
        assert_ne!(entry["daemon"], away, "k{number} was done by a daemon that was away: {entry}");
    }
}

/// It is back: what it brings late changes no result, and it does what is left for it alone.
fn welcome_back(books: &mut Books, back: &Member, others: &mut [Member], held: &[u64]) {
    let before: BTreeMap<_, _> = books.results();
    until("it has noticed that others were faster", || {
        let figures = back.figures();
        let late = figures["fenced"].as_u64().unwrap() + figures["duplicates"].as_u64().unwrap();
        late >= held.len() as u64 && figures["in_flight"] == 0
    });
    assert_eq!(books.results(), before, "nothing that came late has changed a result");
    others.iter_mut().for_each(|other| assert_eq!(other.send_home(), Some(0), "{}", other.log()));
    books.submit(20, |_| Note);
    books.wait_for_all();
    let sums = books.judge();
    println!("held while away: {}; {sums:?}", held.len());
    assert_eq!(sums.alike, 0, "what ran again was another attempt");
    assert_eq!(books.replaced(), 0, "each result is written once");
    let results = books.results();
    assert!((TASKS..TASKS + 20).all(|number| results[&number]["daemon"] == back.name), "it did the rest");
}

#[test]
fn a_daemon_that_was_paused_for_longer_than_its_lease_changes_no_result() {
    let crew = Crew::new();
    let mut books = Books::new(&crew);
    let mut paused = crew.member("paused");
    let mut others = [crew.member("two"), crew.member("three")];
    paused.start();
    books.submit(TASKS, |_| Slow);
    let mut held = Vec::new();
    until("it is paused with a task under way", || {
        if !begun_by(&books, "paused").is_empty() {
            paused.pause();
            held = begun_by(&books, "paused");
            if held.is_empty() {
                paused.resume();
            }
        }
        !held.is_empty()
    });
    others.iter_mut().for_each(Member::start);
    done_without(&books, "paused", &held);
    paused.resume();
    welcome_back(&mut books, &paused, &mut others, &held);
}

#[test]
fn a_daemon_that_was_cut_off_for_longer_than_its_lease_changes_no_result() {
    let mut link = Link::make();
    println!("cut off by {}", link.kind());
    let crew = Crew::at(link.host());
    let mut books = Books::new(&crew);
    let mut far = crew.member_by("far", link.server(crew.engine.address()), "");
    let mut others = [crew.member("near")];
    link.start(&mut far);
    books.submit(TASKS, |_| Slow);
    let mut held = Vec::new();
    until("it is cut off with a task under way", || {
        if !begun_by(&books, "far").is_empty() {
            link.cut();
            held = begun_by(&books, "far");
            if held.is_empty() {
                link.heal();
            }
        }
        !held.is_empty()
    });
    others.iter_mut().for_each(Member::start);
    done_without(&books, "far", &held);
    link.heal();
    welcome_back(&mut books, &far, &mut others, &held);
}
