//! The door as a whole: what its threads share, and how a place finds whoever waits for it.
//!
//! ```text
//!  accept.rs ── seat ──► connection.rs ── enter ──► Line ── place ──► api.rs
//!      │ no seat                ▲  the next request                     │
//!      ▼                        └───────────────────────────────────────┘
//!  front.rs: 503
//! ```
//!
//! Not here: threads and their loops (`worker.rs`, `front.rs`).

use crate::clients::{Clients, Entry};
use crate::figures::{Figures, Turned};
use crate::line::{Entered, Line, LineSettings};
use crate::mail::Mail;
use crate::meter::Meter;
use crate::socket::Socket;
use crate::stats::Minute;
use crate::worker::Inbox;
use millpond_tasks::Log;
use millpond_tasks::config::WebSettings;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// The longest time a refused client is told to stay away, in seconds.
const RETRY_AFTER_MAX: u64 = 60;
/// One refusal in so many is worth a line in the log.
const REFUSALS_PER_LOG_LINE: u64 = 100;

/// A connection that has come in.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    pub(crate) entry: Entry,
    /// The worker that accepted it and will serve it.
    pub(crate) worker: usize,
}

/// What a connection comes in with, until its first request.
#[derive(Debug)]
pub(crate) enum Pass {
    /// Room to wait.
    Seat(Seat),
    /// The right to ask for the door's health although there is no room.
    Health { _reserved: Reserved },
}

/// What waits in the line: a request. A refusal drops this end.
pub(crate) type Ticket = oneshot::Sender<Place>;

/// What the front is asked to do.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Refuses a client, unless it asks for the door's health.
    Refuse(Arrival, Turned),
    /// Refuses a client, whatever it asks for.
    TurnAway(Socket, Turned),
    /// Gives a client time to read what was written, while what it still sends is thrown away.
    Linger(Socket),
    /// Ends.
    End,
}

/// What the threads of the door share.
pub(crate) struct Door {
    pub(crate) settings: Arc<WebSettings>,
    pub(crate) log: Log,
    pub(crate) figures: Figures,
    pub(crate) meter: Meter,
    pub(crate) minute: Minute,
    pub(crate) line: Line<Ticket>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) front: Mail<Errand>,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) started: Instant,
    /// How many places are given back in a second, as the front last saw it.
    pub(crate) rate: AtomicU64,
    /// Listeners that are open. Each accept loop counts itself.
    pub(crate) listening: AtomicUsize,
    is_draining: AtomicBool,
    is_closing: watch::Sender<bool>,
}

impl Door {
    pub(crate) fn new(
        settings: Arc<WebSettings>,
        front: Mail<Errand>,
        workers: usize,
        log: Log,
    ) -> Arc<Self> {
        let line = LineSettings {
            places: settings.in_flight_max,
            capacity: settings.queue_capacity,
            timeout: settings.queue_timeout,
            target: settings.queue_target,
        };
        Arc::new(Self {
            line: Line::new(line, oneshot::Sender::is_closed),
            clients: Clients::new(settings.connections_max, settings.connections_per_peer_max),
            figures: Figures::default(),
            meter: Meter::default(),
            minute: Minute::default(),
            front,
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
            started: Instant::now(),
            rate: AtomicU64::new(0),
            listening: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
            is_closing: watch::Sender::new(false),
            settings,
            log,
        })
    }

    /// A new connection asks to come in.
    pub(crate) fn sit(self: &Arc<Self>) -> Option<Seat> {
        self.line.sit().then(|| Seat { door: Arc::clone(self) })
    }

