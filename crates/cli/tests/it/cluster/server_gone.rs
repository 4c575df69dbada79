//! The server goes away while daemons work: killed and started again on its store, alone or together with a daemon, or
//! stopped for longer than a lease.
//!
//! No other daemon is started anew for it. Tasks that were accepted are done, and so are those that come afterwards: a
//! daemon that has silently stopped to fetch would leave them.
//!
//! nats-server 2.9 writes down lazily how far its consumers are and what they acknowledged. So after it was killed it
//! may give out once more what has ended, and say that it is the first time. A task that ended before is not run again
//! then; one that was under way may be, and nothing shows it.

use super::books::Books;
use super::books::Work::{self, Append, Note};
use super::{Crew, LEASE, Member};
use crate::dice::{Dice, seed};
use std::thread;
use std::time::Duration;

const TASKS: u64 = 400;

fn work(number: u64) -> Work {
    if number.is_multiple_of(2) { Note } else { Append }
}

fn at_work(crew: &Crew) -> [Member; 3] {
    let mut members = ["one", "two", "three"].map(|name| crew.member(name));
    members.iter_mut().for_each(Member::start);
    members
}

/// Submits tasks, and waits until some of them have ended.
fn begin(books: &mut Books, dice: &mut Dice) {
    let before = books.submitted();
    books.submit(TASKS, work);
    books.wait_for(before + dice.below(TASKS));
}

#[test]
fn a_server_that_is_killed_and_comes_back_loses_no_task_and_stalls_nobody() {
    let mut dice = Dice(seed());
    let mut crew = Crew::new();
    let mut books = Books::new(&crew);
    let _members = at_work(&crew);
    for _ in 0..3 {
        begin(&mut books, &mut dice);
        crew.engine.kill();
        crew.engine.start_again();
        books.submit(TASKS / 4, work);
        books.wait_for_all();
    }
    let sums = books.judge();
    println!("{sums:?}");
    // Those that were under way at one of the three kills, and no more.
    assert!(sums.beyond < sums.tasks / 2, "{sums:?}");
}

#[test]
fn a_server_and_a_daemon_that_are_killed_together_lose_no_task() {
    let mut dice = Dice(seed());
    let mut crew = Crew::new();
    let mut books = Books::new(&crew);
    let mut members = at_work(&crew);
    for _ in 0..3 {
        begin(&mut books, &mut dice);
        let member = &mut members[dice.below(3) as usize];
        crew.engine.kill();
        member.kill();
        crew.engine.start_again();
        books.wait_for_all();
        member.start();
    }
    let sums = books.judge();
    println!("{sums:?}");
    assert!(sums.beyond < sums.tasks / 2, "{sums:?}");
}

#[test]
fn a_server_that_is_away_for_longer_than_the_lease_stalls_nobody() {
    let mut crew = Crew::new();
    let mut books = Books::new(&crew);
    let members = at_work(&crew);
    books.submit(TASKS, work);
    books.wait_for(TASKS / 4);
    crew.engine.stop();
    // The length of the outage is what this is about.
    thread::sleep(LEASE + Duration::from_secs(1));
    crew.engine.start_again();
    books.submit(TASKS, work);
    books.wait_for_all();
    let sums = books.judge();
    println!("{sums:?}");
    assert!(books.replaced() <= 1, "each result is written once, and once what is known of the server");
    for member in &members {
        let figures = member.figures();
        assert_eq!(figures["connected"], true, "{}: {figures}", member.name);
    }
}
