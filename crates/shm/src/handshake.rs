//! How a program and a daemon come together: one line and one descriptor there, one line back.
//!
//! ```text
//! program ── {"layout":1,"plan":{"slots":1024,...},"program":"resize"} and the memory ──►  daemon
//!         ◄─ {"welcome":true,"daemon":"0.1.0"}   or   {"welcome":false,"error":"..."} ───
//! ```
//!
//! After that the socket is silent, and its only word is its end: whoever sees it close knows that the other side
//! is gone, by its own will or by a kill. Who may come in was decided by the directory (0700), and is asked once
//! more here, of the kernel: the user must be the same.
//!
//! Not here: what is in the memory.

use crate::layout::{LAYOUT, LAYOUT_MIN, Plan};
use crate::memory_file::MemoryFile;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, geteuid};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What the socket is called, in the daemon's directory.
pub const MEMORY_SOCKET_NAME: &str = "memory.sock";
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 1024;
/// The longest name that a program may give itself.
const PROGRAM_BYTES_MAX: usize = 64;

/// What a program says first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Of the memory.
    pub(crate) layout: u32,
    pub(crate) plan: Plan,
    /// What to call it in the log.
    pub(crate) program: String,
}

/// What the daemon says to that.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) welcome: bool,
    #[serde(default)]
    pub(crate) daemon: String,
    #[serde(default)]
    pub(crate) error: String,
}

impl Hello {
    pub(crate) fn new(plan: Plan) -> Self {
        let path = std::env::current_exe().unwrap_or_default();
        let mut program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        while program.len() > PROGRAM_BYTES_MAX {
            program.pop();
        }
        Self { layout: LAYOUT, plan, program }
    }

    /// Sends it, and the memory with it.
    pub(crate) fn send(&self, socket: &UnixStream, memory: &MemoryFile) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let descriptors = [memory.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = sendmsg(socket, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL)?;
        // So short a line goes in one piece, or not at all.
        if sent == line.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
    }

    /// Reads one, with the memory. None if it has not come yet.
    ///
    /// # Errors
    /// With a sentence for the other side.
    pub(crate) fn receive(socket: &UnixStream) -> Result<Option<(Self, OwnedFd)>, String> {
        let mut line = [0; LINE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut line)], &mut ancillary, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(format!("no hello: {error}")),
        };
        // Whatever came, all descriptors are ours to close from here on.
        let descriptors: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let line = &line[..received.bytes];
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(format!("expected a hello of one line of at most {LINE_BYTES_MAX} bytes"));
        };
        let hello: Self = serde_json::from_slice(line).map_err(|error| format!("hello: {error}"))?;
        hello.check()?;
        let [memory] = <[OwnedFd; 1]>::try_from(descriptors)
            .map_err(|other| format!("expected one descriptor with the hello, got {}", other.len()))?;
        Ok(Some((hello, memory)))
    }

    fn check(&self) -> Result<(), String> {
        if !(LAYOUT_MIN..=LAYOUT).contains(&self.layout) {
            return Err(format!(
                "memory of layout {}, this daemon reads {LAYOUT_MIN} to {LAYOUT}; start both sides from one release, \
                 or the daemon from the newer one",
                self.layout
            ));
        }
        if self.program.len() > PROGRAM_BYTES_MAX || self.program.chars().any(char::is_control) {
            return Err(format!("program: expected at most {PROGRAM_BYTES_MAX} plain characters"));
        }
        Ok(())
    }
}

impl Welcome {
    pub(crate) fn yes() -> Self {
        Self { welcome: true, daemon: env!("CARGO_PKG_VERSION").to_owned(), error: String::new() }
    }

    pub(crate) fn no(error: String) -> Self {
        Self { welcome: false, daemon: env!("CARGO_PKG_VERSION").to_owned(), error }
    }

    /// Sends it without waiting: a socket on which nothing was sent yet has room for a line.
    pub(crate) fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(socket, &line, flags)?;
        Ok(())
    }

    /// Reads one; waits for it at most so long.
    pub(crate) fn receive(mut socket: &UnixStream, patience: Duration) -> io::Result<Self> {
        let until = Instant::now() + patience;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            let mut bytes = [0; LINE_BYTES_MAX];
            match socket.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => line.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if line.is_empty() {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the daemon hung up"));
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// Who is at the other end: the process, if it belongs to the same user, else the user.
pub(crate) fn same_user(socket: &UnixStream) -> io::Result<Result<Pid, u32>> {
    let peer = socket_peercred(socket)?;
    Ok(if peer.uid == geteuid() { Ok(peer.pid) } else { Err(peer.uid.as_raw()) })
}

/// Whether the other side has closed the connection, or said something it may not say.
pub(crate) fn is_over(socket: &UnixStream) -> bool {
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    !matches!(rustix::net::recv(socket.as_fd(), &mut byte, flags), Err(Errno::AGAIN | Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn refused(line: &[u8]) -> String {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(line).unwrap();
        Hello::receive(&far).map(|_| ()).expect_err("nobody may come in like this")
    }

    #[test]
    fn the_memory_comes_with_the_hello() {
        let (near, far) = UnixStream::pair().unwrap();
        assert!(Hello::receive(&far).unwrap().is_none());
        let plan = Plan::default();
        let memory = MemoryFile::create(4096).unwrap();
        Hello::new(plan).send(&near, &memory).unwrap();
        let (hello, descriptor) = Hello::receive(&far).unwrap().unwrap();
        assert_eq!(hello.plan, plan);
        assert!(MemoryFile::check(descriptor, 4096, 4096).is_ok());
        Welcome::yes().send(&far).unwrap();
        assert!(Welcome::receive(&near, Duration::from_secs(60)).unwrap().welcome && !is_over(&near));
        drop(far);
        assert!(is_over(&near));
    }

    #[test]
    fn what_is_no_hello_is_refused_in_words() {
        assert!(refused(b"GET / HTTP/1.1\r\n").contains("hello"));
        assert!(refused(b"{\"layout\":1").contains("one line"));
        let plan = r#""plan":{"slots":64,"slot_bytes":128,"arena_bytes":256}"#;
        let newer = format!("{{\"layout\":9,{plan},\"program\":\"x\"}}\n");
        assert!(refused(newer.as_bytes()).contains("layout 9, this daemon reads"));
        let bare = format!("{{\"layout\":1,{plan},\"program\":\"x\"}}\n");
        assert!(refused(bare.as_bytes()).contains("got 0"));
        let loud = format!("{{\"layout\":1,{plan},\"program\":\"\\u0007\"}}\n");
        assert!(refused(loud.as_bytes()).contains("plain characters"));
        assert!(refused(b"{\"layout\":1,\"plan\":{\"slots\":-1},\"program\":\"x\"}\n").contains("hello"));
    }

    #[test]
    fn the_user_at_the_other_end_is_known() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(same_user(&near).unwrap(), Ok(rustix::process::getpid()));
    }
}
