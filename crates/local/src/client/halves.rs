//! The two halves of a connection: one writes frames, the other reads them.
//!
//! They share the socket and nothing else, so that two threads use them without a lock. Each has its buffer:
//! many frames go out in one write and come in with one read.
//!
//! Not here: keeping both halves going at once from one thread; that is `Client::flush`.

use super::{remaining, retry};
use crate::frame::{Cut, Cutter, Flags, Frame, HEADER_BYTES, Kind, append};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So much is gathered before it is written.
const SEND_BYTES: usize = 64 * 1024;
/// The largest answer that is taken. A result is limited by the server, far below this.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The half that writes.
#[derive(Debug)]
pub struct Sender {
    stream: Arc<UnixStream>,
    buffer: Vec<u8>,
    /// How much of the buffer is written.
    written: usize,
}

impl Sender {
    pub(super) fn new(stream: Arc<UnixStream>) -> Self {
        Self { stream, buffer: Vec::new(), written: 0 }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Puts a frame into the buffer, and writes when that is full.
    pub fn send(&mut self, kind: Kind, flags: Flags, tag: u64, payload: &[u8]) -> io::Result<()> {
        self.put(kind, flags, tag, payload)?;
        if self.is_full() { self.flush() } else { Ok(()) }
    }

    /// Writes what was sent. Waits for the server, which may be waiting for the other half to receive.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.try_flush()? {
            retry(|| poll(&mut [PollFd::new(&*self.stream, PollFlags::OUT)], None))?;
        }
        Ok(())
    }

    /// Tells the server that nothing more will come. What is in flight is still answered.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    pub(super) fn put(&mut self, kind: Kind, flags: Flags, tag: u64, payload: &[u8]) -> io::Result<()> {
        if u32::try_from(payload.len()).is_err() {
            let text = format!("a payload has at most 4294967295 bytes, got {}", payload.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        self.buffer.reserve(HEADER_BYTES + payload.len());
        append(&mut self.buffer, kind, flags, tag, |out| out.extend_from_slice(payload));
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() - self.written >= SEND_BYTES
    }

    /// Writes as much as the socket takes at once. Whether everything is written.
    pub(super) fn try_flush(&mut self) -> io::Result<bool> {
        while self.written < self.buffer.len() {
            let rest = &self.buffer[self.written..];
            match retry(|| send(&*self.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        self.written = 0;
        Ok(true)
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct Receiver {
    stream: Arc<UnixStream>,
    cutter: Cutter,
}

impl Receiver {
    pub(super) fn new(stream: Arc<UnixStream>) -> Self {
        Self { stream, cutter: Cutter::new(ANSWER_BYTES_MAX) }
    }

    /// The next answer. Waits for it. The end of the stream is an error of the kind `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Frame<'_>> {
        while !self.skip_unknown()? {
            self.read(RecvFlags::empty())?;
        }
        self.cut()
    }

    /// The next answer; none if it did not come in time.
    pub fn receive_timeout(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        // A deadline beyond what the clock can say is none.
        let deadline = Instant::now().checked_add(timeout);
        while !self.skip_unknown()? {
            let left = deadline.map(remaining);
            if left == Some(None) {
                return Ok(None);
            }
            let mut ready = [PollFd::new(&*self.stream, PollFlags::IN)];
            if retry(|| poll(&mut ready, left.flatten().as_ref()))? > 0 {
                self.read(RecvFlags::empty())?;
            }
        }
        self.cut().map(Some)
    }

    /// An answer that has come already; none if that would mean waiting, or a system call.
    pub fn receive_buffered(&mut self) -> Option<Frame<'_>> {
        if matches!(self.skip_unknown(), Ok(true)) { self.cut().ok() } else { None }
    }

    /// Reads what is there now, to be cut later.
    pub(super) fn take_in(&mut self) -> io::Result<()> {
        match self.read(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    fn read(&mut self, flags: RecvFlags) -> io::Result<()> {
        let Self { stream, cutter } = self;
        let bytes = cutter.fill(|room| Ok(retry(|| recv(&**stream, &mut *room, flags))?.0))?;
        if bytes > 0 {
            return Ok(());
        }
        let text = match cutter.is_between_frames() {
            true => "the server closed the connection",
            false => "the server closed the connection in the middle of a frame",
        };
        Err(io::Error::new(ErrorKind::UnexpectedEof, text))
    }

    /// Whether a frame of a known kind is there. Those of other kinds are dropped: a later server may have
    /// more.
    fn skip_unknown(&mut self) -> io::Result<bool> {
        while let Some(header) = self.cutter.peek() {
            if header.payload_bytes as usize > self.cutter.payload_bytes_max() {
                let text =
                    format!("an answer has at most {ANSWER_BYTES_MAX} bytes, got {}", header.payload_bytes);
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            if Kind::from_number(header.kind).is_some() {
                return Ok(true);
            }
            self.cutter.cut();
        }
        Ok(false)
    }

    /// The frame that `skip_unknown` found.
    fn cut(&mut self) -> io::Result<Frame<'_>> {
        if let Cut::Whole(header, payload) = self.cutter.cut()
            && let Some(kind) = Kind::from_number(header.kind)
        {
            return Ok(Frame { kind, flags: header.flags, tag: header.tag, payload });
        }
        unreachable!("a whole frame of a known kind was seen")
    }
}
