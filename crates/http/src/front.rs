//! The thread at the front: refuses those for whom there is no room, and looks after those who take too long.
//! It never waits for a client, and workers never wait for it.
//!
//! A refused client is told why and given a moment to read it (`linger.rs`). One that has not sent anything
//! yet is listened to for a few milliseconds first: should it ask for the door's health, it is served from a
//! small reserve, so that whoever watches the daemon sees it alive when it is busiest.
//!
//! Not here: accepting (`accept.rs`), who gets a place (`line.rs`).

use crate::clients::Patience;
use crate::door::{Arrival, Door, Errand};
use crate::figures::Turned;
use crate::linger::{Heard, Lingering, State};
use crate::refuse;
use crate::socket::Socket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// What the bell of the mail is called; clients have small numbers.
pub(crate) const MAIL: Token = Token(usize::MAX);

/// How many health checks are served at once although there is no place.
const RESERVED_MAX: usize = 4;
/// How often connections are looked at, unless a time limit is shorter.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// How often refused clients are looked at while there are any.
const LINGER_INTERVAL: Duration = Duration::from_millis(10);

/// The thread's own things.
pub(crate) struct Front {
    door: Arc<Door>,
    poll: Poll,
    lingering: Slab<Lingering>,
    patience: Patience,
    sweep_interval: Duration,
    swept: Instant,
    /// Not everybody whose time is over was told.
    sweeps_again: bool,
    left_before: u64,
    /// When it ends at the latest, once it was told to: those who still read why they are refused may do so.
    ends_at: Option<Instant>,
}

impl Front {
    pub(crate) fn new(door: Arc<Door>, poll: Poll) -> Self {
        let settings = &door.settings;
        let patience = Patience {
            idle: settings.idle_timeout,
            head: settings.head_timeout,
            write: settings.write_timeout,
        };
        let shortest = patience.idle.min(patience.head).min(patience.write).min(settings.queue_timeout);
        Self {
            sweep_interval: (shortest / 4).clamp(LINGER_INTERVAL, SWEEP_INTERVAL),
            door,
            poll,
            lingering: Slab::new(),
            patience,
            swept: Instant::now(),
            sweeps_again: false,
            left_before: 0,
            ends_at: None,
        }
    }

    /// Works until it is told to end.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while self.ends_at.is_none_or(|at| !self.lingering.is_empty() && Instant::now() < at) {
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience_now()))
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.door.log.error(&format!("http: cannot wait for connections: {error}"));
                return;
            }
            for event in events.iter().filter(|event| event.token() != MAIL) {
                self.hear(event.token().0);
            }
            self.run_errands();
            self.look_around();
        }
    }

    /// How long the selector may wait.
    fn patience_now(&self) -> Duration {
        let is_calm = self.lingering.is_empty() && self.door.line.len() == 0 && self.ends_at.is_none();
        if is_calm { self.sweep_pause() } else { LINGER_INTERVAL }
    }

    /// How long connections are not looked at.
    fn sweep_pause(&self) -> Duration {
        if self.sweeps_again { LINGER_INTERVAL } else { self.sweep_interval }
    }

    fn run_errands(&mut self) {
        for errand in self.door.front.take() {
            match errand {
                Errand::Refuse(arrival, why) => self.refuse(arrival, why),
                Errand::TurnAway(socket, why) => {
                    self.turn_away(&socket, why);
                    self.linger(socket);
                }
                Errand::Linger(socket) => {
                    socket.finish_writing();
                    self.linger(socket);
                }
                Errand::End => self.ends_at = Some(Instant::now() + self.door.settings.refused_timeout),
            }
        }
    }

    /// Refuses a client, unless it asks for the door's health.
    fn refuse(&mut self, arrival: Arrival, why: Turned) {
        let mut head = [0; refuse::HEAD_PEEKED_BYTES];
        match arrival.socket.peek(&mut head) {
            Ok(0) => {}
            Ok(count) => self.decide(arrival, why, &head[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.hold(Lingering::listening(arrival, why));
            }
            Err(_) => {}
        }
    }

    fn decide(&mut self, arrival: Arrival, why: Turned, head: &[u8]) {
        let has_reserve = self.door.figures.reserved.load(Acquire) < RESERVED_MAX;
        if has_reserve && refuse::asks_for_health(head) {
            return self.door.serve_reserved(arrival);
        }
        let Arrival { socket, entry, .. } = arrival;
        drop(entry);
        self.turn_away(&socket, why);
        self.linger(socket);
    }

    /// Tells a client that it is refused. Does not wait for it.
    fn turn_away(&self, socket: &Socket, why: Turned) {
        self.door.turn_away(why);
        // A client that takes no answer gets none.
        let _ = socket.write(&refuse::answer(why, self.door.retry_after()));
        socket.finish_writing();
    }

    /// Gives a client time to read what was written.
    fn linger(&mut self, socket: Socket) {
        self.hold(Lingering::reading_out(socket, self.door.settings.refused_timeout));
    }

    /// Holds a client until it has read its answer or its time is over.
    fn hold(&mut self, mut lingering: Lingering) {
        if let Heard::Over = lingering.hear() {
            return self.let_go(lingering);
        }
        if self.lingering.len() >= self.door.settings.refused_max {
            return self.let_go(lingering);
        }
        let descriptor = lingering.socket().as_fd().as_raw_fd();
        let key = self.lingering.insert(lingering);
        let registry = self.poll.registry();
        if registry.register(&mut SourceFd(&descriptor), Token(key), Interest::READABLE).is_err() {
            self.lingering.remove(key);
        }
        self.door.figures.lingering.store(self.lingering.len(), Relaxed);
    }

    /// Something came from a client that is held.
    fn hear(&mut self, key: usize) {
        let Some(lingering) = self.lingering.get_mut(key) else { return };
        if let Heard::Over = lingering.hear() {
            let lingering = self.lingering.remove(key);
            self.door.figures.lingering.store(self.lingering.len(), Relaxed);
            self.let_go(lingering);
        }
    }

    /// The time of a client that is held is over, or it has said what it wants. Closing the socket takes it
    /// away from the selector, too.
    fn let_go(&mut self, lingering: Lingering) {
        let State::Listening { arrival, why } = lingering.into_state() else { return };
        let mut head = [0; refuse::HEAD_PEEKED_BYTES];
        let count = arrival.socket.peek(&mut head).unwrap_or(0);
        // The selector must not tell of a socket that a worker has.
        let descriptor = arrival.socket.as_fd().as_raw_fd();
        let _ = self.poll.registry().deregister(&mut SourceFd(&descriptor));
        self.decide(arrival, why, &head[..count]);
    }

    /// Looks after connections and refused clients that take too long.
    fn look_around(&mut self) {
        let now = Instant::now();
        if !self.lingering.is_empty() {
            let over: Vec<_> =
                self.lingering.iter().filter(|(_, held)| held.is_over(now)).map(|(key, _)| key).collect();
            for key in over {
                let lingering = self.lingering.remove(key);
                self.let_go(lingering);
            }
            self.door.figures.lingering.store(self.lingering.len(), Relaxed);
        }
        self.door.refuse_late(now);
        let since = now.saturating_duration_since(self.swept);
        if since >= self.sweep_pause() {
            self.swept = now;
            let left = self.door.line.left();
            let rate = (left - self.left_before) as f64 / since.as_secs_f64();
            self.left_before = left;
            self.door.rate.store(rate as u64, Relaxed);
            self.sweeps_again = self.door.clients.sweep(&self.patience, now);
            self.door.note_minute(now);
        }
    }
}
