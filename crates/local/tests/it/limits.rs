//! Limits make a client wait and lose nothing: connections, answers to come, bytes to be sent.
//!
//! The limits are set so low that ordinary work meets them.

use crate::start::{Daemon, ask, eventually, receive};
use millpond_local::{Client, Flags, Kind};
use serde_json::json;
use std::collections::HashSet;
use std::io::ErrorKind;

#[test]
fn one_connection_too_many_is_told_so() {
    let daemon = Daemon::with(|settings| settings.connections_max = 2);
    let (first, mut second) = (daemon.client(), daemon.client());
    let error = Client::connect(daemon.door().path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let text = error.to_string();
    let expected = "2 of 2 connections are open; close some, or raise control.connections_max";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(ask(&mut second, Kind::Ping, Flags::NONE, 1, "{}").kind, Kind::Pong);
    drop(first);
    eventually("a place is free again", || Client::connect(daemon.door().path()).is_ok());
    assert!(daemon.door().stats().refused >= 1);
}

#[test]
fn at_most_so_many_answers_are_outstanding_and_the_rest_waits_its_turn() {
    let daemon = Daemon::with(|settings| settings.in_flight_max = 4);
    let mut greedy = daemon.client();
    for tag in 0..10 {
        greedy.send(Kind::Submit, Flags::RESULT, tag, br#"{"handler":"gated"}"#).unwrap();
    }
    greedy.flush().unwrap();
    daemon.gate.wait_for(4);
    // The reactor has many turns meanwhile, and none of them is for the fifth.
    let mut other = daemon.client();
    for tag in 0..200 {
        assert_eq!(ask(&mut other, Kind::Ping, Flags::NONE, tag, "{}").kind, Kind::Pong);
    }
    assert_eq!((daemon.gate.arrived(), daemon.door().stats().in_flight), (4, 4));
    daemon.gate.open();
    let tags: HashSet<u64> = (0..10).map(|_| receive(&mut greedy).tag).collect();
    assert_eq!(tags.len(), 10);
}

#[test]
fn results_that_find_no_room_come_later_and_all_of_them() {
    let daemon = Daemon::with(|settings| settings.outbox_bytes_max = 4096);
    let mut client = daemon.client();
    let count = 20_000;
    for tag in 0..count {
        client
            .send(Kind::Submit, Flags::RESULT, tag, br#"{"handler":"echo","args":{"some":"words"}}"#)
            .unwrap();
    }
    let tags: HashSet<u64> = (0..count).map(|_| receive(&mut client).tag).collect();
    assert_eq!(tags.len() as u64, count);
}

#[test]
fn the_smallest_limits_make_things_slow_and_nothing_else() {
    let daemon = Daemon::with(|settings| {
        settings.in_flight_max = 0;
        settings.outbox_bytes_max = 0;
    });
    let mut client = daemon.client();
    for tag in 0..200 {
        let request = r#"{"handler":"count","args":{"n":3}}"#;
        client.send(Kind::Submit, Flags::STREAM, tag, request.as_bytes()).unwrap();
        client.send(Kind::Submit, Flags::RESULT, tag, request.as_bytes()).unwrap();
    }
    let kinds: Vec<_> = (0..1000).map(|_| receive(&mut client).kind).collect();
    let count = |wanted| kinds.iter().filter(|kind| **kind == wanted).count();
    assert_eq!((count(Kind::Event), count(Kind::Result)), (600, 400));
}

#[test]
fn large_results_pass_through_a_small_outbox() {
    let daemon = Daemon::with(|settings| settings.outbox_bytes_max = 64 * 1024);
    let mut client = daemon.client();
    let sizes = [10, 70_000, 1_000_000, 0, 65_536, 300_000];
    for (tag, size) in sizes.iter().cycle().take(60).enumerate() {
        let request = json!({"handler": "large", "args": {"n": size}}).to_string();
        client.send(Kind::Submit, Flags::RESULT, tag as u64, request.as_bytes()).unwrap();
    }
    let mut seen = HashSet::new();
    for _ in 0..60 {
        let answer = receive(&mut client);
        let text = answer.value["result"].as_str().unwrap();
        assert_eq!(text.len(), sizes[answer.tag as usize % sizes.len()]);
        assert!(seen.insert(answer.tag));
    }
}

#[test]
fn a_client_that_reads_late_gets_everything() {
    let daemon = Daemon::with(|settings| settings.outbox_bytes_max = 8192);
    let (mut sender, mut receiver) = daemon.client().split();
    let count = 30_000_u64;
    let writer = std::thread::spawn(move || {
        for tag in 0..count {
            sender.send(Kind::Ping, Flags::NONE, tag, br#"{"some":"words to fill the socket"}"#).unwrap();
        }
        sender.finish().unwrap();
    });
    eventually("the server is at work", || daemon.door().stats().frames_in > 1000);
    // What nobody reads fills its small outbox and the socket, and then it stops: far from the last.
    assert!(daemon.door().stats().frames_in < count / 2);
    for tag in 0..count {
        assert_eq!(receiver.receive().unwrap().tag, tag, "answers of the server itself keep their order");
    }
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    writer.join().unwrap();
}

#[test]
fn a_full_queue_is_an_answer_with_a_time_to_come_again() {
    let daemon = Daemon::with_config(|_| (), |config| config.tasks_max = 3);
    let mut client = daemon.client();
    for tag in 0..4 {
        client.send(Kind::Submit, Flags::RESULT, tag, br#"{"handler":"gated"}"#).unwrap();
    }
    let answer = receive(&mut client);
    assert_eq!((answer.kind, answer.tag, &answer.value["error"]), (Kind::Error, 3, &json!("queue-full")));
    assert!(answer.value["retry_after_ms"].as_u64().unwrap() > 0);
    daemon.gate.open();
    let kinds: Vec<_> = (0..3).map(|_| receive(&mut client).kind).collect();
    assert_eq!(kinds, [Kind::Result; 3]);
}
