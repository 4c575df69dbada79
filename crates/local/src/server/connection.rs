//! One client's connection: bytes in, bytes out, and when to stop taking more.
//!
//! ```text
//!  socket ─► cutter ─► answer ─► answers ─► socket
//!                        │          ▲
//!                        ▼          │ late results, streams
//!                      service    outbox ◄── workers
//! ```
//!
//! A connection takes its turn when the socket or a worker has news. In one turn it reads once, answers what
//! is whole, takes over what workers encoded, and writes once: so there are few system calls for many frames,
//! and nobody waits long for a neighbour who has much to say.
//!
//! It stops reading while `in_flight_max` answers are to come, or while more waits to be sent than it may.
//! The client's writes then wait in turn; nothing is thrown away.
//!
//! Not here: what the frames mean (`answer.rs`).

use super::Context;
use super::answer::Step;
use super::exchanges::Exchanges;
use super::outbox::Outbox;
use super::stats::add;
use crate::frame::{Cut, Cutter};
use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io::{self, ErrorKind, Read};

/// A larger buffer for what is sent is given back when it is empty.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing until there is news.
    Rest,
    /// There is more to do: another turn, after the others had theirs.
    Again,
    /// It is over.
    Close,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Something; and whether that was all for now.
    Bytes { emptied: bool },
    /// Nothing for now, or none was made.
    Nothing,
    /// The end of the stream.
    End,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    token: Token,
    cutter: Cutter,
    exchanges: Exchanges,
    /// How much of the answers is sent.
    sent: usize,
    /// Whether reading may bring something.
    is_readable: bool,
    /// Whether the client has said its last, be it read or not.
    is_read_closed: bool,
    /// The socket takes no more for now. Nothing is done until it does.
    is_blocked: bool,
    /// Whether the poll tells when it does.
    is_watched_for_room: bool,
    /// Nothing more is read, and it closes when all is sent: the client said its last, or the door closes.
    is_finishing: bool,
    /// The client has closed its end: there is nobody to send to, but what it had sent counts.
    is_gone: bool,
}

impl Connection {
    /// Registers the socket, and has the greeting sent in its first turn.
    pub(super) fn new(
        mut stream: UnixStream,
        token: Token,
        context: &Context,
        registry: &Registry,
    ) -> io::Result<Self> {
        // Only for reading: a socket that is watched for both wakes the reactor whenever the client reads.
        registry.register(&mut stream, token, Interest::READABLE)?;
        let outbox = Outbox::new(context.news.clone(), token, context.settings.outbox_bytes_max / 2);
        let mut exchanges = Exchanges::new(outbox);
        context.greet(&mut exchanges);
        Ok(Self {
            stream,
            token,
            cutter: Cutter::new(context.payload_bytes_max()),
            exchanges,
            sent: 0,
            is_readable: true,
            is_read_closed: false,
            is_blocked: false,
            is_watched_for_room: false,
            is_finishing: false,
            is_gone: false,
        })
    }

    /// The poll said something about the socket.
    pub(super) fn notice(&mut self, event: &Event, context: &Context) {
        self.is_readable |= event.is_readable();
        if event.is_read_closed() {
            self.is_readable = true;
            self.is_read_closed = true;
        }
        if event.is_writable() {
            self.is_blocked = false;
        }
        if event.is_write_closed() {
            self.has_gone(context);
        }
    }

    /// Reads no more, and closes when everything that is under way has ended and is sent.
    pub(super) fn finish(&mut self) {
        self.is_finishing = true;
    }

    /// Gives readers and numbers back. The socket closes when this is dropped.
    pub(super) fn close(mut self, context: &Context, registry: &Registry) {
        self.exchanges.abandon(context);
        // A socket that is closed leaves the poll by itself; this is for the books of the library.
        let _ = registry.deregister(&mut self.stream);
    }

