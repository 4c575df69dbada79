//! Closing the door: nobody else comes in, and whoever waits gets what it waits for.
//!
//! A daemon that is asked to stop must not lose what it had accepted.

use crate::start::{Daemon, PATIENCE, ask, eventually, receive};
use millpond_local::{Client, Flags, Kind};
use serde_json::json;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Duration;

#[test]
fn a_door_that_closes_sends_thousands_of_answers_first() {
    let mut daemon = Daemon::with(|settings| settings.in_flight_max = 10_000);
    let mut client = daemon.client();
    let count = 5000;
    for tag in 0..count {
        client.send(Kind::Submit, Flags::RESULT, tag, br#"{"handler":"gated"}"#).unwrap();
    }
    client.flush().unwrap();
    eventually("all are under way", || daemon.door().stats().in_flight == count);
    let door = daemon.door.take().unwrap();
    let path = door.path().to_owned();
    let closing = std::thread::spawn(move || door.close(PATIENCE));
    eventually("the door is closing", || !path.exists());
    assert_eq!(Client::connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
    daemon.gate.open();
    let mut seen = HashSet::new();
    for _ in 0..count {
        let answer = receive(&mut client);
        assert_eq!(answer.kind, Kind::Result);
        assert!(seen.insert(answer.tag));
    }
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    closing.join().unwrap();
}

#[test]
fn a_door_that_waits_no_longer_leaves_the_outcomes_in_the_store() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let accepted =
        ask(&mut client, Kind::Submit, Flags::RESULT | Flags::ACK, 1, r#"{"handler":"gated","task_id":1}"#);
    assert_eq!(accepted.kind, Kind::Accepted);
    daemon.door.take().unwrap().close(Duration::ZERO);
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    daemon.gate.open();
    let task = daemon.service.handle().get(&millpond_tasks::TaskId::Number(1)).unwrap();
    assert!(task.wait(PATIENCE).is_some());
    assert!(daemon.service.handle().get(task.id()).is_ok(), "it is kept, for nobody was told");
}

#[test]
fn a_service_that_drains_refuses_and_its_door_still_answers() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    client.send(Kind::Submit, Flags::RESULT, 1, br#"{"handler":"gated"}"#).unwrap();
    client.flush().unwrap();
    daemon.gate.wait_for(1);
    std::thread::scope(|scope| {
        let draining = scope.spawn(|| daemon.service.drain(PATIENCE));
        eventually("it drains", || daemon.service.handle().is_draining());
        let refused = ask(&mut client, Kind::Submit, Flags::RESULT, 2, r#"{"handler":"echo"}"#);
        assert_eq!((refused.kind, &refused.value["error"]), (Kind::Error, &json!("draining")));
        daemon.gate.open();
        assert_eq!(draining.join().unwrap().left, 0);
    });
    let result = receive(&mut client);
    assert_eq!((result.kind, result.tag), (Kind::Result, 1));
}

#[test]
fn a_door_that_is_dropped_closes_and_another_can_open_in_its_place() {
    let mut daemon = Daemon::start();
    let path = daemon.door().path().to_owned();
    for _ in 0..3 {
        drop(daemon.door.take());
        assert!(!path.exists(), "the socket goes with the door");
        daemon.open_again(&path);
        assert_eq!(ask(&mut daemon.client(), Kind::Ping, Flags::NONE, 1, "{}").kind, Kind::Pong);
    }
}
