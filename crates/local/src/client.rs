//! The client's side of the control socket: connect, send frames, receive answers.
//!
//! Sending is buffered and receiving reads much at a time, so that a client with many tasks in flight makes
//! few system calls. A [`Client`] that is kept whole cannot lock up: while its writes wait for the server, it
//! takes in what the server says. [`Client::split`] gives one half to each of two threads.
//!
//! Not here: what to do about an answer. Frames come back as they are.

mod halves;
mod hello;

pub use halves::{Receiver, Sender};
pub use hello::Hello;

use crate::frame::{Flags, Frame, Kind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a server may take for its first words.
const HELLO_WAIT: Duration = Duration::from_secs(5);

/// A connection to a daemon on this machine.
///
/// ```no_run
/// use millpond_local::{Client, Flags, Kind};
/// use millpond_tasks::RuntimeDir;
///
/// let mut client = Client::connect(&RuntimeDir::default_path().join("control.sock"))?;
/// client.send(Kind::Submit, Flags::RESULT, 1, br#"{"handler":"echo","args":{"text":"hi"}}"#)?;
/// let answer = client.receive()?;
/// assert_eq!((answer.kind, answer.tag), (Kind::Result, 1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    sender: Sender,
    receiver: Receiver,
    hello: Hello,
}

impl Client {
    /// Connects, looks who is at the other end, and waits for the greeting.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path).map_err(|error| {
            let text = format!("no millpond answers at {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })?;
        check_server(&stream, path)?;
        let stream = Arc::new(stream);
        let sender = Sender::new(Arc::clone(&stream));
        let mut receiver = Receiver::new(stream);
        let greeting = receiver.receive_timeout(HELLO_WAIT)?;
        let hello = hello::read(greeting, path)?;
        Ok(Self { sender, receiver, hello })
    }

    /// What the server said about itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Puts a frame into the buffer, and writes when that is full. `tag` comes back in every answer.
    pub fn send(&mut self, kind: Kind, flags: Flags, tag: u64, payload: &[u8]) -> io::Result<()> {
        self.sender.put(kind, flags, tag, payload)?;
        if self.sender.is_full() { self.flush() } else { Ok(()) }
    }

    /// Writes what was sent. Answers that come meanwhile are kept for [`receive`](Self::receive).
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.sender.try_flush()? {
            // A server whose answers nobody takes stops reading. So they are taken, and both sides go on.
            let mut both = [PollFd::new(self.sender.stream(), PollFlags::IN | PollFlags::OUT)];
            retry(|| poll(&mut both, None))?;
            if both[0].revents().intersects(PollFlags::IN | PollFlags::HUP) {
                self.receiver.take_in()?;
            }
        }
        Ok(())
    }

    /// The next answer, after everything that was sent is written. Waits for it.
    pub fn receive(&mut self) -> io::Result<Frame<'_>> {
        self.flush()?;
        self.receiver.receive()
    }

    /// The next answer; none if it did not come in time.
    pub fn receive_timeout(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        self.flush()?;
        self.receiver.receive_timeout(timeout)
    }

    /// An answer that has come already; none if that would mean waiting, or a system call.
    pub fn receive_buffered(&mut self) -> Option<Frame<'_>> {
        self.receiver.receive_buffered()
    }

    /// The two halves. Whoever holds the receiver must go on receiving, or the server stops reading.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

/// Only root and the user of this process may be at the other end: tasks may hold secrets, and anybody can
/// make a socket in a directory that everybody writes to.
fn check_server(stream: &UnixStream, path: &Path) -> io::Result<()> {
    let server = socket_peercred(stream)?.uid;
    if server.is_root() || server == geteuid() {
        return Ok(());
    }
    let (server, own) = (server.as_raw(), geteuid().as_raw());
    let text = format!(
        "{}: expected a server of user {own} or of root, got one of user {server}; run this as that user",
        path.display()
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

/// Once more when a signal came between.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(&mut call)?)
}

/// What is left until `deadline`, for `poll`; none when it is over.
fn remaining(deadline: Instant) -> Option<rustix::event::Timespec> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
    // A wait longer than the type can say is cut; the caller looks at the clock again.
    Some(left.min(Duration::from_secs(3600)).try_into().expect("an hour fits"))
}
