//! `docs/PROTOCOL.md` says enough to write a client from, and says what is so.
//!
//! A Python program written from the page alone talks to the door; the tables and the bytes on the page are
//! held against the code.

use crate::start::{Daemon, PATIENCE};
use millpond_local::frame::{HEADER_BYTES, Header};
use millpond_local::{Flags, Kind};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/PROTOCOL.md");

#[test]
fn a_python_client_written_from_the_page_submits_streams_and_cancels() {
    let daemon = Daemon::start();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/client.py");
    let output =
        Command::new("python3").arg(program).arg(daemon.door().path()).output().expect("python3 runs");
    daemon.gate.open();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = "submitted 100\nevent 0 0\nevent 1 1\nevent 2 2\nevent 3 3\nevent 4 4\nstreamed 5\n\
                 cancelled -101 cancelled\nrefused True invalid-request 1 2\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines);
}

/// The cells of the rows whose first one is a number.
fn rows() -> impl Iterator<Item = (u8, Vec<&'static str>)> {
    PAGE.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        Some((cells.first()?.parse().ok()?, cells))
    })
}

#[test]
fn every_kind_and_every_flag_is_on_the_page_under_its_number() {
    for kind in Kind::ALL {
        let named =
            rows().filter(|(number, cells)| *number == kind.number() && cells[1] == kind.name()).count();
        assert_eq!(named, 1, "{kind}");
    }
    let flags =
        [("RESULT", Flags::RESULT), ("STREAM", Flags::STREAM), ("KEEP", Flags::KEEP), ("ACK", Flags::ACK)];
    for (name, flag) in flags {
        assert!(rows().any(|(number, cells)| number == flag.number() && cells[1] == name), "{name}");
    }
    let numbers: Vec<_> = rows().map(|(number, _)| number).filter(|number| *number > 9).collect();
    assert!(numbers.iter().all(|number| Kind::from_number(*number).is_some()), "{numbers:?}");
}

#[test]
fn the_bytes_on_the_page_are_a_request_and_get_the_answer_that_stands_there() {
    let mut examples = PAGE.lines().filter(|line| line.contains("00 00 00  "));
    let request = examples.next().expect("a request stands on the page");
    let (hexadecimal, payload) = request.split_at(request.find('{').expect("with its payload"));
    let byte = |digits| u8::from_str_radix(digits, 16).expect("two hexadecimal digits");
    let mut bytes: Vec<u8> = hexadecimal.split_whitespace().map(byte).collect();
    assert_eq!(bytes.len(), HEADER_BYTES);
    bytes.extend_from_slice(payload.as_bytes());

    let daemon = Daemon::start();
    let mut stream = UnixStream::connect(daemon.door().path()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; Header::from_bytes(&header).payload_bytes as usize];
        stream.read_exact(&mut payload).unwrap();
        answers.push((header, String::from_utf8(payload).unwrap()));
    }
    let (header, payload) = &answers[1];
    let answer = examples.next().expect("an answer stands on the page");
    let (hexadecimal, beginning) = answer.split_at(answer.find('{').expect("with its payload"));
    let expected: Vec<u8> = hexadecimal.split_whitespace().map(byte).collect();
    assert_eq!(header[4..], expected[4..], "all but the length, which depends on the times");
    let beginning = beginning.trim_end_matches('…');
    assert!(payload.starts_with(beginning), "{payload}");
    let fields: Value = serde_json::from_str(payload).unwrap();
    assert!(
        ["task_id", "status", "result", "attempts", "waited_us", "ran_us"]
            .iter()
            .all(|name| !fields[name].is_null())
    );
}
