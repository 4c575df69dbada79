//! One connection under load: so many tasks are under way, and for every result the next one is sent.
//!
//! The loop is what is measured along with the daemon, so it does little: it takes every answer that one read
//! brought, then sends as many tasks in one write. A result is read as JSON only if it does not begin like a
//! good one.

use crate::answer::{Outcome, Refusal};
use crate::failure::Failure;
use crate::{answer, daemon};
use millpond_local::{Client, Flags, Kind};
use millpond_policy::histogram::Histogram;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// When to come again if the daemon did not say.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// When to stop, and how far it all is. Shared by the lanes; only counts are exchanged, so no order is
/// needed.
#[derive(Debug)]
pub(super) struct Stop {
    is_over: AtomicBool,
    /// How many tasks may still be begun.
    left: AtomicU64,
    done: AtomicU64,
}

impl Stop {
    pub(super) fn new(tasks: Option<u64>) -> Self {
        let left = AtomicU64::new(tasks.unwrap_or(u64::MAX));
        Self { is_over: AtomicBool::new(false), left, done: AtomicU64::new(0) }
    }

    /// Nothing new is begun.
    pub(super) fn now(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Whether another task may be begun; if so, it is counted.
    fn begin(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        !self.is_over.load(Relaxed) && self.left.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

/// What a lane saw.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) done: u64,
    /// How often the queue was full.
    pub(super) refused: u64,
    /// Failures by name.
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) times: Histogram,
    /// When the last result came.
    pub(super) last: Option<Instant>,
}

impl Measured {
    pub(super) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.refused += other.refused;
        for (error, count) in other.failed {
            *self.failed.entry(error).or_default() += count;
        }
        self.times.merge(&other.times);
        self.last = self.last.max(other.last);
    }
}

/// One connection. The tag of a task is its place in `sent_at`.
#[derive(Debug)]
pub(super) struct Lane {
    client: Client,
    request: Vec<u8>,
    sent_at: Vec<Instant>,
    /// Places whose task is to be sent: at first all of them.
    free: Vec<usize>,
    measured: Measured,
    /// Until then the queue is full.
    not_before: Option<Instant>,
}

/// What came of one answer.
enum Came {
    /// A result. The place is free.
    Result,
    /// The queue is full; the task is still to be sent.
    Full(Duration),
}

impl Lane {
    pub(super) fn new(client: Client, request: Vec<u8>, in_flight: usize) -> Self {
        Self {
            client,
            request,
            sent_at: vec![Instant::now(); in_flight],
            free: (0..in_flight).collect(),
            measured: Measured::default(),
            not_before: None,
        }
    }

    /// Keeps tasks under way until it is told to stop, and waits for the last of them.
    pub(super) fn run(mut self, stop: &Stop) -> Result<Measured, Failure> {
        let mut again = 0;
        loop {
            self.send(stop, &mut again)?;
            if self.free.len() == self.sent_at.len() && again == 0 {
                return Ok(self.measured);
            }
            let wait = match self.not_before {
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(1),
            };
            self.receive(stop, wait, &mut again)?;
        }
    }

    /// Sends whatever there is room for. `again` counts tasks that were refused and are begun already.
    fn send(&mut self, stop: &Stop, again: &mut usize) -> Result<(), Failure> {
        if self.not_before.take_if(|at| *at <= Instant::now()).is_none() && self.not_before.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        while let Some(place) = self.free.last().copied() {
            if *again > 0 {
                *again -= 1;
            } else if !stop.begin() {
                break;
            }
            self.free.pop();
            self.sent_at[place] = now;
            let sent = self.client.send(Kind::Submit, Flags::RESULT, place as u64, &self.request);
            sent.map_err(gone)?;
        }
        Ok(())
    }

    /// Takes every answer that one read brought.
    fn receive(&mut self, stop: &Stop, wait: Duration, again: &mut usize) -> Result<(), Failure> {
        let Some(frame) = self.client.receive_timeout(wait).map_err(gone)? else { return Ok(()) };
        let now = Instant::now();
        let mut done = 0;
        let mut next = Some(frame);
        while let Some(frame) = next {
            let place = frame.tag as usize;
            let came = took(frame.kind, frame.payload, &mut self.measured.failed)?;
            let Some(sent_at) = self.sent_at.get(place) else {
                return Err(daemon::unexpected(frame.kind, "an answer to a task of ours"));
            };
            match came {
                Came::Result => {
                    self.measured.times.record(now.duration_since(*sent_at).as_nanos() as u64);
                    done += 1;
                }
                Came::Full(after) => {
                    self.measured.refused += 1;
                    *again += 1;
                    self.not_before = Some(now + after);
                }
            }
            self.free.push(place);
            next = self.client.receive_buffered();
        }
        self.measured.done += done;
        self.measured.last = Some(now);
        stop.done.fetch_add(done, Relaxed);
        Ok(())
    }
}

fn took(kind: Kind, payload: &[u8], failed: &mut BTreeMap<String, u64>) -> Result<Came, Failure> {
    let error = match kind {
        Kind::Result if is_good(payload) => return Ok(Came::Result),
        Kind::Result => {
            let outcome: Outcome = answer::read(payload)?;
            if outcome.status == 0 {
                return Ok(Came::Result);
            }
            outcome.error
        }
        Kind::Error => {
            let refusal = Refusal::read(payload)?;
            if refusal.is_full() {
                let after = refusal.retry_after_ms.map_or(AGAIN_AFTER, Duration::from_millis);
                return Ok(Came::Full(after));
            }
            if refusal.is_about_the_daemon() {
                return Err(refusal.into_failure());
            }
            refusal.error
        }
        other => return Err(daemon::unexpected(other, "RESULT")),
    };
    *failed.entry(error).or_default() += 1;
    Ok(Came::Result)
}

/// Whether the outcome begins as that of a task which ended well: `{"task_id":"t17","status":0,`. Our tasks
/// have ids of the daemon, in which nothing can look like that.
fn is_good(payload: &[u8]) -> bool {
    const GOOD: &[u8] = b"\"status\":0,";
    const ID_BYTES_MAX: usize = 40;
    payload[..payload.len().min(ID_BYTES_MAX + GOOD.len())].windows(GOOD.len()).any(|part| part == GOOD)
}

fn gone(error: io::Error) -> Failure {
    Failure::NoDaemon(format!("the daemon went away: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_outcomes_are_told_from_others_without_reading_them() {
        assert!(is_good(br#"{"task_id":"t18446744073709551615","status":0,"result":{},"attempts":1}"#));
        assert!(!is_good(
            br#"{"task_id":"t17","status":-5,"error":"handler-crashed","message":"\"status\":0,"}"#
        ));
        assert!(!is_good(b""));
    }

    #[test]
    fn no_more_tasks_are_begun_than_were_asked_for() {
        let stop = Stop::new(Some(2));
        assert!(stop.begin() && stop.begin() && !stop.begin());
        let endless = Stop::new(None);
        assert!(endless.begin());
        endless.now();
        assert!(!endless.begin());
    }
}
