//! Streams: every event once and in order, from any offset, and a slow reader holds back its own task alone.
//!
//! Where a test needs a reader that is waited for, it sets the patience of the stream so high that it never
//! ends.

use crate::start::{Answer, Daemon, ask, receive};
use millpond_local::{Client, Flags, Kind};
use serde_json::json;
use std::time::Duration;

/// Receives a stream under `tag` from `offset` on, to its end: how many events came, and the result.
fn read_stream(client: &mut Client, tag: u64, mut offset: u64) -> (u64, Answer) {
    let first = offset;
    loop {
        let answer = receive(client);
        assert_eq!(answer.tag, tag);
        if answer.kind == Kind::Result {
            return (offset - first, answer);
        }
        assert_eq!(answer.kind, Kind::Event);
        assert_eq!(answer.value, json!({"offset": offset, "attempt": 1, "partial": offset}));
        offset += 1;
    }
}

fn patient() -> Daemon {
    Daemon::with_config(
        |settings| settings.outbox_bytes_max = 64 * 1024,
        |config| config.stream.reader_wait = Duration::from_secs(3600),
    )
}

#[test]
fn a_stream_comes_in_order_and_then_its_result() {
    let daemon = patient();
    let mut client = daemon.client();
    client.send(Kind::Submit, Flags::STREAM, 7, br#"{"handler":"count","args":{"n":50000}}"#).unwrap();
    let (events, result) = read_stream(&mut client, 7, 0);
    assert_eq!((events, &result.value["result"]), (50_000, &json!(50_000)));
}

#[test]
fn many_streams_on_one_connection_share_it() {
    let daemon = patient();
    let mut client = daemon.client();
    for tag in 0..20 {
        client.send(Kind::Submit, Flags::STREAM, tag, br#"{"handler":"count","args":{"n":3000}}"#).unwrap();
    }
    let mut next = [0; 20];
    let mut ended = 0;
    while ended < next.len() {
        let answer = receive(&mut client);
        let next = &mut next[answer.tag as usize];
        if answer.kind == Kind::Result {
            assert_eq!(*next, 3000);
            ended += 1;
        } else {
            assert_eq!(answer.value["offset"], *next);
            *next += 1;
        }
    }
}

#[test]
fn a_reader_that_lost_its_connection_goes_on_where_it_stopped() {
    let daemon = patient();
    let mut client = daemon.client();
    let request = br#"{"handler":"count_gated","task_id":"long","args":{"n":400}}"#;
    client.send(Kind::Submit, Flags::STREAM, 1, request).unwrap();
    for offset in 0..150 {
        assert_eq!(receive(&mut client).value["offset"], offset);
    }
    drop(client);
    let mut client = daemon.client();
    client.send(Kind::Get, Flags::STREAM, 2, br#"{"task_id":"long","from":150}"#).unwrap();
    for offset in 150..400 {
        let answer = receive(&mut client);
        assert_eq!((answer.kind, &answer.value["offset"]), (Kind::Event, &json!(offset)));
    }
    daemon.gate.open();
    let result = receive(&mut client);
    assert_eq!((result.kind, &result.value["result"]), (Kind::Result, &json!(400)));

    // The reader it was submitted with has gone, so the outcome is kept, and its stream with it.
    let mut late = daemon.client();
    late.send(Kind::Get, Flags::STREAM, 3, br#"{"task_id":"long","from":390}"#).unwrap();
    assert_eq!(read_stream(&mut late, 3, 390).0, 10);
}

#[test]
fn a_slow_reader_holds_back_its_own_task_and_nobody_else() {
    let daemon = patient();
    let mut slow = daemon.client();
    let request = br#"{"handler":"count","task_id":"slow","args":{"n":200000}}"#;
    slow.send(Kind::Submit, Flags::STREAM, 1, request).unwrap();
    slow.flush().unwrap();

    // Another client's work is done while nobody reads the stream.
    let mut quick = daemon.client();
    for tag in 0..500 {
        let request = r#"{"handler":"echo","args":{"n":1}}"#;
        assert_eq!(ask(&mut quick, Kind::Submit, Flags::RESULT, tag, request).kind, Kind::Result);
    }
    quick.send(Kind::Submit, Flags::STREAM, 9, br#"{"handler":"count","args":{"n":20000}}"#).unwrap();
    assert_eq!(read_stream(&mut quick, 9, 0).0, 20_000);

    // 200 000 events fit neither into the stream nor into the outbox nor into the socket: it must be waiting.
    let status = ask(&mut quick, Kind::Get, Flags::NONE, 10, r#"{"task_id":"slow"}"#);
    assert_eq!((status.kind, &status.value["stage"]), (Kind::Status, &json!("running")));
    let (events, result) = read_stream(&mut slow, 1, 0);
    assert_eq!((events, &result.value["status"]), (200_000, &json!(0)), "and nothing is missing");
}

#[test]
fn a_stream_that_is_forgotten_lets_its_task_go_on() {
    let daemon = Daemon::with_config(|_| (), |config| config.stream.reader_wait = Duration::from_millis(1));
    let mut client = daemon.client();
    let request = br#"{"handler":"count","task_id":"left","args":{"n":200000}}"#;
    client.send(Kind::Submit, Flags::STREAM, 1, request).unwrap();
    assert_eq!(receive(&mut client).kind, Kind::Event);
    client.send(Kind::Forget, Flags::NONE, 2, br#"{"tag":1}"#).unwrap();
    while receive(&mut client).kind == Kind::Event {}
    client.send(Kind::Get, Flags::RESULT, 3, br#"{"task_id":"left"}"#).unwrap();
    let answer = receive(&mut client);
    assert_eq!((answer.kind, answer.tag, &answer.value["result"]), (Kind::Result, 3, &json!(200_000)));
}

#[test]
fn a_reader_of_a_short_stream_needs_no_further_word() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for tag in 0..500 {
        client.send(Kind::Submit, Flags::STREAM, tag, br#"{"handler":"count","args":{"n":1}}"#).unwrap();
        assert_eq!(receive(&mut client).value["partial"], 0);
        assert_eq!(receive(&mut client).kind, Kind::Result, "the end is told, however close it is");
    }
    assert_eq!(client.receive_timeout(Duration::ZERO).unwrap(), None);
}
