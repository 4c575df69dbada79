//! Clients that are not served and not yet let go: some have not said anything, some are still sending.
//!
//! Closing a socket while its client sends makes the system throw away the answer along with what was not
//! read: the client sees a broken connection and never learns why. So what it sends is read and thrown away
//! for a while, until it closes, falls silent or its time is over.
//!
//! Not here: how many there may be (`front.rs`).

use crate::door::Arrival;
use crate::figures::Turned;
use crate::socket::Socket;
use std::time::{Duration, Instant};

/// How long a client that is about to be refused is listened to.
const LISTENING: Duration = Duration::from_millis(20);
/// After which silence a client has probably sent all it wants to.
const SILENCE: Duration = Duration::from_millis(200);
/// How much is thrown away before others get their turn.
const BYTES_PER_TURN: usize = 1 << 20;

/// One client that is held.
#[derive(Debug)]
pub(crate) struct Lingering {
    state: State,
    /// When its time is over.
    until: Instant,
    /// When its silence is, if it stays silent.
    silent_until: Instant,
}

/// What it is held for.
#[derive(Debug)]
pub(crate) enum State {
    /// It may ask for the door's health.
    Listening {
        /// Who.
        arrival: Arrival,
        /// Why it is refused otherwise.
        why: Turned,
    },
    /// It reads its answer.
    ReadingOut(Socket),
}

/// What came of looking at it.
pub(crate) enum Heard {
    /// It is worth looking at again.
    More,
    /// It has closed, or said what it wants.
    Over,
}

impl Lingering {
    pub(crate) fn listening(arrival: Arrival, why: Turned) -> Self {
        let until = Instant::now() + LISTENING;
        Self { state: State::Listening { arrival, why }, until, silent_until: until }
    }

    /// Nothing more will be written to the socket.
    pub(crate) fn reading_out(socket: Socket, time: Duration) -> Self {
        let now = Instant::now();
        Self { state: State::ReadingOut(socket), until: now + time, silent_until: now + SILENCE }
    }

    pub(crate) fn socket(&self) -> &Socket {
        match &self.state {
            State::Listening { arrival, .. } => &arrival.socket,
            State::ReadingOut(socket) => socket,
        }
    }

    pub(crate) fn into_state(self) -> State {
        self.state
    }

    /// Looks at what has come.
    pub(crate) fn hear(&mut self) -> Heard {
        match &self.state {
            State::Listening { arrival, .. } => match arrival.socket.peek(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Heard::More,
                _ => Heard::Over,
            },
            State::ReadingOut(socket) => {
                let mut scratch = [0; 16 << 10];
                for _ in 0..BYTES_PER_TURN / scratch.len() {
                    match socket.read(&mut scratch) {
                        Ok(0) => return Heard::Over,
                        Ok(_) => self.silent_until = Instant::now() + SILENCE,
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Heard::More,
                        Err(_) => return Heard::Over,
                    }
                }
                Heard::More
            }
        }
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until.min(self.silent_until)
    }
}
