//! The event loop: begins requests when they are due, moves every connection on, and counts how each ends.
//!
//! ```text
//! due or free ──► begin ──► under way ──► answer, fault or timeout ──► counted once
//!                   ▲                                   │
//!                   └── closed loop: the same client ◄──┴──► open loop: the connection is kept or dropped
//! ```
//!
//! Every request under way has one entry in `deadlines`. They all have the same timeout and begin in the
//! order in which they are due, so the list is sorted by itself.
//!
//! Not here: what one connection does (`connection.rs`), when requests are due (`schedule.rs`).

use crate::alarm::Alarm;
use crate::connection::{Connection, Fault, Manner, Step};
use crate::measured::Measured;
use crate::open_files;
use crate::plan::{Arrivals, LoadError, Plan};
use crate::readers::ReaderSet;
use crate::schedule::Schedule;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::mem;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How often whoever watches is shown how far it is.
const LOOK: Duration = Duration::from_millis(100);
/// How long a client waits that found no connection, so that a server which is gone is not asked without a
/// pause.
const REST: Duration = Duration::from_millis(20);
const BUFFER_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 1024;
const ALARM: Token = Token(usize::MAX - 1);

/// Makes the run. `watch` is shown ten times a second how far it is, and may end it.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(&Measured) -> ControlFlow<()>) -> Result<Measured, LoadError> {
    plan.check()?;
    open_files::make_room(plan.connections_max() + plan.readers_count())?;
    let request = plan.request.bytes(plan.keep_alive);
    Engine::new(plan, &request)?.run(watch)
}

struct Engine<'p> {
    plan: &'p Plan,
    manner: Manner<'p>,
    poll: Poll,
    alarm: Alarm,
    /// What the alarm is set to.
    alarm_at: Option<Instant>,
    start: Instant,
    /// From when on nothing is begun.
    end: Instant,
    schedule: Schedule,
    clients: Vec<Client>,
    /// Clients of an open loop with a connection that nobody uses.
    idle: Vec<usize>,
    /// Clients of an open loop without one.
    free: Vec<usize>,
    /// Clients of a closed loop that may ask again.
    ready: Vec<usize>,
    /// Clients of a closed loop that wait for a moment, the first to go on first.
    resting: VecDeque<(Instant, usize)>,
    deadlines: VecDeque<Deadline>,
    under_way: usize,
    readers: ReaderSet<'p>,
    measured: Measured,
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
struct Client {
    connection: Option<Connection>,
    exchange: Option<Exchange>,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    due: Instant,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    client: usize,
    /// The request it is about; the client may be with another one by then.
    number: u64,
}

