//! A socket with room on both sides: many requests leave by one write, many answers come by one read.
//!
//! Every peer is spoken to through this one, so that none has a better client than another; our own server
//! has a client of the same kind, `millpond_local::Client`. A wait has a limit, since a server that loses a
//! task would otherwise hang the bench.
//!
//! Not here: what the bytes mean (`peers/tasks/`).

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A round whose server is silent for longer has lost a task or a wake-up.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 * 1024;

/// One connection to a server on this machine.
pub(crate) struct Wire {
    stream: Stream,
    outgoing: Vec<u8>,
    incoming: Box<[u8]>,
    /// What was read and not consumed yet lies from `begin` to `end`.
    begin: usize,
    end: usize,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SILENCE_LIMIT))?;
        Ok(Self::new(Stream::Unix(stream)))
    }

    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SILENCE_LIMIT))?;
        // What is to be sent together is put together here, so the system need not wait for more.
        stream.set_nodelay(true)?;
        Ok(Self::new(Stream::Tcp(stream)))
    }

    fn new(stream: Stream) -> Self {
        let incoming = vec![0; READ_BYTES].into_boxed_slice();
        Self { stream, outgoing: Vec::with_capacity(READ_BYTES), incoming, begin: 0, end: 0 }
    }

    /// Where requests are put together; nothing leaves before `flush`.
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(&self.outgoing)?,
            Stream::Tcp(stream) => stream.write_all(&self.outgoing)?,
        }
        self.outgoing.clear();
        Ok(())
    }

    /// What was read and not consumed.
    pub(crate) fn incoming(&self) -> &[u8] {
        &self.incoming[self.begin..self.end]
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.begin = self.end.min(self.begin + bytes);
    }

    /// Reads once, and waits if there is nothing. The end of the stream is an error: nobody hangs up but us.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        if self.begin > 0 {
            self.incoming.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = &mut self.incoming[self.end..];
        let read = match &mut self.stream {
            Stream::Unix(stream) => stream.read(room)?,
            Stream::Tcp(stream) => stream.read(room)?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.end += read;
        Ok(())
    }

    /// What ends this connection from another thread.
    pub(crate) fn hang_up(&self) -> io::Result<HangUp> {
        Ok(HangUp(match &self.stream {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        }))
    }
}

/// Ends a connection when it is dropped, so that whoever reads from it is not left waiting.
pub(crate) struct HangUp(Stream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // A connection that the server has ended already needs no end.
        let _ = match &self.0 {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Wire, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Wire::new(Stream::Unix(ours)), theirs)
    }

    #[test]
    fn nothing_leaves_before_a_flush_and_then_everything() {
        let (mut wire, mut other) = pair();
        wire.outgoing().extend(b"one ");
        wire.outgoing().extend(b"two");
        wire.flush().unwrap();
        drop(wire);
        let mut got = String::new();
        other.read_to_string(&mut got).unwrap();
        assert_eq!(got, "one two");
    }

    #[test]
    fn what_was_not_consumed_stays_in_front_of_what_comes() {
        let (mut wire, mut other) = pair();
        other.write_all(b"abcd").unwrap();
        wire.fill().unwrap();
        wire.consume(3);
        other.write_all(b"ef").unwrap();
        wire.fill().unwrap();
        assert_eq!(wire.incoming(), b"def");
    }

    #[test]
    fn a_hang_up_ends_the_wait_of_another() {
        let (mut wire, _other) = pair();
        drop(wire.hang_up().unwrap());
        assert_eq!(wire.fill().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
