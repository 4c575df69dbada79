//! The one thread of the door: waits for sockets and workers, and lets each connection have its turn.
//!
//! One thread is enough, for all it does is cut, submit and send; the work is done by the pool. It sleeps
//! only after it has looked at everything: what it still has to do itself is in `work`, what workers have
//! done is on the board of `news.rs`, and the rest wakes the poll.
//!
//! A panic in a turn is a mistake of ours. It costs that connection and is logged; the others go on.
//!
//! Not here: what a connection does with its turn (`connection.rs`).

use super::Context;
use super::connection::{Connection, Turn};
use super::stats::{add, subtract};
use crate::frame::{Flags, Kind, append};
use millpond_tasks::{ErrorCode, Refused, SocketFile, TaskFailure};
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, send};
use rustix::process::geteuid;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub(super) const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);
/// How many events one look at the poll brings.
const EVENTS: usize = 256;
/// How long no connection is accepted after the system had nothing to make one of.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Reactor {
    poll: Poll,
    context: Arc<Context>,
    /// Gone once the door closes.
    listener: Option<(UnixListener, SocketFile)>,
    /// When accepting goes on, after an error.
    accept_again_at: Option<Instant>,
    /// By token.
    connections: Vec<Option<Seat>>,
    /// Connections that have something to do.
    work: Vec<Token>,
    /// What workers told.
    news: Vec<Token>,
}

/// A connection, and whether it is in `work` already.
struct Seat {
    connection: Connection,
    is_in_work: bool,
}