    /// One turn.
    pub(super) fn turn(&mut self, context: &Context, registry: &Registry) -> Turn {
        if self.is_gone {
            return self.read_the_rest(context);
        }
        if self.is_blocked {
            return Turn::Rest;
        }
        self.read_and_answer(context);
        self.exchanges.take_over(context);
        self.exchanges.fill_up(context, self.answer_bytes_max(context));
        add(&context.counters.frames_out, self.exchanges.count_frames());
        if let Err(_gone) = self.write(context, registry) {
            self.has_gone(context);
            return Turn::Again;
        }
        if self.is_blocked {
            Turn::Rest
        } else if self.exchanges.is_held_back() || (self.may_read(context) && self.has_more_to_read()) {
            Turn::Again
        } else if self.is_finishing && self.exchanges.is_idle() {
            Turn::Close
        } else {
            Turn::Rest
        }
    }

    /// Answers what is whole, reading once if need be.
    fn read_and_answer(&mut self, context: &Context) -> Came {
        self.answer_all(context);
        if !self.may_read(context) || !self.is_readable {
            return Came::Nothing;
        }
        let came = self.read(context);
        match came {
            // A read that left room has emptied the socket; the poll tells when there is more. It does not
            // tell twice that the client has said its last: then the end itself is still to be read.
            Came::Bytes { emptied } => self.is_readable = !emptied || self.is_read_closed,
            Came::Nothing => self.is_readable = false,
            Came::End => {
                self.is_readable = false;
                self.is_finishing = true;
            }
        }
        self.answer_all(context);
        came
    }

    fn answer_all(&mut self, context: &Context) {
        let mut frames = 0;
        while self.may_read(context) {
            match self.cutter.cut() {
                Cut::Whole(header, payload) => self.exchanges.answer(context, header, payload, self.is_gone),
                Cut::TooLarge(header) => {
                    if self.exchanges.answer_too_large(context, header) == Step::Lost {
                        self.is_finishing = true;
                    }
                }
                Cut::Unfinished => break,
            }
            frames += 1;
        }
        add(&context.counters.frames_in, frames);
    }

    fn read(&mut self, context: &Context) -> Came {
        let mut room_bytes = 0;
        let read = self.cutter.fill(|room| {
            room_bytes = room.len();
            self.stream.read(room)
        });
        match read {
            Ok(0) => Came::End,
            Ok(bytes) => {
                add(&context.counters.bytes_in, bytes as u64);
                Came::Bytes { emptied: bytes < room_bytes }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Came::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => Came::Bytes { emptied: false },
            Err(_reset) => Came::End,
        }
    }

    /// After the client's end: whatever it had sent before is done, though nobody hears the answers.
    fn read_the_rest(&mut self, context: &Context) -> Turn {
        self.is_readable = true;
        let came = self.read_and_answer(context);
        self.exchanges.count_frames();
        self.exchanges.answers.clear();
        if matches!(came, Came::Bytes { .. }) { Turn::Again } else { Turn::Close }
    }

    fn write(&mut self, context: &Context, registry: &Registry) -> io::Result<()> {
        let before = self.sent;
        let answers = &mut self.exchanges.answers;
        while self.sent < answers.len() {
            // Without a signal: not every program that links this ignores SIGPIPE.
            match send(&self.stream, &answers[self.sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        add(&context.counters.bytes_out, (self.sent - before) as u64);
        if !self.is_blocked {
            self.sent = 0;
            answers.clear();
            answers.shrink_to(IDLE_BYTES_MAX);
        }
        if self.is_blocked != self.is_watched_for_room {
            self.is_watched_for_room = self.is_blocked;
            let with_room = Interest::READABLE | Interest::WRITABLE;
            let interest = if self.is_blocked { with_room } else { Interest::READABLE };
            registry.reregister(&mut self.stream, self.token, interest)?;
        }
        Ok(())
    }

    fn has_gone(&mut self, context: &Context) {
        self.is_gone = true;
        self.sent = 0;
        self.exchanges.abandon(context);
    }

    fn may_read(&self, context: &Context) -> bool {
        !self.is_finishing
            && self.exchanges.in_flight() < context.settings.in_flight_max
            && self.exchanges.answers.len() < self.answer_bytes_max(context)
    }

    /// A read may bring something, or a whole frame waits for its turn.
    fn has_more_to_read(&self) -> bool {
        self.is_readable || self.cutter.peek().is_some()
    }

    /// So much is put together before it is sent. The other half is the outbox's.
    fn answer_bytes_max(&self, context: &Context) -> usize {
        context.settings.outbox_bytes_max / 2
    }
}
