//! The connection of a program to a daemon: made, lost, and made again with the next one.
//!
//! The program makes the memory, so what it sent and nobody took is still its own when the daemon dies. It takes that
//! back, reads the last answers, and hands the rest to the daemon that comes next, in new memory. Only tasks that the
//! dead daemon had in its hands end with an error: they may have run, and are never sent twice.
//!
//! Not here: waiting for answers (`client.rs`).

use super::table::Table;
use super::{AttachError, ClientSettings, Reply};
use crate::channel::{BATCH, Channel, Message, Receiver, SendError, Sender};
use crate::handshake::{Hello, MEMORY_SOCKET_NAME, Welcome, same_user};
use crate::message::{ANSWER, CALL, CANCEL, EVENT, INTRODUCE, REQUEST, STREAMED};
use millpond_tasks::ErrorCode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::{HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a daemon may take for its welcome if somebody asked to be attached.
pub(super) const WELCOME_TIME: Duration = Duration::from_secs(5);
/// The same, if a lost daemon is looked for in passing.
pub(super) const WELCOME_TIME_IN_PASSING: Duration = Duration::from_millis(100);
/// How often a daemon that is gone is looked for.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The same, if one is there and does not answer.
const SILENT_INTERVAL: Duration = Duration::from_secs(1);

/// What is said of a task that was cancelled before any daemon had it.
pub(super) const CANCELLED_UNSENT: &str = "no daemon had it yet when it was cancelled";

/// The way to the daemon. Guarded by the client's lock.
pub(super) struct Link {
    directory: PathBuf,
    settings: ClientSettings,
    wired: Option<Wired>,
    pub(super) next_number: u64,
    /// Names of handlers; their place is their number.
    handlers: Vec<Box<str>>,
    /// What a dead daemon had not taken, oldest first. It goes before anything new.
    unsent: VecDeque<Letter>,
    /// Since when there is no daemon.
    lost_at: Option<Instant>,
    /// When a daemon is looked for again.
    try_at: Option<Instant>,
}

struct Wired {
    sender: Sender,
    /// How many handlers this daemon has been told of.
    introduced: usize,
}

/// A message that found no daemon yet.
#[derive(Debug)]
struct Letter {
    kind: u32,
    number: u64,
    word: u32,
    body: Vec<u8>,
}

/// What a new connection brings along.
pub(super) struct Connected {
    pub(super) receiver: Receiver,
    pub(super) socket: UnixStream,
}

impl Link {
    pub(super) fn new(directory: PathBuf, settings: ClientSettings) -> Self {
        Self {
            directory,
            settings,
            wired: None,
            next_number: 1,
            handlers: Vec::new(),
            unsent: VecDeque::new(),
            lost_at: None,
            try_at: None,
        }
    }

    pub(super) fn is_wired(&self) -> bool {
        self.wired.is_some()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Finds the daemon, and hands it new memory and what was left unsent.
    pub(super) fn connect(&mut self, patience: Duration) -> Result<Connected, AttachError> {
        self.try_at = Some(Instant::now() + RETRY_INTERVAL);
        let connected = self.try_connect(patience);
        if matches!(connected, Err(AttachError::Silent { .. })) {
            self.try_at = Some(Instant::now() + SILENT_INTERVAL);
        }
        connected
    }

    fn try_connect(&mut self, patience: Duration) -> Result<Connected, AttachError> {
        let path = self.directory.join(MEMORY_SOCKET_NAME);
        let nobody = |error| AttachError::NoDaemon { path: path.clone(), error };
        let socket = knock(&path)?;
        if let Err(user) = same_user(&socket).map_err(nobody)? {
            return Err(AttachError::NotOurs { path, user });
        }
        let (channel, memory) =
            Channel::make(&self.settings.plan).map_err(|error| AttachError::Memory(error.to_string()))?;
        let sent = Hello::new(self.settings.plan).send(&socket, &memory);
        // A daemon that has no place says so without waiting for the hello.
        let welcome = Welcome::receive(&socket, patience).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => AttachError::Silent { path: path.clone() },
            _ => nobody(sent.err().unwrap_or(error)),
        })?;
        if !welcome.welcome {
            return Err(AttachError::Refused(welcome.error));
        }
        self.wired = Some(Wired { sender: channel.sender, introduced: 0 });
        self.lost_at = None;
        // What finds no room goes with the next message.
        let _ = self.send_unsent();
        Ok(Connected { receiver: channel.receiver, socket })
    }

    /// Whether it is time to look for a daemon again.
    pub(super) fn is_due(&self) -> bool {
        self.wired.is_none() && self.try_at.is_none_or(|at| Instant::now() >= at)
    }

    /// The number of a handler's name.
    pub(super) fn handler(&mut self, name: &str) -> u32 {
        let known = self.handlers.iter().position(|handler| **handler == *name);
        known.unwrap_or_else(|| {
            self.handlers.push(name.into());
            self.handlers.len() - 1
        }) as u32
    }

    /// Whether a handler of this name has a number.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.handlers.iter().any(|handler| **handler == *name)
    }

    pub(super) fn handlers(&self) -> usize {
        self.handlers.len()
    }

    /// Sends messages in order, as far as there is room. Says how many went, and what was wrong with the next.
    pub(super) fn send(&mut self, messages: &[Message<'_>]) -> (usize, Option<SendError>) {
        if let Err(error) = self.send_unsent() {
            return (0, Some(error));
        }
        match &mut self.wired {
            Some(wired) => wired.sender.send_batch(messages),
            None => (0, Some(SendError::Closed)),
        }
    }

    /// Whether something still waits for room.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Introduces handlers, then sends what an earlier daemon had not taken.
    pub(super) fn send_unsent(&mut self) -> Result<(), SendError> {
        let Some(wired) = &mut self.wired else { return Err(SendError::Closed) };
        while let Some(name) = self.handlers.get(wired.introduced) {
            let word = wired.introduced as u32;
            wired.sender.send(&Message {
                kind: INTRODUCE,
                word,
                body: name.as_bytes(),
                ..Message::default()
            })?;
            wired.introduced += 1;
        }
        while let Some(letter) = self.unsent.pop_front() {
            let Letter { kind, number, word, ref body } = letter;
            if let Err(error) = wired.sender.send(&Message { kind, number, word, sent_ns: 0, body }) {
                self.unsent.push_front(letter);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn wait_room(&self, timeout: Duration) {
        if let Some(wired) = &self.wired {
            wired.sender.wait_room(timeout);
        }
    }

    /// The daemon is gone: reads its last answers, takes back what it had not taken, and ends the rest.
    pub(super) fn lose(&mut self, mut receiver: Receiver, table: &mut Table) {
        let bytes_max = self.settings.stream_bytes_max;
        let mut read = || receiver.receive(BATCH, |message| deliver(message, table, bytes_max));
        while read().is_ok_and(|count| count > 0) {}
        let Some(mut wired) = self.wired.take() else { return };
        let mut cancelled = Vec::new();
        let mut back = VecDeque::new();
        wired.sender.take_back(|message| match message.kind {
            REQUEST | CALL => {
                let Message { kind, number, word, body, .. } = message;
                back.push_back(Letter { kind, number, word, body: body.to_vec() });
            }
            CANCEL => cancelled.push(message.number),
            _ => {}
        });
        // What this daemon was sent is older than what it was not.
        back.append(&mut self.unsent);
        self.unsent = back;
        self.unsent.retain(|letter| {
            let is_wanted = !cancelled.contains(&letter.number);
            if !is_wanted {
                table.end(failed(letter.number, ErrorCode::Cancelled, CANCELLED_UNSENT));
            }
            is_wanted
        });
        let kept: HashSet<u64> = self.unsent.iter().map(|letter| letter.number).collect();
        for number in table.pending_but(&kept) {
            let words = "the daemon died while it had the task, which may have run";
            table.end(failed(number, ErrorCode::DaemonDied, words));
        }
        self.lost_at = Some(Instant::now());
    }

    /// No daemon came back in time: what waited for one ends.
    pub(super) fn give_up(&mut self, table: &mut Table) {
        let timeout = self.settings.reconnect_timeout;
        if self.lost_at.is_some_and(|lost| lost.elapsed() >= timeout) {
            let words =
                format!("the daemon died, and no other came within {timeout:?}; the task has not run");
            for letter in self.unsent.drain(..) {
                table.end(failed(letter.number, ErrorCode::DaemonDied, &words));
            }
        }
    }

    /// Takes a task out that no daemon has seen. False if it was sent.
    pub(super) fn cancel_unsent(&mut self, number: u64) -> bool {
        let before = self.unsent.len();
        self.unsent.retain(|letter| letter.number != number);
        self.unsent.len() < before
    }

    /// Tells the daemon that a task is no longer wanted.
    pub(super) fn cancel(&mut self, number: u64) -> Result<(), SendError> {
        self.send(&[Message { kind: CANCEL, number, ..Message::default() }]).1.map_or(Ok(()), Err)
    }

    /// The messages of a request and of a call.
    pub(super) fn request(number: u64, body: &[u8], is_streamed: bool, sent_ns: u64) -> Message<'_> {
        Message { kind: REQUEST, number, word: if is_streamed { STREAMED } else { 0 }, sent_ns, body }
    }

    /// As above.
    pub(super) fn call(number: u64, handler: u32, body: &[u8], sent_ns: u64) -> Message<'_> {
        Message { kind: CALL, number, word: handler, sent_ns, body }
    }
}

/// Connects without waiting: a daemon that does not even take the connection is as good as silent.
fn knock(path: &Path) -> Result<UnixStream, AttachError> {
    let nobody = |error: io::Error| AttachError::NoDaemon { path: path.to_owned(), error };
    let address = SocketAddrUnix::new(path).map_err(|error| nobody(error.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|error| nobody(error.into()))?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(AttachError::Silent { path: path.to_owned() }),
        Err(error) => return Err(nobody(error.into())),
    }
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false).map_err(nobody)?;
    Ok(socket)
}

/// Puts what came on the table.
pub(super) fn deliver(message: Message<'_>, table: &mut Table, stream_bytes_max: usize) {
    match message.kind {
        ANSWER => {
            let Message { number, word, body, .. } = message;
            table.end(Reply { number, status: word as i32, body: body.to_vec() });
        }
        EVENT => table.say(message.number, message.body.to_vec(), stream_bytes_max),
        _ => {}
    }
}

/// A reply that no daemon gave.
pub(super) fn failed(number: u64, code: ErrorCode, words: &str) -> Reply {
    Reply { number, status: code.number(), body: words.as_bytes().to_vec() }
}