impl Reactor {
    pub(super) fn new(
        poll: Poll,
        context: Arc<Context>,
        mut listener: UnixListener,
        file: SocketFile,
    ) -> io::Result<Self> {
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            context,
            listener: Some((listener, file)),
            accept_again_at: None,
            connections: Vec::new(),
            work: Vec::new(),
            news: Vec::new(),
        })
    }

    /// Until the door is closed and every connection has what it waits for, or the time for that is over.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            if let Err(error) = self.wait(&mut events) {
                self.context.log.error(&format!("control socket: cannot wait for connections: {error}"));
                break;
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    LISTENER => self.accept_all(),
                    token => {
                        if let Some(seat) = self.connections.get_mut(token.0).and_then(Option::as_mut) {
                            seat.connection.notice(event, &self.context);
                        }
                        self.put_to_work(token);
                    }
                }
            }
            if self.accept_again_at.is_some_and(|at| at <= Instant::now()) {
                self.accept_all();
            }
            let mut news = std::mem::take(&mut self.news);
            self.context.news.take(&mut news);
            news.drain(..).for_each(|token| self.put_to_work(token));
            self.news = news;
            self.take_turns();
            if let Some(until) = self.context.closes_at.get().copied() {
                self.begin_to_close();
                if self.connections.iter().all(Option::is_none) || until <= Instant::now() {
                    break;
                }
            }
        }
        for token in (0..self.connections.len()).map(Token) {
            self.remove(token);
        }
    }

    /// Looks at the poll, and sleeps if there is nothing else to do.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let is_idle = self.work.is_empty() && self.context.news.may_sleep();
        let until = match (self.context.closes_at.get(), self.accept_again_at) {
            (Some(closes), _) => Some(*closes),
            (None, again) => again,
        };
        let timeout = match until {
            _ if !is_idle => Some(Duration::ZERO),
            Some(until) => Some(until.saturating_duration_since(Instant::now())),
            None => None,
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    fn put_to_work(&mut self, token: Token) {
        if let Some(seat) = self.connections.get_mut(token.0).and_then(Option::as_mut)
            && !std::mem::replace(&mut seat.is_in_work, true)
        {
            self.work.push(token);
        }
    }

    /// One turn for everybody who has something to do.
    fn take_turns(&mut self) {
        let mut work = std::mem::take(&mut self.work);
        for token in work.drain(..) {
            let Some(seat) = self.connections[token.0].as_mut() else { continue };
            seat.is_in_work = false;
            let (context, registry) = (&*self.context, self.poll.registry());
            // Whatever a panic leaves half done belongs to this connection, which is closed.
            let turn = catch_unwind(AssertUnwindSafe(|| seat.connection.turn(context, registry)));
            match turn {
                Ok(Turn::Rest) => {}
                Ok(Turn::Again) => self.put_to_work(token),
                Ok(Turn::Close) => self.remove(token),
                Err(_) => {
                    context
                        .log
                        .error("control socket: a connection was closed after a panic; please report it");
                    self.remove(token);
                }
            }
        }
        // Those who go on were put into the new list; the old one only lends its memory.
        if self.work.is_empty() {
            self.work = work;
        }
    }

    fn accept_all(&mut self) {
        self.accept_again_at = None;
        loop {
            let Some((listener, _)) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, _)) => self.accept(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let text = format!("control socket: cannot accept a connection: {error}; trying again");
                    self.context.log.warn(&text);
                    self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn accept(&mut self, stream: UnixStream) {
        if let Err(refused) = self.admit(&stream) {
            return turn_away(&self.context, &stream, &refused);
        }
        let seat = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let token = Token(seat);
        match Connection::new(stream, token, &self.context, self.poll.registry()) {
            Ok(connection) => {
                self.connections[seat] = Some(Seat { connection, is_in_work: false });
                add(&self.context.counters.accepted, 1);
                add(&self.context.counters.connections, 1);
                self.put_to_work(token);
            }
            Err(error) => {
                self.context.log.warn(&format!("control socket: cannot watch a connection: {error}"))
            }
        }
    }

    /// Whether this client may come in.
    fn admit(&self, stream: &UnixStream) -> Result<(), TaskFailure> {
        let own = geteuid();
        let client = socket_peercred(stream).map_err(|error| {
            TaskFailure::new(ErrorCode::Internal, format!("cannot tell whose connection this is: {error}"))
        })?;
        if client.uid != own && !client.uid.is_root() {
            let (own, client) = (own.as_raw(), client.uid.as_raw());
            let message = format!("expected a client of user {own} or of root, got one of user {client}");
            return Err(TaskFailure::new(ErrorCode::NotAllowed, message));
        }
        let (open, most) =
            (self.context.counters.connections.load(Relaxed), self.context.settings.connections_max);
        if open >= most as u64 {
            let message = format!(
                "{open} of {most} connections are open; close some, or raise control.connections_max"
            );
            return Err(TaskFailure::new(ErrorCode::QueueFull, message));
        }
        Ok(())
    }

    fn remove(&mut self, token: Token) {
        if let Some(seat) = self.connections[token.0].take() {
            seat.connection.close(&self.context, self.poll.registry());
            subtract(&self.context.counters.connections, 1);
        }
    }

    /// Nobody else comes in, nothing more is read; whoever waits for nothing leaves with the next turn.
    fn begin_to_close(&mut self) {
        let Some((mut listener, file)) = self.listener.take() else { return };
        // It is about to be closed, which takes it out of the poll as well.
        let _ = self.poll.registry().deregister(&mut listener);
        drop(file);
        for token in (0..self.connections.len()).map(Token) {
            if let Some(seat) = &mut self.connections[token.0] {
                seat.connection.finish();
            }
            self.put_to_work(token);
        }
    }
}

/// Says why not, and closes. A socket that is new takes one small frame at once.
fn turn_away(context: &Context, stream: &UnixStream, failure: &TaskFailure) {
    let count = context.counters.refused.fetch_add(1, Relaxed) + 1;
    // Every power of two is logged: the first is news, the thousandth is not.
    if count.is_power_of_two() {
        let text = format!("control socket: a client was turned away: {} ({count} so far)", failure.message);
        context.log.warn(&text);
    }
    let mut frame = Vec::new();
    let refused = Refused { failure: failure.clone(), id: None, retry_after: None };
    append(&mut frame, Kind::Error, Flags::NONE, 0, |out| refused.write_json(out));
    // A client that does not take it learns from the closed connection.
    let _ = send(stream, &frame, SendFlags::NOSIGNAL);
}
