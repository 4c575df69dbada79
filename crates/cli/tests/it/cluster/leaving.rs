//! Ends that somebody asks for: a daemon is sent home with hundreds of tasks in hand, a task is cancelled.
//!
//! A daemon that leaves gives back what it cannot end. The lease of this queue is so long that a task which is only
//! left lying would not be given to anybody before the test gives up.

use super::books::Books;
use super::books::Work::{Append, Nap, Note};
use super::crew::QUEUE;
use super::{Crew, Member, until};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_daemon_that_is_sent_home_with_hundreds_of_tasks_gives_them_back() {
    let mut crew = Crew::new();
    crew.lease = Duration::from_secs(3600);
    let mut books = Books::new(&crew);
    // What it did in the last second tells it how much to fetch for the next ten.
    let ahead = "nats.ahead = '10s'";
    let mut first = crew.member_by("first", crew.engine.address(), ahead);
    let mut second = crew.member_by("second", crew.engine.address(), ahead);
    first.start();
    let quick = 3000;
    books.submit(quick, |_| Append);
    books.submit(400, |_| Nap);
    books.wait_for(quick);
    let mut held = 0;
    until("it holds hundreds", || {
        let left;
        (left, held) = books.left();
        left == 400 && held >= 200
    });
    assert_eq!(first.send_home(), Some(0), "{}", first.log());
    let (left, _) = books.left();
    println!("held {held} when it was sent home, {left} left to others");
    assert!(left > 0, "some were not ended");
    second.start();
    books.wait_for_all();
    let results = books.results();
    assert_eq!(results.len() as u64, quick + 400);
    let bad = results.iter().find(|(_, entry)| entry["state"] != "done");
    assert!(bad.is_none(), "{bad:?}");
    assert_eq!(books.replaced(), 0, "each result is written once");
}

fn cancel(member: &Member, url: &str, id: &str) {
    member.run(&["nats", "cancel", id, "--nats", url, "--queue", QUEUE]).with_code(0);
}

#[test]
fn a_task_is_cancelled_from_elsewhere_whether_it_waits_or_runs() {
    let crew = Crew::new();
    let mut books = Books::new(&crew);
    let url = format!("nats://{}", crew.engine.address());
    let (mut first, mut second) = (crew.member("first"), crew.member("second"));
    first.start();
    // Nobody is there to take it.
    assert_eq!(first.send_home(), Some(0));
    books.submit(3, |_| Note);
    cancel(&second, &url, "k1");
    first.start();
    second.start();
    books.wait_for_all();
    // Both daemons are told, and one of them has it.
    books.submit_request(&json!({ "handler": "sleep", "args": { "ms": 3_600_000 } }));
    until("it runs", || books.left().1 == 1);
    cancel(&second, &url, "k3");
    books.wait_for_all();
    until("nobody holds it", || [&first, &second].iter().all(|member| member.figures()["in_flight"] == 0));
    let results = books.results();
    let states: Vec<_> = results.values().map(|entry| entry["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "cancelled", "done", "cancelled"]);
    let ran: Vec<_> = books.executions().iter().map(|run| run.number).collect();
    assert!(!ran.contains(&1), "what was cancelled while it waited has run: {ran:?}");
}