impl<'p> Engine<'p> {
    fn new(plan: &'p Plan, request: &'p [u8]) -> Result<Self, LoadError> {
        let poll = Poll::new().map_err(LoadError::machine("waiting for sockets"))?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let count = plan.connections_max();
        let start = Instant::now();
        // Longer than anybody's patience, and still a time that can be reckoned with.
        let end = start.checked_add(plan.duration).unwrap_or(start + Duration::from_secs(u32::MAX.into()));
        let is_closed = matches!(plan.arrivals, Arrivals::Closed { .. });
        Ok(Self {
            plan,
            manner: Manner { request, reads_early: plan.reads_early },
            poll,
            alarm,
            alarm_at: None,
            start,
            end,
            schedule: Schedule::new(plan, start),
            clients: (0..count).map(|_| Client::default()).collect(),
            idle: Vec::new(),
            free: if is_closed { Vec::new() } else { (0..count).rev().collect() },
            ready: if is_closed { (0..count).rev().collect() } else { Vec::new() },
            resting: VecDeque::new(),
            deadlines: VecDeque::new(),
            under_way: 0,
            readers: ReaderSet::new(plan, count, start),
            measured: Measured::default(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    fn run(mut self, watch: &mut dyn FnMut(&Measured) -> ControlFlow<()>) -> Result<Measured, LoadError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut look_at = self.start + LOOK;
        loop {
            let now = Instant::now();
            self.expire(now);
            self.begin_due(now);
            self.readers.open_due(now, self.poll.registry(), &mut self.buffer);
            if now >= look_at {
                look_at = now + LOOK;
                self.measured.elapsed = now - self.start;
                self.measured.streams = self.readers.heard();
                if watch(&self.measured).is_break() {
                    break;
                }
            }
            if self.is_over(now) {
                break;
            }
            self.wait(&mut events, now, look_at)?;
            for event in &events {
                let is_closing = event.is_read_closed() || event.is_error();
                match event.token() {
                    ALARM => self.alarm_at = None,
                    Token(client) if client < self.clients.len() => self.advance(client, is_closing),
                    token => self.readers.on_event(token, is_closing, Instant::now(), &mut self.buffer),
                }
            }
        }
        self.measured.elapsed = self.measured.last_after().unwrap_or_else(|| self.start.elapsed());
        self.measured.streams = self.readers.heard();
        Ok(self.measured)
    }

    /// Nothing is under way and nothing will be.
    fn is_over(&self, now: Instant) -> bool {
        let may_begin = match self.plan.arrivals {
            Arrivals::Closed { .. } => now < self.end && self.measured.begun < self.plan.requests_max(),
            Arrivals::Open { .. } | Arrivals::Burst { .. } => self.schedule.due().is_some(),
        };
        self.under_way == 0 && !may_begin
    }

    /// Waits for events, or until something is due.
    fn wait(&mut self, events: &mut Events, now: Instant, look_at: Instant) -> Result<(), LoadError> {
        // A request that is due already waits for a connection; its time will come with one.
        if let Some(due) = self.schedule.due().filter(|due| *due > now && self.alarm_at != Some(*due)) {
            self.alarm.set(due - now)?;
            self.alarm_at = Some(due);
        }
        let deadline = self.deadlines.front().map(|deadline| deadline.at);
        let rest_over = self.resting.front().map(|(at, _)| *at);
        let times = [deadline, rest_over, self.readers.next_try()];
        let until = times.into_iter().flatten().fold(look_at, Instant::min);
        let until = if self.ready.is_empty() { until } else { now };
        match self.poll.poll(events, Some(until.saturating_duration_since(now))) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                Err(LoadError::machine("waiting for sockets")(error))
            }
            _ => Ok(()),
        }
    }

    /// Begins what the clock has made due, and lets clients go on whose rest is over.
    fn begin_due(&mut self, now: Instant) {
        while let Some(due) = self.schedule.due().filter(|due| *due <= now) {
            if now.duration_since(due) >= self.plan.timeout {
                // It waited for a connection for as long as it would have waited for an answer.
                self.measured.begun += 1;
                self.measured.faults.timeouts += 1;
            } else if let Some(client) = self.idle.pop().or_else(|| self.free.pop()) {
                self.begin(client, due, now);
            } else {
                return;
            }
            self.schedule.advance();
        }
        while let Some((_, client)) = self.resting.front().copied().filter(|(at, _)| *at <= now) {
            self.resting.pop_front();
            self.ready.push(client);
        }
        // Those that fail at once come back to the list, and have their turn in the next pass.
        for client in mem::take(&mut self.ready) {
            self.begin_again(client, now);
        }
    }

    /// The next request of a client in a closed loop, unless it is too late for one.
    fn begin_again(&mut self, client: usize, now: Instant) {
        if now < self.end && self.measured.begun < self.plan.requests_max() {
            self.begin(client, now, now);
        } else {
            self.clients[client].connection = None;
        }
    }

    fn begin(&mut self, client: usize, due: Instant, now: Instant) {
        self.measured.begun += 1;
        self.measured.lag.record(u64::try_from(now.duration_since(due).as_nanos()).unwrap_or(u64::MAX));
        let number = self.measured.begun;
        self.under_way += 1;
        self.deadlines.push_back(Deadline { at: due + self.plan.timeout, client, number });
        self.clients[client].exchange = Some(Exchange { due, number });
        // The answer is left to the loop: it is not there yet, and looking for it would cost a system call.
        if let Err(fault) = self.send(client) {
            self.failed(client, fault);
        }
    }

    fn send(&mut self, client: usize) -> Result<(), Fault> {
        let kept = self.clients[client].connection.take();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let is_bodiless = self.plan.request.is_head();
                let token = Token(client);
                let opened = Connection::open(&self.plan.address, self.poll.registry(), token, is_bodiless)?;
                self.measured.connections += 1;
                opened
            }
        };
        connection.begin(self.manner.request)?;
        self.clients[client].connection = Some(connection);
        Ok(())
    }

    /// Moves one connection on.
    fn advance(&mut self, client: usize, is_closing: bool) {
        let Client { connection: Some(connection), exchange } = &mut self.clients[client] else { return };
        if exchange.is_none() {
            // The server ends a connection that nobody uses, or talks unasked; either way it is done with.
            if is_closing {
                self.clients[client].connection = None;
                self.idle.retain(|idle| *idle != client);
                self.free.push(client);
            }
            return;
        }
        match connection.advance(self.manner, is_closing, &mut self.buffer, |_| ()) {
            Step::Waits => (),
            Step::Answered(response) => {
                let now = Instant::now();
                if let Some(exchange) = self.clients[client].exchange.take() {
                    let time = now.saturating_duration_since(exchange.due);
                    self.measured.answer(response, time, now - self.start);
                }
                self.under_way -= 1;
                self.released(client, response.keeps && self.plan.keep_alive, now);
            }
            Step::Failed(fault) => self.failed(client, fault),
        }
    }

    fn failed(&mut self, client: usize, fault: Fault) {
        let faults = &mut self.measured.faults;
        let (count, what) = match &fault {
            Fault::Reset(error) => (&mut faults.resets, error.to_string()),
            Fault::CutShort => (&mut faults.cut_short, "the connection ended before the answer".to_owned()),
            Fault::Unconnected(error) => (&mut faults.unconnected, error.to_string()),
            Fault::Garbled(fault) => (&mut faults.garbled, fault.to_string()),
        };
        *count += 1;
        faults.first.get_or_insert(what);
        self.clients[client].exchange = None;
        self.under_way -= 1;
        self.clients[client].connection = None;
        match (self.plan.arrivals, fault) {
            (Arrivals::Closed { .. }, Fault::Unconnected(_)) => {
                self.resting.push_back((Instant::now() + REST, client));
            }
            (Arrivals::Closed { .. }, _) => self.ready.push(client),
            (Arrivals::Open { .. } | Arrivals::Burst { .. }, _) => self.free.push(client),
        }
    }

    /// The client is done with its request.
    fn released(&mut self, client: usize, keeps: bool, now: Instant) {
        if !keeps {
            self.clients[client].connection = None;
        }
        match self.plan.arrivals {
            Arrivals::Closed { .. } => self.begin_again(client, now),
            Arrivals::Burst { .. } => self.clients[client].connection = None,
            Arrivals::Open { .. } if keeps => self.idle.push(client),
            Arrivals::Open { .. } => self.free.push(client),
        }
    }

    /// Gives up what has waited too long, and forgets deadlines of what is done.
    fn expire(&mut self, now: Instant) {
        while let Some(Deadline { at, client, number }) = self.deadlines.front().copied() {
            let is_open = self.clients[client].exchange.is_some_and(|exchange| exchange.number == number);
            if is_open && at > now {
                return;
            }
            self.deadlines.pop_front();
            if is_open {
                self.measured.faults.timeouts += 1;
                self.clients[client].exchange = None;
                self.under_way -= 1;
                self.released(client, false, now);
            }
        }
    }
}
