//! One connection: sends the request, reads the answer, as far as the socket lets it.
//!
//! The loop is told of changes only (edges), so each step goes on until the socket would make it wait. A read
//! that does not fill the buffer has emptied the socket, unless the other side has said goodbye as well; that
//! saves a system call for every answer.

use crate::plan::Address;
use crate::response::{BadAnswer, Response, ResponseReader};
use crate::socket::Socket;
use mio::{Registry, Token};
use std::io::{self, ErrorKind};

#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    /// How much of the request is sent.
    sent: usize,
    /// Whether anything was ever sent, and so the connection was there.
    is_tried: bool,
    reader: ResponseReader,
}

/// How to go about it: the same for every connection of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'p> {
    pub(crate) request: &'p [u8],
    /// Whether the answer is looked for before the request is sent.
    pub(crate) reads_early: bool,
}

/// How far a connection has come.
#[derive(Debug)]
pub(crate) enum Step {
    /// The socket will tell when it goes on.
    Waits,
    Answered(Response),
    Failed(Fault),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    Reset(io::Error),
    CutShort,
    Unconnected(io::Error),
    Garbled(BadAnswer),
}

impl Connection {
    pub(crate) fn open(
        address: &Address,
        registry: &Registry,
        token: Token,
        is_bodiless: bool,
    ) -> Result<Self, Fault> {
        let socket = Socket::connect(address, registry, token).map_err(Fault::Unconnected)?;
        Ok(Self { socket, sent: 0, is_tried: false, reader: ResponseReader::new(is_bodiless) })
    }

    /// Forgets the last request and its answer, and sends as much of the next as can be sent now.
    pub(crate) fn begin(&mut self, request: &[u8]) -> Result<(), Fault> {
        self.sent = 0;
        self.reader.reset();
        self.write(request)
    }

    /// The status of the answer, once it is known.
    pub(crate) fn status(&self) -> Option<u16> {
        self.reader.status()
    }

    /// Goes as far as possible. `is_closing` says that the other side has closed, `body` sees what comes.
    pub(crate) fn advance(
        &mut self,
        manner: Manner<'_>,
        is_closing: bool,
        buffer: &mut [u8],
        body: impl FnMut(&[u8]),
    ) -> Step {
        let written = self.write(manner.request);
        match written {
            Ok(()) if self.sent < manner.request.len() && !manner.reads_early => return Step::Waits,
            Ok(()) => (),
            // It may have answered before it closed, and whoever reads early would have seen that.
            Err(Fault::Reset(_)) if manner.reads_early => (),
            Err(fault) => return Step::Failed(fault),
        }
        match (self.read(is_closing || written.is_err(), buffer, body), written) {
            (Step::Answered(response), _) => {
                // What is left of the request would be read as the next one.
                let keeps = response.keeps && self.sent == manner.request.len();
                Step::Answered(Response { keeps, ..response })
            }
            (Step::Failed(Fault::CutShort) | Step::Waits, Err(fault)) => Step::Failed(fault),
            (step, _) => step,
        }
    }

    fn write(&mut self, request: &[u8]) -> Result<(), Fault> {
        while self.sent < request.len() {
            match self.socket.write(&request[self.sent..]) {
                Ok(bytes) => {
                    self.sent += bytes;
                    self.is_tried = true;
                }
                Err(error) => match error.kind() {
                    // A socket that is still connecting says either.
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => return Ok(()),
                    ErrorKind::Interrupted => (),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Err(Fault::Reset(error)),
                    _ if self.is_tried => return Err(Fault::Reset(error)),
                    _ => return Err(Fault::Unconnected(error)),
                },
            }
        }
        Ok(())
    }

    fn read(&mut self, is_closing: bool, buffer: &mut [u8], mut body: impl FnMut(&[u8])) -> Step {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => {
                    return self.reader.end().map_or(Step::Failed(Fault::CutShort), Step::Answered);
                }
                Ok(bytes) => match self.reader.feed(&buffer[..bytes], &mut body) {
                    Ok(Some(response)) => return Step::Answered(response),
                    Ok(None) if bytes < buffer.len() && !is_closing => return Step::Waits,
                    Ok(None) => (),
                    Err(fault) => return Step::Failed(Fault::Garbled(fault)),
                },
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => return Step::Waits,
                    ErrorKind::Interrupted => (),
                    _ if self.is_tried => return Step::Failed(Fault::Reset(error)),
                    _ => return Step::Failed(Fault::Unconnected(error)),
                },
            }
        }
    }
}
