//! Redis lists as a queue of tasks: the least that a job library over Redis does if it loses no task.
//!
//! The producer pushes tasks to a list. A worker moves a task to a list of those in work before it runs it,
//! so that a task is not lost with its worker, and afterwards pushes the result and removes the task there.
//! The libraries that people use do this and more, with scripts. Commands are sent by the batch and answered
//! in order; only the first move of a batch waits. Redis keeps everything in memory here and writes nothing
//! to a disk.
//!
//! Not here: where the program comes from (`debian.rs`).

use super::{Appetite, Crew, Producer, Started, WORKERS, unexpected};
use crate::daemon::{Daemon, PrivateFolder};
use crate::debian::{self, Program};
use crate::wire::Wire;
use std::io::{self, Write};
use std::mem;
use std::sync::OnceLock;

/// How many results the producer takes at once; as many as can be under way.
const RESULTS_MAX: &[u8] = b"64";

/// Pushes tasks, and takes results as soon as there are some.
pub(crate) struct Pusher {
    wire: Wire,
    tasks: Words,
}

/// The program, if it can be had.
pub(crate) fn program() -> Result<Program, String> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| debian::program("redis-server", "--version", "redis-server")).clone()
}

pub(crate) fn start() -> Result<Started<Pusher>, String> {
    let folder = PrivateFolder::new()?;
    let socket = folder.path().join("socket");
    let mut command = program()?.command();
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    let mut daemon = Daemon::start(command, folder)?;
    let wire = daemon.connect(|| Wire::unix(&socket))?;
    let workers: Vec<_> =
        (0..WORKERS).map(|_| daemon.connect(|| Wire::unix(&socket))).collect::<Result<_, _>>()?;
    let mut crew = Crew::new(Some(daemon));
    for worker in workers {
        crew.add(worker, work).map_err(|error| error.to_string())?;
    }
    Ok(Started { producer: Pusher { wire, tasks: Words::default() }, crew })
}

impl Producer for Pusher {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        self.tasks.add(task)
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let pushes = self.tasks.push_to(b"tasks", self.wire.outgoing())?;
        // Zero is no limit of time.
        command(self.wire.outgoing(), &[b"BLMPOP", b"0", b"1", b"results", b"RIGHT", b"COUNT", RESULTS_MAX])?;
        self.wire.flush()?;
        skip_numbers(&mut self.wire, pushes)?;
        // An array of two: the list's name, and an array of what was taken from it.
        array(&mut self.wire)?;
        text(&mut self.wire, |_name| Ok(()))?;
        let results = array(&mut self.wire)?;
        (0..results).try_for_each(|_| text(&mut self.wire, &mut *landed))
    }
}

/// Moves tasks to its own list, runs them, and removes them, until the connection ends.
fn work(mut wire: Wire) -> io::Result<()> {
    let (mut results, mut removals, mut appetite) = (Words::default(), Vec::new(), Appetite::new());
    loop {
        let numbers = results.count + results.push_to(b"results", wire.outgoing())?;
        wire.outgoing().append(&mut removals);
        command(wire.outgoing(), &[b"BLMOVE", b"tasks", b"running", b"RIGHT", b"LEFT", b"0"])?;
        for _ in 1..appetite.jobs() {
            command(wire.outgoing(), &[b"LMOVE", b"tasks", b"running", b"RIGHT", b"LEFT"])?;
        }
        wire.flush()?;
        skip_numbers(&mut wire, numbers)?;
        for _ in 0..appetite.jobs() {
            next(&mut wire, |reply| match reply {
                Reply::Text(task) => {
                    results.add(task)?;
                    // From the end where the oldest are, which are the first to be done.
                    command(&mut removals, &[b"LREM", b"running", b"-1", task])
                }
                Reply::Nothing => Ok(()),
                other => Err(other.unexpected("a task or nothing")),
            })?;
        }
        appetite.learn(results.count);
    }
}

/// Values that are pushed to a list by one command.
#[derive(Default)]
struct Words {
    count: usize,
    encoded: Vec<u8>,
}

impl Words {
    fn add(&mut self, word: &[u8]) -> io::Result<()> {
        self.count += 1;
        encode(&mut self.encoded, word)
    }

