//! A connection as the system gives it: over TCP or over a Unix socket, never blocking.
//!
//! The front reads and writes it directly, and so does a worker, which hands it to tokio only when it has to wait
//! for it (`wire.rs`).

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A connection that never blocks.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Reads what is there.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        read(self, into)
    }

    /// Looks at what is there and leaves it there.
    pub(crate) fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        receive(self, into, RecvFlags::PEEK)
    }

    /// Writes as much as there is room for.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        write(self, bytes)
    }

    /// Says that nothing more will be written.
    pub(crate) fn finish_writing(&self) {
        // It fails only if the other side has gone already.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Reads what is there.
pub(crate) fn read(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    receive(socket, into, RecvFlags::empty())
}

fn receive(socket: impl AsFd, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match rustix::net::recv(&socket, &mut *into, flags) {
            Ok((_, count)) => return Ok(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes as much as there is room for.
pub(crate) fn write(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
