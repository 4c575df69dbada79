//! A connection to the server, by port or by path: both are bytes in, bytes out.
//!
//! What was written stays as it is: `TCP_NODELAY` is set, since a request is one write and nothing follows
//! it.

use crate::plan::Address;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Begins to connect, and is told of by `token` from now on.
    pub(crate) fn connect(address: &Address, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        };
        let both = Interest::READABLE | Interest::WRITABLE;
        match &mut socket {
            Self::Tcp(stream) => registry.register(stream, token, both)?,
            Self::Unix(stream) => registry.register(stream, token, both)?,
        }
        Ok(socket)
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}
