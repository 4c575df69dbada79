//! Whatever bytes a client sends, every frame in them is answered once, and the daemon lives.
//!
//! Streams are those of the corpus (`tests/corpus/control`) with random changes, frames put together at
//! random, and plain noise. Each goes over a connection of its own, in random pieces, and its answers are
//! held against a second, simple reading of the same bytes. `MILLPOND_FUZZ_CASES` says how many (a small
//! number otherwise), `MILLPOND_SEED` repeats a run; both are printed.

use crate::start::{Daemon, PATIENCE, ask};
use millpond_local::frame::{Cut, Cutter, HEADER_BYTES, Header};
use millpond_local::{Flags, Kind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const QUICK: u64 = 1500;
/// The largest payload here, so that ordinary frames meet the limit.
const PAYLOAD_BYTES_MAX: u64 = 4096;
const PAYLOADS: &[&str] = &[
    "",
    "{}",
    "null",
    r#"{"handler":"echo","args":{"a":[1,{"b":null}]}}"#,
    r#"{"handler":"count","args":{"n":2}}"#,
    r#"{"handler":"count","args":{"n":"x"}}"#,
    r#"{"handler":"echo","task_id":7,"delay_ms":1}"#,
    r#"{"handler":"echo","idempotency_key":"k"}"#,
    r#"{"task_id":7}"#,
    r#"{"task_id":"t1","from":1}"#,
    r#"{"tag":3}"#,
    r#"{"stage":"ended","max":2}"#,
    "{\"task_id\":\"\u{1F600}\"}",
];

/// SplitMix64: small, and good enough to choose bytes.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/control");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn noise(dice: &mut Dice) -> Vec<u8> {
    (0..dice.below(300)).map(|_| dice.next() as u8).collect()
}

/// Frames that are mostly right.
fn frames(dice: &mut Dice) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..dice.below(12) {
        let mut payload = PAYLOADS[dice.below(PAYLOADS.len())].as_bytes().to_vec();
        if dice.below(20) == 0 {
            payload.resize(dice.below(2 * PAYLOAD_BYTES_MAX as usize), b' ');
        }
        let lie =
            if dice.below(30) == 0 { dice.next() as u32 >> dice.below(32) } else { payload.len() as u32 };
        let header = Header {
            payload_bytes: lie,
            kind: if dice.below(20) == 0 { dice.next() as u8 } else { 1 + dice.below(8) as u8 },
            flags: Flags::from_number(if dice.below(3) == 0 {
                dice.below(16) as u8
            } else {
                dice.below(3) as u8
            }),
            reserved: if dice.below(30) == 0 { dice.next() as u16 } else { 0 },
            tag: dice.below(5) as u64,
        };
        stream.extend_from_slice(&header.to_bytes());
        stream.extend_from_slice(&payload);
    }
    stream
}

fn mutated(dice: &mut Dice, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = corpus[dice.below(corpus.len())].clone();
    for _ in 0..dice.below(5) {
        let from = dice.below(stream.len());
        let to = (from + dice.below(40)).min(stream.len());
        match dice.below(6) {
            0 => drop(stream.drain(from..to)),
            1 => stream.extend_from_within(from..to),
            2 => stream.truncate(to),
            3 => stream.extend_from_slice(&corpus[dice.below(corpus.len())]),
            _ => stream.iter_mut().skip(from).take(1).for_each(|byte| *byte ^= 1 << (dice.next() % 8)),
        }
    }
    stream
}

/// How many frames of each tag are in a stream, and whether every one of them gets its last answer.
struct Reading {
    tags: BTreeMap<u64, usize>,
    is_exact: bool,
}

/// The stream as the page describes it, read in the simplest way.
fn read_plainly(mut stream: &[u8]) -> Reading {
    let mut reading = Reading { tags: BTreeMap::new(), is_exact: true };
    while let Some((header, rest)) = stream.split_first_chunk::<HEADER_BYTES>() {
        let header = Header::from_bytes(header);
        let bytes = header.payload_bytes as usize;
        let is_too_large = bytes as u64 > PAYLOAD_BYTES_MAX;
        if rest.len() < bytes && !is_too_large {
            break;
        }
        *reading.tags.entry(header.tag).or_default() += 1;
        // What is forgotten is not answered.
        reading.is_exact &= header.kind != Kind::Forget.number();
        let allowed = match header.kind {
            1 => 15,
            2 => 3,
            _ => 0,
        };
        let is_wrong =
            !(1..=8).contains(&header.kind) || header.reserved != 0 || header.flags.number() & !allowed != 0;
        if is_too_large && is_wrong {
            break;
        }
        stream = &rest[bytes.min(rest.len())..];
    }
    reading
}

