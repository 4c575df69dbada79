//! Ours: a program attached to `millpond serve` by shared memory, and the same daemon by its control socket.
//!
//! Both run the built-in handler `echo` for every task: the arguments are read and checked as JSON, the task is counted
//! and timed, and the answer is what the handler said. The program names the handler once and calls it by its number.
//! The socket's client submits requests by name, as everybody does there.
//!
//! Not here: the socket beside other servers (`peers/tasks/`).

use super::{Landed, Line, SILENCE_LIMIT};
use crate::daemon::{Daemon, PrivateFolder};
use crate::peers::tasks::millpond_daemon::{self, Submitter};
use crate::peers::tasks::{Producer, Started};
use millpond_shm::{Client, HandlerNumber, Reply};
use std::io;
use std::process::Command;

/// How many numbers of the client's own are kept beside ours.
const KEPT: usize = 4096;

pub(crate) struct MemoryLine {
    client: Client,
    echo: HandlerNumber,
    /// Whether replies are fetched one by one.
    singly: bool,
    sent: u64,
    /// Our number of the task, by the client's number.
    ours: Box<[u64; KEPT]>,
    numbers: Vec<u64>,
    replies: Vec<Reply>,
    _daemon: Daemon,
}

/// Every call by itself, every reply by itself.
pub(crate) fn start_singly() -> Result<MemoryLine, String> {
    start(true)
}

/// Calls and replies by the batch.
pub(crate) fn start_batched() -> Result<MemoryLine, String> {
    start(false)
}

fn start(singly: bool) -> Result<MemoryLine, String> {
    let folder = PrivateFolder::new()?;
    let runtime = folder.path().join("run");
    let mut command = Command::new(millpond_daemon::programs()?.daemon);
    command.arg("serve").arg("--workers=2").arg("--runtime-dir").arg(&runtime);
    command.env_remove("MILLPOND_CONFIG");
    let name = runtime.display().to_string();
    let mut daemon = Daemon::start(command, folder)?;
    let client = daemon.connect(|| Client::attach(&name).map_err(io::Error::other))?;
    let echo = client.handler("echo").map_err(|error| error.to_string())?;
    let (ours, numbers, replies) = (Box::new([0; KEPT]), Vec::new(), Vec::new());
    Ok(MemoryLine { client, echo, singly, sent: 0, ours, numbers, replies, _daemon: daemon })
}

impl MemoryLine {
    fn note(&mut self, number: u64) {
        self.ours[number as usize % KEPT] = self.sent;
        self.sent += 1;
    }
}

impl Line for MemoryLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        let number = self.client.call(self.echo, task, SILENCE_LIMIT).map_err(|error| error.to_string())?;
        self.note(number);
        Ok(())
    }

    fn send_batch(&mut self, tasks: &[&[u8]]) -> Result<(), String> {
        let mut numbers = std::mem::take(&mut self.numbers);
        let sent = self.client.call_batch(self.echo, tasks, &mut numbers, SILENCE_LIMIT);
        numbers.drain(..).for_each(|number| self.note(number));
        self.numbers = numbers;
        match sent.map_err(|error| error.to_string())? {
            count if count == tasks.len() => Ok(()),
            count => Err(format!("{count} of {} tasks went out", tasks.len())),
        }
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        if self.singly {
            self.replies.extend(self.client.next_ended(SILENCE_LIMIT));
        } else {
            self.client.next_ended_batch(&mut self.replies, usize::MAX, SILENCE_LIMIT);
        }
        if self.replies.is_empty() {
            return Err("millpond: nothing came: a task was lost".to_owned());
        }
        for reply in self.replies.drain(..) {
            if reply.status != 0 {
                return Err(format!("a task failed: {}", String::from_utf8_lossy(&reply.body)));
            }
            landed(self.ours[reply.number as usize % KEPT], &reply.body)?;
        }
        Ok(())
    }
}

/// One task at a time, waited for by its number.
pub(crate) struct WaitingLine(MemoryLine);

pub(crate) fn start_waiting() -> Result<WaitingLine, String> {
    start(true).map(WaitingLine)
}

impl Line for WaitingLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        let line = &mut self.0;
        let number = line.client.call(line.echo, task, SILENCE_LIMIT).map_err(|error| error.to_string())?;
        line.numbers.push(number);
        Ok(())
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        let line = &mut self.0;
        let number = line.numbers.pop().ok_or("nothing is under way")?;
        let reply = line.client.wait(number, SILENCE_LIMIT).map_err(|error| error.to_string())?;
        let reply = reply.ok_or("millpond: nothing came: a task was lost")?;
        line.sent += 1;
        match reply.status {
            0 => landed(line.sent - 1, &reply.body),
            _ => Err(format!("a task failed: {}", String::from_utf8_lossy(&reply.body))),
        }
    }
}

/// The control socket. Results come in any order there, and say which they are by what is in them.
pub(crate) struct SocketLine {
    started: Started<Submitter>,
    number_of: fn(&[u8]) -> Option<u64>,
}

pub(crate) fn start_socket(number_of: fn(&[u8]) -> Option<u64>) -> Result<SocketLine, String> {
    Ok(SocketLine { started: millpond_daemon::start()?, number_of })
}

impl Line for SocketLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        self.started.producer.put(task).map_err(|error| error.to_string())
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        let number_of = self.number_of;
        let exchanged = self.started.producer.exchange(&mut |result| {
            let number = number_of(result).ok_or_else(|| io::Error::other("a result without a number"))?;
            landed(number, result).map_err(io::Error::other)
        });
        exchanged.map_err(|error| error.to_string())
    }
}