    /// Writes the command, if there is something to push, and says how many answers it will have.
    fn push_to(&mut self, list: &[u8], outgoing: &mut Vec<u8>) -> io::Result<usize> {
        if self.count == 0 {
            return Ok(0);
        }
        write!(outgoing, "*{}\r\n", 2 + mem::take(&mut self.count))?;
        encode(outgoing, b"LPUSH")?;
        encode(outgoing, list)?;
        outgoing.append(&mut self.encoded);
        Ok(1)
    }
}

fn command(outgoing: &mut Vec<u8>, words: &[&[u8]]) -> io::Result<()> {
    write!(outgoing, "*{}\r\n", words.len())?;
    words.iter().try_for_each(|word| encode(outgoing, word))
}

fn encode(outgoing: &mut Vec<u8>, word: &[u8]) -> io::Result<()> {
    write!(outgoing, "${}\r\n", word.len())?;
    outgoing.extend_from_slice(word);
    outgoing.extend_from_slice(b"\r\n");
    Ok(())
}

/// What the server says; of an array the head alone, its values follow as replies.
#[derive(Debug, PartialEq)]
enum Reply<'a> {
    Number(i64),
    Text(&'a [u8]),
    Array(usize),
    Nothing,
    Other(&'a [u8]),
}

impl Reply<'_> {
    fn unexpected(self, expected: &str) -> io::Error {
        unexpected(expected, format!("{self:?}").as_bytes())
    }
}

/// Reads so many numbers, which say how long a list is now or how much of it was removed.
fn skip_numbers(wire: &mut Wire, count: usize) -> io::Result<()> {
    (0..count).try_for_each(|_| {
        next(wire, |reply| match reply {
            Reply::Number(_) => Ok(()),
            other => Err(other.unexpected("a number")),
        })
    })
}

/// How many values follow.
fn array(wire: &mut Wire) -> io::Result<usize> {
    next(wire, |reply| match reply {
        Reply::Array(count) => Ok(count),
        other => Err(other.unexpected("an array")),
    })
}

fn text(wire: &mut Wire, use_it: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    next(wire, |reply| match reply {
        Reply::Text(text) => use_it(text),
        other => Err(other.unexpected("a text")),
    })
}

/// Waits for the next reply, and lets `use_it` have it.
fn next<R>(wire: &mut Wire, use_it: impl FnOnce(Reply<'_>) -> io::Result<R>) -> io::Result<R> {
    loop {
        if let Some((reply, bytes)) = parse(wire.incoming()) {
            let used = use_it(reply);
            wire.consume(bytes);
            return used;
        }
        wire.fill()?;
    }
}

/// The first reply, if it is there as a whole, and how many bytes it has.
fn parse(bytes: &[u8]) -> Option<(Reply<'_>, usize)> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (mark, line) = bytes[..line_end].trim_ascii_end().split_first()?;
    let number: Option<i64> = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    let begin = line_end + 1;
    let reply = match (mark, number) {
        (b':', Some(number)) => Reply::Number(number),
        (b'*' | b'$', Some(-1)) => Reply::Nothing,
        (b'*', Some(count @ 0..)) => Reply::Array(count as usize),
        (b'$', Some(length @ 0..)) => {
            let end = begin + length as usize;
            let text = bytes.get(begin..end)?;
            let end = end + b"\r\n".len();
            return (bytes.len() >= end).then_some((Reply::Text(text), end));
        }
        _ => Reply::Other(line),
    };
    Some((reply, begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_one_by_one_and_a_half_one_waits() {
        let text = b":12\r\n*2\r\n$3\r\na\nb\r\n$-1\r\n-ERR no\r\n";
        let (mut rest, mut seen) = (&text[..], Vec::new());
        while let Some((reply, bytes)) = parse(rest) {
            seen.push(reply);
            rest = &rest[bytes..];
        }
        let expected = [
            Reply::Number(12),
            Reply::Array(2),
            Reply::Text(b"a\nb"),
            Reply::Nothing,
            Reply::Other(b"ERR no"),
        ];
        assert_eq!(seen, expected);
        for end in 9..18 {
            assert_eq!(parse(&text[9..end]), None, "{end}");
        }
    }
}
