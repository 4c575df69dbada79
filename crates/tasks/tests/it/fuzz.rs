//! Whatever bytes arrive, a request is read or refused: no panic, nothing above the limits, no place outside
//! the text.
//!
//! Texts are valid requests (`tests/corpus/requests`) with random changes, tokens in random order, and plain
//! noise. `MILLPOND_FUZZ_CASES` says how many (a small number otherwise), `MILLPOND_SEED` repeats a run; both
//! are printed.

use millpond_tasks::{Limits, Lines, Position, Request};
use std::env;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

const QUICK: u64 = 20_000;
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\"task_id\"",
    "\"handler\"",
    "\"opcode\"",
    "\"args\"",
    "\"echo\"",
    "1",
    "-0",
    "1e999",
    "18446744073709551616",
    "null",
    "true",
    "NaN",
    "\\u0000",
    "\\ud800",
    "\u{FEFF}",
    "ü",
    "\n",
    "\r\n",
    " ",
    "\0",
    "\"a\":1,",
    "\"priority\":\"high\"",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
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

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
}

/// Requests that are known to be read.
fn corpus() -> Vec<Vec<u8>> {
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/requests")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    // In the same order on every machine, or a seed would mean another run.
    paths.sort();
    let corpus: Vec<_> = paths.into_iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(corpus.len() >= 5, "the corpus is there");
    corpus.iter().for_each(|text| assert!(hold(text, &Limits::default())));
    corpus
}

fn noise(dice: &mut Dice) -> Vec<u8> {
    (0..dice.below(200)).map(|_| dice.next() as u8).collect()
}

fn salad(dice: &mut Dice) -> Vec<u8> {
    (0..dice.below(30)).flat_map(|_| dice.one_of(TOKENS).bytes()).collect()
}

fn mutated(dice: &mut Dice, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut text = corpus[dice.below(corpus.len())].clone();
    for _ in 0..dice.below(4) {
        let from = dice.below(text.len());
        let to = (from + dice.below(12)).min(text.len());
        match dice.below(5) {
            0 => drop(text.drain(from..to)),
            1 => drop(text.splice(from..from, dice.one_of(TOKENS).bytes())),
            2 => drop(text.splice(from..to, dice.one_of(TOKENS).bytes())),
            3 => text.extend_from_within(from..to),
            _ => text.iter_mut().skip(from).take(1).for_each(|byte| *byte ^= 1 << (dice.next() % 8)),
        }
    }
    text
}

/// Now and then so small that ordinary requests meet every limit.
fn limits(dice: &mut Dice) -> Limits {
    let mut limits = Limits::default();
    if dice.below(3) == 0 {
        limits.request_bytes_max = 64 + dice.below(60) as u64;
        limits.depth_max = 2 + dice.below(8) as u64;
        limits.string_bytes_max = 1 + dice.below(60) as u64;
        limits.args_bytes_max = 2 + dice.below(60) as u64;
    }
    limits.check().unwrap();
    limits
}

fn depth(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn string_bytes(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(list) => list.iter().map(string_bytes).max().unwrap_or(0),
        serde_json::Value::Object(map) => {
            map.iter().map(|(key, value)| key.len().max(string_bytes(value))).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Whether the text was accepted.
fn hold(text: &[u8], limits: &Limits) -> bool {
    match Request::parse(text, limits) {
        Ok(request) => {
            assert!(text.len() as u64 <= limits.request_bytes_max);
            let tree: serde_json::Value = serde_json::from_slice(text).expect("only JSON is accepted");
            assert!(depth(&tree) <= limits.depth_max);
            // An escape is never shorter than what it stands for.
            assert!(string_bytes(&tree) as u64 <= limits.string_bytes_max);
            assert!(request.args.get().len() as u64 <= limits.args_bytes_max.max(2));
            assert!(!request.args.get().contains(['\n', '\r']));
            let printed = request.to_json();
            let again =
                Request::parse(printed.as_bytes(), &Limits::default()).expect("what is printed is read");
            assert_eq!(again.to_json(), printed);
            assert_eq!(
                (again.id, again.target, again.priority),
                (request.id, request.target, request.priority)
            );
            true
        }
        Err(error) => {
            let end = Position::of(text, text.len());
            assert!(error.position.line >= 1 && error.position.column >= 1);
            assert!(error.position.line <= end.line, "{error}");
            let line = text.split(|byte| *byte == b'\n').nth(error.position.line as usize - 1).unwrap();
            assert!(error.position.column <= line.len() as u64 + 1, "{error}");
            assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
            assert!(error.to_string().len() < 2000, "{error}");
            false
        }
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number_from("MILLPOND_SEED").unwrap_or(clock);
    let count = number_from("MILLPOND_FUZZ_CASES").unwrap_or(QUICK);
    println!("MILLPOND_SEED={seed} MILLPOND_FUZZ_CASES={count}");
    let corpus = corpus();
    let mut dice = Dice(seed);
    let mut accepted = 0_u64;
    for round in 0..count {
        let text = match dice.below(8) {
            0 => noise(&mut dice),
            1 | 2 => salad(&mut dice),
            _ => mutated(&mut dice, &corpus),
        };
        let limits = limits(&mut dice);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let held = std::panic::catch_unwind(|| hold(&text, &limits));
        accepted += u64::from(held.unwrap_or_else(|_| panic!("seed {seed}, round {round}: {shown:?}")));
        lines_hold(&text, &limits);
    }
    println!("{accepted} of {count} accepted");
    assert!(accepted * 50 > count && accepted < count, "the texts are all of one kind");
}

/// Cut into lines or not, the same lines are blank, too long, or there.
fn lines_hold(text: &[u8], limits: &Limits) {
    let mut lines = Lines::new(text, limits.clone());
    let mut whole = text.split(|byte| *byte == b'\n').collect::<Vec<_>>();
    let last = whole.pop().unwrap_or_default();
    let kept = |line: &[u8]| {
        let long = line.len() as u64 > limits.request_bytes_max;
        (!line.iter().all(|byte| b" \t\r\n".contains(byte)) || long).then_some(!long)
    };
    for (index, line) in whole.into_iter().enumerate() {
        if let Some(fits) = kept(line) {
            let found = lines.next_line().unwrap().unwrap();
            assert_eq!((found.number, found.text.ok()), (index as u64 + 1, fits.then_some(line)));
        }
    }
    assert!(lines.next_line().unwrap().is_none());
    assert_eq!(lines.finish().map(|line| line.text.ok()), kept(last).map(|fits| fits.then_some(last)));
}
