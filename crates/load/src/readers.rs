//! Those who listen to a stream of events while the load runs: each opens one, counts what comes, and opens
//! it again if it ends.
//!
//! They have no deadline, since a stream may be silent. Whether they hear anything is part of what is
//! measured: a server that starves its streams under load shows few events here.

use crate::connection::{Connection, Manner, Step};
use crate::events::EventCounter;
use crate::measured::Streams;
use crate::plan::{Plan, Readers};
use mio::{Registry, Token};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long to wait before a stream is asked for again.
const REST: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct ReaderSet<'p> {
    plan: &'p Plan,
    request: Vec<u8>,
    /// The token of the first; the others follow.
    first_token: usize,
    streams: Vec<Option<Stream>>,
    /// Those without a stream, and when each tries again; the first to do so first.
    resting: VecDeque<(Instant, usize)>,
    /// What streams have brought that are no longer there, and the counts of beginnings and ends.
    past: Streams,
}

#[derive(Debug)]
struct Stream {
    connection: Connection,
    counter: EventCounter,
    bytes: u64,
    is_begun: bool,
}

impl<'p> ReaderSet<'p> {
    pub(crate) fn new(plan: &'p Plan, first_token: usize, now: Instant) -> Self {
        let (count, request) = match &plan.readers {
            Some(Readers { count, request }) => (*count, request.bytes(true)),
            None => (0, Vec::new()),
        };
        let resting = (0..count).map(|index| (now, index)).collect();
        let streams = (0..count).map(|_| None).collect();
        Self { plan, request, first_token, streams, resting, past: Streams::default() }
    }

    /// When the next one tries again.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        self.resting.front().map(|(at, _)| *at)
    }

    /// Lets everybody listen again whose rest is over.
    pub(crate) fn open_due(&mut self, now: Instant, registry: &Registry, buffer: &mut [u8]) {
        while let Some((_, index)) = self.resting.front().copied().filter(|(at, _)| *at <= now) {
            self.resting.pop_front();
            let token = Token(self.first_token + index);
            match Connection::open(&self.plan.address, registry, token, false) {
                Ok(connection) => {
                    let counter = EventCounter::default();
                    self.streams[index] = Some(Stream { connection, counter, bytes: 0, is_begun: false });
                    self.advance(index, false, now, buffer);
                }
                Err(_) => {
                    self.past.failed += 1;
                    self.resting.push_back((now + REST, index));
                }
            }
        }
    }

    /// Something happened on the connection with this token.
    pub(crate) fn on_event(&mut self, token: Token, is_closing: bool, now: Instant, buffer: &mut [u8]) {
        self.advance(token.0 - self.first_token, is_closing, now, buffer);
    }

    fn advance(&mut self, index: usize, is_closing: bool, now: Instant, buffer: &mut [u8]) {
        let Some(stream) = self.streams.get_mut(index).and_then(Option::as_mut) else { return };
        let manner = Manner { request: &self.request, reads_early: true };
        let Stream { connection, counter, bytes, .. } = stream;
        let step = connection.advance(manner, is_closing, buffer, |part| {
            *bytes += part.len() as u64;
            counter.feed(part);
        });
        if !stream.is_begun && connection.status() == Some(200) {
            stream.is_begun = true;
            self.past.begun += 1;
        }
        let is_refused = connection.status().is_some_and(|status| status != 200);
        if is_refused || !matches!(step, Step::Waits) {
            self.close(index, now);
        }
    }

    fn close(&mut self, index: usize, now: Instant) {
        let Some(stream) = self.streams[index].take() else { return };
        stream.add_to(&mut self.past);
        match stream.is_begun {
            true => self.past.ended += 1,
            false => self.past.failed += 1,
        }
        self.resting.push_back((now + REST, index));
    }

    /// What all have heard so far.
    pub(crate) fn heard(&self) -> Streams {
        let mut heard = self.past.clone();
        for stream in self.streams.iter().flatten() {
            stream.add_to(&mut heard);
            heard.open += u64::from(stream.is_begun);
        }
        heard
    }
}

impl Stream {
    fn add_to(&self, streams: &mut Streams) {
        streams.events += self.counter.events;
        streams.heartbeats += self.counter.heartbeats;
        streams.bytes += self.bytes;
    }
}
