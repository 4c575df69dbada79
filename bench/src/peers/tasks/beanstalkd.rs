//! beanstalkd, a queue of jobs: put by one, reserved by another, who deletes the job when it is done.
//!
//! It knows no results. So a worker puts what came out into a second tube before it deletes the job, and the
//! producer reserves and deletes it there, which is what its users do who want an answer. `OneWay` leaves
//! that out: the worker tells the producer without the server's help. Commands of one connection are answered
//! in order, and any number may be sent before the first answer; only `reserve` without a limit waits, and
//! nothing behind it is looked at meanwhile.
//!
//! Not here: where the program comes from (`debian.rs`).

use super::{Appetite, Crew, Producer, Started, WORKERS, unexpected};
use crate::daemon::{Daemon, PrivateFolder};
use crate::debian::{self, Program};
use crate::wire::{SILENCE_LIMIT, Wire};
use std::io::{self, Write};
use std::mem;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};

/// A producer that gets its results through a tube of the server.
pub(crate) struct BothWays {
    wire: Wire,
    /// How many puts have left, or lie ready, and are not answered.
    owed: usize,
    /// Results that came and are to be deleted.
    taken: Vec<u64>,
    appetite: Appetite,
}

/// A producer that hears of the end of its tasks from the workers, beside the server.
pub(crate) struct OneWay {
    wire: Wire,
    owed: usize,
    done: Receiver<Vec<u8>>,
}

/// The program, if it can be had.
pub(crate) fn program() -> Result<Program, String> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| debian::program("beanstalkd", "-v", "beanstalkd")).clone()
}

pub(crate) fn start_both_ways() -> Result<Started<BothWays>, String> {
    let (mut wire, mut daemon) = serve()?;
    let workers = connect_workers(&mut daemon)?;
    let start = || {
        tell(&mut wire, "watch results\r\nignore default\r\n", 2)?;
        let mut crew = Crew::new(Some(daemon));
        for mut worker in workers {
            tell(&mut worker, "use results\r\n", 1)?;
            crew.add(worker, |wire| work(wire, send_result, drop))?;
        }
        let producer = BothWays { wire, owed: 0, taken: Vec::new(), appetite: Appetite::new() };
        Ok(Started { producer, crew })
    };
    start().map_err(|error: io::Error| error.to_string())
}

pub(crate) fn start_one_way() -> Result<Started<OneWay>, String> {
    let (wire, mut daemon) = serve()?;
    let workers = connect_workers(&mut daemon)?;
    let (sender, done) = mpsc::channel();
    let start = || {
        let mut crew = Crew::new(Some(daemon));
        for worker in workers {
            let sender: Sender<Vec<u8>> = sender.clone();
            // The producer is gone only when the round is over.
            let tell_producer = move |task: Vec<u8>| _ = sender.send(task);
            crew.add(worker, |wire| work(wire, |_, _| Ok(()), tell_producer))?;
        }
        Ok(Started { producer: OneWay { wire, owed: 0, done }, crew })
    };
    start().map_err(|error: io::Error| error.to_string())
}

fn serve() -> Result<(Wire, Daemon), String> {
    let folder = PrivateFolder::new()?;
    let socket = folder.path().join("socket");
    let mut command = program()?.command();
    command.arg("-l").arg(format!("unix:{}", socket.display()));
    let mut daemon = Daemon::start(command, folder)?;
    let wire = daemon.connect(|| Wire::unix(&socket))?;
    Ok((wire, daemon))
}

fn connect_workers(daemon: &mut Daemon) -> Result<Vec<Wire>, String> {
    let socket = daemon.folder().join("socket");
    (0..WORKERS).map(|_| daemon.connect(|| Wire::unix(&socket))).collect()
}

/// Sends commands that are answered by `answers` lines about tubes, before the round.
fn tell(wire: &mut Wire, commands: &str, answers: usize) -> io::Result<()> {
    wire.outgoing().extend_from_slice(commands.as_bytes());
    wire.flush()?;
    (0..answers).try_for_each(|_| {
        next(wire, |reply| match reply {
            Reply::Tube => Ok(()),
            other => Err(other.unexpected("USING or WATCHING")),
        })
    })
}

impl Producer for BothWays {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        self.owed += 1;
        put(self.wire.outgoing(), task)
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let deletes = self.taken.len();
        delete_and_reserve(self.wire.outgoing(), &mut self.taken, self.appetite.jobs())?;
        self.wire.flush()?;
        let mut answers = mem::take(&mut self.owed) + deletes + self.appetite.jobs();
        let taken = &mut self.taken;
        while answers > 0 {
            answers -= 1;
            next(&mut self.wire, |reply| match reply {
                Reply::Inserted | Reply::Deleted | Reply::TimedOut => Ok(()),
                Reply::Reserved { id, body } => {
                    taken.push(id);
                    landed(body)
                }
                other => Err(other.unexpected("an answer to put, delete or reserve")),
            })?;
        }
        self.appetite.learn(self.taken.len());
        Ok(())
    }
}

impl Producer for OneWay {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        self.owed += 1;
        put(self.wire.outgoing(), task)
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.wire.flush()?;
        let lost = |_| io::Error::from(io::ErrorKind::TimedOut);
        landed(&self.done.recv_timeout(SILENCE_LIMIT).map_err(lost)?)?;
        self.done.try_iter().try_for_each(|task| landed(&task))?;
        // A task is done: the answers to the puts have come meanwhile, or are about to.
        (0..mem::take(&mut self.owed)).try_for_each(|_| {
            next(&mut self.wire, |reply| match reply {
                Reply::Inserted => Ok(()),
                other => Err(other.unexpected("INSERTED")),
            })
        })
    }
}

