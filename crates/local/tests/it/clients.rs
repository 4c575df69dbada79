//! Many clients at once, and clients that leave: in good order, in a hurry, or killed.
//!
//! Whatever a client does, others are served, and what it had asked for is done.

use crate::start::{Daemon, PATIENCE, ask, eventually, receive};
use millpond_local::{Client, Flags, Kind};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::env;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PATH_VARIABLE: &str = "MILLPOND_TEST_SOCKET";
const TASKS_OF_THE_KILLED: u64 = 300;

#[test]
fn a_hundred_clients_at_once_each_get_their_own() {
    let daemon = Daemon::start();
    let path = daemon.door().path();
    std::thread::scope(|scope| {
        for number in 0..100 {
            scope.spawn(move || work(path, number));
        }
    });
    eventually("every connection is given back", || daemon.door().stats().connections == 0);
    let stats = daemon.door().stats();
    assert_eq!((stats.accepted, stats.in_flight, stats.errors), (100, 0, 0));
}

/// One client: 200 tasks, 16 at a time.
fn work(path: &Path, number: u64) {
    let mut client = Client::connect(path).unwrap();
    let request = |tag: u64| json!({"handler": "echo", "args": {"client": number, "n": tag}}).to_string();
    for tag in 0..16 {
        client.send(Kind::Submit, Flags::RESULT, tag, request(tag).as_bytes()).unwrap();
    }
    let mut seen = HashSet::new();
    for next in 16..216 {
        let answer = receive(&mut client);
        assert_eq!(answer.value["result"], json!({"client": number, "n": answer.tag}));
        assert!(seen.insert(answer.tag));
        if next < 200 {
            client.send(Kind::Submit, Flags::RESULT, next, request(next).as_bytes()).unwrap();
        }
    }
}

#[test]
fn a_client_that_says_its_last_word_still_gets_every_answer() {
    let daemon = Daemon::start();
    let (mut sender, mut receiver) = daemon.client().split();
    for tag in 0..1000 {
        sender.send(Kind::Submit, Flags::RESULT, tag, br#"{"handler":"gated"}"#).unwrap();
    }
    sender.finish().unwrap();
    daemon.gate.wait_for(1);
    daemon.gate.open();
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let frame = receiver.receive_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(frame.kind, Kind::Result);
        assert!(seen.insert(frame.tag));
    }
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn what_a_client_sent_before_it_closed_is_done() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for id in 0..500 {
        let request = json!({"handler": "echo", "task_id": id}).to_string();
        let flags = if id % 2 == 0 { Flags::NONE } else { Flags::RESULT };
        client.send(Kind::Submit, flags, id, request.as_bytes()).unwrap();
    }
    client.flush().unwrap();
    drop(client);
    eventually("all were taken in", || daemon.service.handle().stats().succeeded == 500);
    eventually("none is on its way any more", || daemon.door().stats().in_flight == 0);
}

/// Not a test by itself: the client that the next one kills.
#[test]
fn the_client_that_is_killed() {
    let Ok(path) = env::var(PATH_VARIABLE) else { return };
    let mut client = Client::connect(Path::new(&path)).unwrap();
    for id in 0..TASKS_OF_THE_KILLED {
        let request = json!({"handler": "gated", "task_id": id}).to_string();
        client.send(Kind::Submit, Flags::RESULT | Flags::ACK, id, request.as_bytes()).unwrap();
    }
    for _ in 0..TASKS_OF_THE_KILLED {
        assert_eq!(receive(&mut client).kind, Kind::Accepted);
    }
    println!("\nready");
    client.receive().unwrap();
    unreachable!("no task ends before this process does");
}

fn start_the_killed(path: &Path) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "clients::the_client_that_is_killed"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the client came so far");
    child
}

#[test]
fn the_tasks_of_a_killed_client_go_on_and_their_outcomes_are_kept() {
    let daemon = Daemon::start();
    let mut bystander = daemon.client();
    let mut child = start_the_killed(daemon.door().path());
    assert_eq!(daemon.door().stats().in_flight, TASKS_OF_THE_KILLED);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its readers are taken away", || daemon.door().stats().in_flight == 0);
    assert_eq!(ask(&mut bystander, Kind::Ping, Flags::NONE, 1, "{}").kind, Kind::Pong);
    daemon.gate.open();
    for id in 0..TASKS_OF_THE_KILLED {
        let words = json!({ "task_id": id }).to_string();
        let answer = ask(&mut bystander, Kind::Get, Flags::RESULT, id, &words);
        assert_eq!((answer.kind, &answer.value["status"]), (Kind::Result, &json!(0)), "task {id}");
        assert_eq!(answer.value["task_id"], Value::from(id));
    }
}