    /// A place that was taken from the line.
    fn place(self: &Arc<Self>) -> Place {
        Place { door: Arc::clone(self) }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Place> {
        self.line.try_take().then(|| self.place())
    }

    /// A request asks for a place, and waits for it.
    pub(crate) async fn enter(self: &Arc<Self>, seat: Option<Seat>) -> Result<Place, Turned> {
        let (granted, place) = oneshot::channel();
        let entered = self.line.enter(granted, seat.is_some());
        drop(seat);
        match entered {
            Entered::Now(_) => Ok(self.place()),
            Entered::Waits => {
                let mut waiting = WhileWaiting { line: &self.line, is_over: false };
                let place = place.await;
                waiting.is_over = true;
                place.map_err(|_| self.turn_away(self.why_refused(Turned::QueueTimeout)))
            }
            Entered::Full(_) => Err(self.turn_away(self.why_refused(Turned::QueueFull))),
        }
    }

    /// Why somebody was not served, if the daemon does not end.
    fn why_refused(&self, otherwise: Turned) -> Turned {
        if self.is_draining() { Turned::Draining } else { otherwise }
    }

    /// Serves a connection although there is no room: one of the few that ask for the door's health.
    pub(crate) fn serve_reserved(self: &Arc<Self>, arrival: Arrival) {
        self.figures.reserved.fetch_add(1, AcqRel);
        arrival.entry.client().bring(Pass::Health { _reserved: Reserved { door: Arc::clone(self) } });
        self.inboxes[arrival.worker].put(arrival);
    }

    /// A place is given back.
    fn leave(self: &Arc<Self>) {
        // Those who are refused see their other end dropped.
        let next = self.line.leave();
        if let Some(ticket) = next.served {
            // Whoever asked may have gone: then the place comes back with the answer and is given on.
            drop(ticket.send(self.place()));
        }
    }

    /// Refuses those who have waited for too long.
    pub(crate) fn refuse_late(&self, now: Instant) {
        if self.line.len() > 0 {
            drop(self.line.expire(now));
        }
    }

    /// Nobody who waits will be served any more, and nobody may wait.
    pub(crate) fn refuse_all(&self) {
        drop(self.line.close());
    }

    /// Counts a refusal, and says so in the log now and then.
    pub(crate) fn turn_away(&self, why: Turned) -> Turned {
        let count = self.figures.was_turned(why);
        if count % REFUSALS_PER_LOG_LINE == 1 {
            let (waiting, capacity) = (self.line.len(), self.settings.queue_capacity);
            let (held, places) = (self.line.in_flight(), self.settings.in_flight_max);
            self.log.warn(&format!(
                "http: refused ({}), {count} so far; {waiting} of {capacity} wait, {held} of {places} places are held, \
                 {} clients are connected",
                why.name(),
                self.clients.len(),
            ));
        }
        why
    }

    /// After how many seconds a refused client may come again: when the line will have moved up once.
    pub(crate) fn retry_after(&self) -> u64 {
        let rate = self.rate.load(Relaxed).max(1);
        (self.line.len() as u64).div_ceil(rate).clamp(1, RETRY_AFTER_MAX)
    }

    /// From now on it is not ready, and every connection ends with its next answer.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Release);
    }

    /// Whether the daemon is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Acquire)
    }

    /// Listeners close, streams end and waits are answered.
    pub(crate) fn close(&self) {
        self.is_closing.send_replace(true);
    }

    /// Whether it closes.
    pub(crate) fn is_closing(&self) -> bool {
        *self.is_closing.borrow()
    }

    /// Resolves when the door closes: listeners close, streams must end and waits must be answered.
    pub(crate) async fn closes(&self) {
        // The sender lives as long as the door.
        let _ = self.is_closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Door").field("waiting", &self.line.len()).finish_non_exhaustive()
    }
}

/// The right to be worked on. Given back when it is dropped.
pub(crate) struct Place {
    door: Arc<Door>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.leave();
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Place")
    }
}

/// Tells the line if a request that waits goes away.
struct WhileWaiting<'a> {
    line: &'a Line<Ticket>,
    is_over: bool,
}

impl Drop for WhileWaiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.line.has_left();
        }
    }
}

/// Room to wait, for a connection that has not said anything yet.
#[derive(Debug)]
pub(crate) struct Seat {
    door: Arc<Door>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.door.line.stand();
    }
}

/// One of the few who are served without a place.
#[derive(Debug)]
pub(crate) struct Reserved {
    door: Arc<Door>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.door.figures.reserved.fetch_sub(1, AcqRel);
    }
}