/// Sends a stream in pieces, and reads the answers to the end of the connection.
fn exchange(path: &Path, stream: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = stream;
    while !rest.is_empty() {
        let piece = if dice.below(4) == 0 { 1 + dice.below(30) } else { rest.len() };
        let (now, later) = rest.split_at(piece.min(rest.len()));
        rest = later;
        match socket.write_all(now) {
            Ok(()) => {}
            // It has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => panic!("{error}"),
        }
    }
    let _ = socket.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match socket.read_to_end(&mut answers) {
        Ok(_) => {}
        // It was closed with some of our bytes unread.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the answers do not end: {error}"),
    }
    answers
}

/// Holds the answers against the stream. Whether anything in it was done.
fn hold(stream: &[u8], answers: &[u8]) -> bool {
    let mut cutter = Cutter::new(1 << 30);
    let mut rest = answers;
    let mut last = BTreeMap::<u64, usize>::new();
    let mut acknowledged = BTreeMap::<u64, usize>::new();
    let (mut count, mut done) = (0, false);
    while !rest.is_empty() {
        cutter.fill(|room| rest.read(room)).unwrap();
        while let Cut::Whole(header, payload) = cutter.cut() {
            let kind = Kind::from_number(header.kind)
                .filter(|kind| !kind.is_from_client())
                .expect("a server's kind");
            assert_eq!((header.reserved, header.flags), (0, Flags::NONE));
            assert_eq!(kind == Kind::Hello, count == 0, "HELLO comes first, and only then");
            count += 1;
            if kind != Kind::Pong {
                let value: Value = serde_json::from_slice(payload).expect("payloads are JSON");
                hold_error(kind, &value);
            }
            match kind {
                Kind::Hello | Kind::Event => {}
                Kind::Accepted => *acknowledged.entry(header.tag).or_default() += 1,
                _ => *last.entry(header.tag).or_default() += 1,
            }
            done |= !matches!(kind, Kind::Hello | Kind::Error);
        }
    }
    assert!(cutter.is_between_frames(), "the answers end with a whole frame");
    let reading = read_plainly(stream);
    for (tag, answers) in &last {
        assert!(answers <= reading.tags.get(tag).unwrap_or(&0), "an answer nobody asked for: tag {tag}");
    }
    if reading.is_exact {
        for (tag, frames) in &reading.tags {
            let answers = last.get(tag).unwrap_or(&0) + acknowledged.get(tag).unwrap_or(&0);
            assert!(answers >= *frames, "tag {tag}: {frames} frames, {answers} answers");
        }
    }
    done
}

fn hold_error(kind: Kind, value: &Value) {
    if kind != Kind::Error {
        return;
    }
    assert!(value["status"].as_i64().unwrap() < 0);
    let message = value["message"].as_str().unwrap();
    assert!(
        !message.is_empty() && message.len() < 2000 && !message.chars().any(char::is_control),
        "{message:?}"
    );
}

#[test]
fn any_bytes_are_answered_or_refused() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number_from("MILLPOND_SEED").unwrap_or(clock);
    let count = number_from("MILLPOND_FUZZ_CASES").unwrap_or(QUICK);
    println!("MILLPOND_SEED={seed} MILLPOND_FUZZ_CASES={count}");
    let daemon = Daemon::with_config(
        |_| (),
        |config| {
            config.request.request_bytes_max = PAYLOAD_BYTES_MAX;
            config.request.delay_ms_max = 5;
            // So that outcomes also go missing.
            config.results.max = 100;
        },
    );
    let path = daemon.door().path();
    let corpus = corpus();
    let mut dice = Dice(seed);
    let mut done = 0_u64;
    for round in 0..count {
        let stream = match dice.below(10) {
            _ if round < corpus.len() as u64 => corpus[round as usize].clone(),
            0 => noise(&mut dice),
            1..=4 => frames(&mut dice),
            _ => mutated(&mut dice, &corpus),
        };
        let answers = exchange(path, &stream, &mut dice);
        let held = std::panic::catch_unwind(|| hold(&stream, &answers));
        done += u64::from(held.unwrap_or_else(|_| {
            panic!("seed {seed}, round {round}: {:?}", stream.escape_ascii().to_string())
        }));
    }
    println!("{done} of {count} had something done");
    assert!(done * 10 > count && done < count, "the streams are all of one kind");
    assert_eq!(ask(&mut daemon.client(), Kind::Ping, Flags::NONE, 1, "{}").kind, Kind::Pong);
    assert_eq!(daemon.door().stats().in_flight, 0);
}