/// Reserves jobs, runs them, and deletes them, until the connection ends.
///
/// `send` puts a result beside the requests that leave next; `done` hears of each job that the server has
/// deleted.
fn work(
    mut wire: Wire,
    send: impl Fn(&mut Vec<u8>, &[u8]) -> io::Result<()>,
    done: impl Fn(Vec<u8>),
) -> io::Result<()> {
    let (mut taken, mut tasks) = (Vec::new(), Vec::<Vec<u8>>::new());
    let mut appetite = Appetite::new();
    loop {
        let mut finished = mem::take(&mut tasks).into_iter();
        for task in finished.as_slice() {
            send(wire.outgoing(), task)?;
        }
        let mut answers = appetite.jobs();
        delete_and_reserve(wire.outgoing(), &mut taken, appetite.jobs())?;
        wire.flush()?;
        while answers > 0 {
            next(&mut wire, |reply| {
                match reply {
                    Reply::Inserted => {}
                    Reply::Deleted => finished.next().into_iter().for_each(&done),
                    Reply::TimedOut => answers -= 1,
                    Reply::Reserved { id, body } => {
                        taken.push(id);
                        tasks.push(body.to_vec());
                        answers -= 1;
                    }
                    other => return Err(other.unexpected("an answer to put, delete or reserve")),
                }
                Ok(())
            })?;
        }
        appetite.learn(tasks.len());
    }
}

fn send_result(outgoing: &mut Vec<u8>, task: &[u8]) -> io::Result<()> {
    put(outgoing, task)
}

/// `put` with priority 0, no delay, and a minute to run.
fn put(outgoing: &mut Vec<u8>, body: &[u8]) -> io::Result<()> {
    write!(outgoing, "put 0 0 60 {}\r\n", body.len())?;
    outgoing.extend_from_slice(body);
    outgoing.extend_from_slice(b"\r\n");
    Ok(())
}

/// Deletes what was taken, and asks for so many jobs: waits for the first, and takes of the others what is
/// there.
fn delete_and_reserve(outgoing: &mut Vec<u8>, taken: &mut Vec<u64>, jobs: usize) -> io::Result<()> {
    taken.drain(..).try_for_each(|id| write!(outgoing, "delete {id}\r\n"))?;
    outgoing.extend_from_slice(b"reserve\r\n");
    (1..jobs).for_each(|_| outgoing.extend_from_slice(b"reserve-with-timeout 0\r\n"));
    Ok(())
}

/// What the server says.
#[derive(Debug, PartialEq)]
enum Reply<'a> {
    Inserted,
    Deleted,
    Reserved {
        id: u64,
        body: &'a [u8],
    },
    TimedOut,
    /// The answer to a command about tubes.
    Tube,
    Other(&'a [u8]),
}

impl Reply<'_> {
    fn unexpected(self, expected: &str) -> io::Error {
        unexpected(expected, format!("{self:?}").as_bytes())
    }
}

/// Waits for the next reply, and lets `use_it` have it.
fn next(wire: &mut Wire, use_it: impl FnOnce(Reply<'_>) -> io::Result<()>) -> io::Result<()> {
    loop {
        if let Some((reply, bytes)) = parse(wire.incoming()) {
            use_it(reply)?;
            wire.consume(bytes);
            return Ok(());
        }
        wire.fill()?;
    }
}

/// The first reply, if it is there as a whole, and how many bytes it has.
fn parse(bytes: &[u8]) -> Option<(Reply<'_>, usize)> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..line_end].trim_ascii_end();
    let reply = match line.split(|byte| *byte == b' ').next() {
        Some(b"INSERTED") => Reply::Inserted,
        Some(b"DELETED") => Reply::Deleted,
        Some(b"TIMED_OUT") => Reply::TimedOut,
        Some(b"USING" | b"WATCHING") => Reply::Tube,
        Some(b"RESERVED") => match numbers(line) {
            Some((id, length)) => {
                let begin = line_end + 1;
                let body = bytes.get(begin..begin + length)?;
                let end = begin + length + b"\r\n".len();
                return (bytes.len() >= end).then_some((Reply::Reserved { id, body }, end));
            }
            None => Reply::Other(line),
        },
        _ => Reply::Other(line),
    };
    Some((reply, line_end + 1))
}

/// Of `RESERVED <id> <bytes>`.
fn numbers(line: &[u8]) -> Option<(u64, usize)> {
    let mut words = str::from_utf8(line).ok()?.split(' ').skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_one_by_one_and_a_half_one_waits() {
        let text = b"INSERTED 7\r\nRESERVED 12 4\r\na\r\nb\r\nTIMED_OUT\r\nNOT_FOUND\r\n";
        let (mut rest, mut seen) = (&text[..], Vec::new());
        while let Some((reply, bytes)) = parse(rest) {
            seen.push(reply);
            rest = &rest[bytes..];
        }
        let reserved = Reply::Reserved { id: 12, body: b"a\r\nb" };
        assert_eq!(seen, [Reply::Inserted, reserved, Reply::TimedOut, Reply::Other(b"NOT_FOUND")]);
        for end in 13..33 {
            assert_eq!(parse(&text[12..end]), None, "{end}");
        }
    }
}
