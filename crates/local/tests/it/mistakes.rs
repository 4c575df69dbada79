//! What is wrong is refused with what was expected and what came, and the connection lives where it can.
//!
//! Messages are held to the letter: they are what the author of a client has to go by.

use crate::start::{Answer, Daemon, PATIENCE, ask, receive};
use millpond_local::frame::{HEADER_BYTES, Header};
use millpond_local::{Client, Flags, Kind};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Sends bytes as they are, over a client's connection.
fn send_raw(stream: &mut UnixStream, header: Header, payload: &[u8]) {
    stream.write_all(&header.to_bytes()).unwrap();
    stream.write_all(payload).unwrap();
}

fn read_frame(stream: &mut UnixStream) -> Answer {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = Header::from_bytes(&header);
    let mut payload = vec![0; header.payload_bytes as usize];
    stream.read_exact(&mut payload).unwrap();
    let kind = Kind::from_number(header.kind).unwrap();
    Answer { kind, tag: header.tag, value: serde_json::from_slice(&payload).unwrap() }
}

fn raw_connection(daemon: &Daemon) -> UnixStream {
    let mut stream = UnixStream::connect(daemon.door().path()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(read_frame(&mut stream).kind, Kind::Hello);
    stream
}

fn header(kind: u8, flags: u8, reserved: u16, payload: &[u8]) -> Header {
    let flags = Flags::from_number(flags);
    Header { payload_bytes: payload.len() as u32, kind, flags, reserved, tag: 77 }
}

fn assert_alive(client: &mut Client) {
    assert_eq!(ask(client, Kind::Ping, Flags::NONE, 1, "{}").kind, Kind::Pong);
}

#[test]
fn a_header_that_is_not_ours_is_refused_and_the_next_frame_is_found() {
    let daemon = Daemon::start();
    let mut stream = raw_connection(&daemon);
    for (kind, flags, reserved, message) in [
        (0, 0, 0, "kind: expected one of a client's, 1 to 9, got 0"),
        (10, 0, 0, "kind: expected one of a client's, 1 to 9, got 10"),
        (68, 0, 0, "kind: expected one of a client's, 1 to 9, got 68"),
        (6, 0, 0x100, "PING: expected 0 in bytes 6 and 7 of the header, got 0x0100"),
        (6, 1, 0, "PING: flags: expected none, got 0x01"),
        (2, 4, 0, "GET: flags: expected RESULT (1) and STREAM (2), got 0x04"),
        (1, 0x11, 0, "SUBMIT: flags: expected RESULT (1), STREAM (2), KEEP (4) and ACK (8), got 0x11"),
    ] {
        send_raw(&mut stream, header(kind, flags, reserved, b"{\"any\":1}"), b"{\"any\":1}");
        let answer = read_frame(&mut stream);
        assert_eq!((answer.kind, answer.tag), (Kind::Error, 77));
        let expected = json!({"task_id": null, "status": -2, "error": "invalid-request", "message": message});
        assert_eq!(answer.value, expected);
    }
    send_raw(&mut stream, header(6, 0, 0, b"1"), b"1");
    assert_eq!(read_frame(&mut stream).kind, Kind::Pong);
}

#[test]
fn a_payload_that_does_not_fit_its_kind_is_refused_with_the_place() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for (kind, flags, payload, message, place) in [
        (
            Kind::Get,
            Flags::NONE,
            r#"{"task":1}"#,
            "GET: expected {\"task_id\": ..., \"from\": ...}: unknown field `task`, expected `task_id` or \
             `from`",
            Some((1, 7)),
        ),
        (
            Kind::Get,
            Flags::NONE,
            "\n [17,null]",
            r#"GET: expected {"task_id": ..., "from": ...}: got an array"#,
            Some((2, 2)),
        ),
        (
            Kind::Get,
            Flags::RESULT,
            r#"{"task_id":1,"from":2}"#,
            "GET: from: expected only with the flag STREAM (2)",
            None,
        ),
        (
            Kind::Cancel,
            Flags::NONE,
            r#"{"task_id":-1}"#,
            "CANCEL: expected {\"task_id\": ...}: task_id: expected a whole number from 0, or a string of 1 \
             to 128 bytes",
            Some((1, 14)),
        ),
        (
            Kind::List,
            Flags::NONE,
            r#"{"stage":"done"}"#,
            "LIST: stage: expected one of delayed, queued, running, retrying, ended, got \"done\"",
            None,
        ),
        (Kind::List, Flags::NONE, r#"{"max":10001}"#, "LIST: max: expected 0 to 10000, got 10001", None),
        (
            Kind::Stats,
            Flags::NONE,
            r#"{"a":1}"#,
            "STATS: expected {}: unknown field `a`, there are no fields",
            Some((1, 4)),
        ),
        (
            Kind::Forget,
            Flags::NONE,
            "{}",
            r#"FORGET: expected {"tag": ...}: missing field `tag`"#,
            Some((1, 2)),
        ),
    ] {
        let answer = ask(&mut client, kind, flags, 5, payload);
        assert_eq!((answer.kind, answer.tag), (Kind::Error, 5), "{payload}");
        assert_eq!((&answer.value["status"], &answer.value["message"]), (&json!(-2), &json!(message)));
        let place = place.map(|(line, column)| (json!(line), json!(column))).unwrap_or_default();
        assert_eq!((answer.value["line"].clone(), answer.value["column"].clone()), place, "{payload}");
    }
    assert_alive(&mut client);
}

#[test]
fn what_a_client_wrote_is_repeated_in_few_and_harmless_characters() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let answer = ask(&mut client, Kind::Get, Flags::NONE, 5, "{\"task\u{7f}\":1}");
    let message = answer.value["message"].as_str().unwrap();
    assert!(message.contains("unknown field `task\\u{7f}`"), "{message}");
    let answer =
        ask(&mut client, Kind::List, Flags::NONE, 5, &json!({"stage": "\u{1b}[2J".repeat(9000)}).to_string());
    let message = answer.value["message"].as_str().unwrap();
    assert!(message.ends_with('"') && message.len() < 1000 && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn a_request_that_is_refused_says_where_and_names_its_task() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let answer = ask(&mut client, Kind::Submit, Flags::RESULT, 3, r#"{"task_id":17,"handlr":"echo"}"#);
    assert_eq!((answer.kind, answer.tag), (Kind::Error, 3));
    assert_eq!((&answer.value["task_id"], &answer.value["line"]), (&json!(17), &json!(1)));
    let answer = ask(&mut client, Kind::Submit, Flags::STREAM, 4, r#"{"handler":"ecko"}"#);
    assert_eq!(answer.value["error"], "unknown-handler");
    assert_eq!(daemon.door().stats().in_flight, 0);
    assert_alive(&mut client);
}

#[test]
fn what_is_too_large_is_stepped_over() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let bytes_max = client.hello().frame_bytes_max as usize;
    client.send(Kind::Submit, Flags::RESULT, 1, &vec![b' '; bytes_max + 1]).unwrap();
    client.send(Kind::Ping, Flags::NONE, 2, &vec![b'1'; bytes_max]).unwrap();
    let answer = receive(&mut client);
    assert_eq!((answer.kind, answer.tag, &answer.value["status"]), (Kind::Error, 1, &json!(-110)));
    let message =
        "expected a payload of at most 1048576 bytes, got 1048577; send less, or raise request.bytes_max";
    assert_eq!(answer.value["message"], message);
    let frame = client.receive().unwrap();
    assert_eq!((frame.kind, frame.payload.len()), (Kind::Pong, bytes_max));
}

#[test]
fn another_protocol_is_told_so_and_left() {
    let daemon = Daemon::start();
    let mut stream = raw_connection(&daemon);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = read_frame(&mut stream);
    assert_eq!(answer.kind, Kind::Error);
    let message = answer.value["message"].as_str().unwrap();
    assert!(message.ends_with("got 47; is this the millpond protocol?"), "{message}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
    assert_alive(&mut daemon.client());
}
