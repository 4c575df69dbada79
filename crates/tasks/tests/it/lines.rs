//! A stream of requests is cut at its line breaks, however the bytes arrive, and no bad line takes another
//! with it.
//!
//! The stream here hands out a few bytes at a time, fails, and says it has ended when it has not.

use millpond_tasks::{ErrorCode, Limits, Lines};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Gives one piece per read. `None` is an end that is not the last.
struct Pieces(VecDeque<Option<io::Result<Vec<u8>>>>);

impl Pieces {
    fn of(pieces: &[&str]) -> Self {
        Self(pieces.iter().map(|piece| Some(Ok(piece.as_bytes().to_vec()))).collect())
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.pop_front() {
            None | Some(None) => Ok(0),
            Some(Some(piece)) => piece.map(|piece| {
                buffer[..piece.len()].copy_from_slice(&piece);
                piece.len()
            }),
        }
    }
}

fn limits(request_bytes_max: u64) -> Limits {
    Limits { request_bytes_max, ..Limits::default() }
}

/// Number, end and text of every line; the message instead of a text that was refused.
fn all<R: BufRead>(lines: &mut Lines<R>) -> Vec<(u64, u64, String)> {
    let mut found = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        let text = match line.text {
            Ok(text) => String::from_utf8(text.to_vec()).unwrap(),
            Err(error) => error.to_string(),
        };
        found.push((line.number, line.end, text));
    }
    found
}

#[test]
fn lines_are_the_same_however_the_bytes_arrive() {
    let text = "{\"a\":1}\n\n  \r\n{\"b\":2}\r\nlast";
    let expected = [(1, 8, "{\"a\":1}".to_owned()), (4, 22, "{\"b\":2}\r".to_owned())];
    for size in 1..=text.len() {
        let pieces: Vec<_> =
            text.as_bytes().chunks(size).map(|piece| str::from_utf8(piece).unwrap()).collect();
        let mut lines = Lines::new(BufReader::new(Pieces::of(&pieces)), Limits::default());
        assert_eq!(all(&mut lines), expected, "{size} bytes at a time");
        assert_eq!(lines.partial(), b"last");
        assert_eq!(lines.finish().unwrap().text.unwrap(), b"last");
        assert!(lines.finish().is_none(), "the last line is given once");
        assert_eq!(lines.partial(), b"");
    }
}

#[test]
fn a_partial_line_waits_for_its_end() {
    let mut stream = Pieces::of(&["{\"op", "code\"", ": 7}\n{"]);
    stream.0.insert(1, None);
    stream.0.insert(3, None);
    let mut lines = Lines::new(BufReader::new(stream), Limits::default());
    assert!(lines.next_line().unwrap().is_none());
    assert_eq!(lines.partial(), b"{\"op");
    assert!(lines.next_line().unwrap().is_none());
    assert_eq!(lines.partial(), b"{\"opcode\"");
    let line = lines.next_line().unwrap().unwrap();
    assert_eq!((line.number, line.end), (1, 14));
    assert_eq!(line.parse().unwrap().to_json(), "{\"opcode\":7}");
    assert!(lines.next_line().unwrap().is_none());
    assert_eq!(lines.partial(), b"{");
}

#[test]
fn an_error_of_the_stream_loses_nothing() {
    let mut stream = Pieces::of(&["{\"opcode\"", ":1}\n"]);
    stream.0.insert(1, Some(Err(ErrorKind::Interrupted.into())));
    stream.0.insert(2, Some(Err(ErrorKind::WouldBlock.into())));
    let mut lines = Lines::new(BufReader::new(stream), Limits::default());
    assert_eq!(lines.next_line().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(lines.next_line().unwrap().unwrap().text.unwrap(), b"{\"opcode\":1}");
}

#[test]
fn a_line_that_is_too_long_is_refused_with_its_id_and_the_next_one_is_read() {
    let long = format!("{{\"task_id\":17,\"args\":\"{}\"}}", "x".repeat(100));
    let text = format!("{{}}\n{long}\n{}\n{}\n[]\n", "y".repeat(64), "z".repeat(65));
    for capacity in [1, 7, 1000] {
        let stream = BufReader::with_capacity(capacity, text.as_bytes());
        let mut lines = Lines::new(stream, limits(64));
        let texts: Vec<_> = all(&mut lines).into_iter().map(|(number, _, text)| (number, text)).collect();
        let refused = "expected a request of at most 64 bytes, got more";
        assert_eq!(
            texts,
            [
                (1, "{}".to_owned()),
                (2, format!("task 17: {refused} (line 2, column 65)")),
                (3, "y".repeat(64)),
                (4, format!("{refused} (line 4, column 65)")),
                (5, "[]".to_owned()),
            ]
        );
        assert!(lines.finish().is_none());
    }
}

#[test]
fn a_long_line_without_an_end_is_not_stored() {
    let stream = BufReader::new(io::repeat(b'x').take(10_000_000));
    let mut lines = Lines::new(stream, limits(1000));
    assert!(lines.next_line().unwrap().is_none());
    assert_eq!(lines.partial().len(), 1000);
    assert_eq!(lines.finish().unwrap().text.unwrap_err().code, ErrorCode::TooLarge);
}

#[test]
fn a_batch_ends_at_its_limit_and_says_so_once() {
    let text = "{}\n\n{}\n{\"task_id\":3}\n{}\n";
    let limits = Limits { batch_lines_max: 2, ..Limits::default() };
    let mut lines = Lines::new(text.as_bytes(), limits);
    let refused =
        "task 3: expected a batch of at most 2 lines, got more; this line and the rest were not read";
    let found: Vec<_> = all(&mut lines).into_iter().map(|(number, _, text)| (number, text)).collect();
    let expected = [(1, "{}".to_owned()), (3, "{}".to_owned()), (4, format!("{refused} (line 4, column 1)"))];
    assert_eq!(found, expected);
    assert!(lines.next_line().unwrap().is_none());
    assert!(lines.finish().is_none());
}

#[test]
fn an_error_in_a_line_names_the_line_of_the_stream() {
    let mut lines = Lines::new(&b"\n\n{\"opcode\":0,\"task_id\":9}\n"[..], Limits::default());
    let error = lines.next_line().unwrap().unwrap().parse().unwrap_err();
    assert_eq!(
        error.to_string(),
        "task 9: opcode: expected a whole number from 1 to 4294967295, got the number 0 (line 3, column 11)"
    );
}
