//! What a run came to: answers by status with their times, and everything that is no answer, each apart.
//!
//! A refusal (503) is quick by design. Were its time mixed with those of accepted requests, a server that
//! refuses nearly everything would look like the fastest of all.

use crate::response::Response;
use millpond_policy::histogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The status of a server that has no room.
const REFUSED: u16 = 503;

/// Answers of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// How many.
    pub count: u64,
    /// From when each was due to its last byte, in nanoseconds.
    pub times: Histogram,
    /// How long the shortest and the longest body were.
    pub body_bytes: Option<(u64, u64)>,
    /// When the last one came, counted from the start.
    pub last_after: Duration,
}

impl Answers {
    fn add(&mut self, time: Duration, body_bytes: u64, after: Duration) {
        self.count += 1;
        self.times.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.widen((body_bytes, body_bytes), after);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.times.merge(&other.times);
        if let Some(body_bytes) = other.body_bytes {
            self.widen(body_bytes, other.last_after);
        }
    }

    fn widen(&mut self, (shortest, longest): (u64, u64), after: Duration) {
        let (min, max) = self.body_bytes.unwrap_or((shortest, longest));
        self.body_bytes = Some((min.min(shortest), max.max(longest)));
        self.last_after = self.last_after.max(after);
    }
}

/// Requests without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The client gave up.
    pub timeouts: u64,
    /// The server broke the connection off.
    pub resets: u64,
    /// The connection ended in order, but before the answer did.
    pub cut_short: u64,
    /// There was no connection at all.
    pub unconnected: u64,
    /// What came was no HTTP.
    pub garbled: u64,
    /// What the first one was about, timeouts aside.
    pub first: Option<String>,
}

impl Faults {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.timeouts + self.resets + self.cut_short + self.unconnected + self.garbled
    }
}

/// What those saw who listened to events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// How many listened in the end.
    pub open: u64,
    /// How often a stream began: its head came, with status 200.
    pub begun: u64,
    /// How often one was not begun: no connection, or another status.
    pub failed: u64,
    /// How often one ended before the run did.
    pub ended: u64,
    /// Events of all streams.
    pub events: u64,
    /// Comments, which say that a stream still lives.
    pub heartbeats: u64,
    /// Bytes of all streams.
    pub bytes: u64,
}

/// One run, while it goes on and after it.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Answers by status.
    pub statuses: BTreeMap<u16, Answers>,
    /// Requests without one.
    pub faults: Faults,
    /// Requests begun; those that are neither answered nor a fault are under way.
    pub begun: u64,
    /// Connections opened for them.
    pub connections: u64,
    /// How much later than due requests were begun, in nanoseconds. It tells whether the generator kept up;
    /// the times of the answers have it in them.
    pub lag: Histogram,
    /// From the start to the last answer, or to now.
    pub elapsed: Duration,
    /// The events, if somebody listened.
    pub streams: Streams,
}

impl Measured {
    /// Answers that say yes: 200 to 299.
    pub fn accepted(&self) -> Answers {
        self.together(|status| (200..300).contains(&status))
    }

    /// Answers that say there is no room: 503.
    pub fn refused(&self) -> Answers {
        self.together(|status| status == REFUSED)
    }

    /// All other answers.
    pub fn others(&self) -> Answers {
        self.together(|status| !(200..300).contains(&status) && status != REFUSED)
    }

    /// All answers.
    pub fn answered(&self) -> u64 {
        self.statuses.values().map(|answers| answers.count).sum()
    }

    /// Requests that are still under way.
    pub fn under_way(&self) -> u64 {
        self.begun - self.answered() - self.faults.count()
    }

    fn together(&self, is_meant: impl Fn(u16) -> bool) -> Answers {
        let mut all = Answers::default();
        let meant = self.statuses.iter().filter(|(status, _)| is_meant(**status));
        meant.for_each(|(_, answers)| all.merge(answers));
        all
    }

    pub(crate) fn answer(&mut self, response: Response, time: Duration, after: Duration) {
        self.statuses.entry(response.status).or_default().add(time, response.body_bytes, after);
    }

    /// When the last answer came.
    pub(crate) fn last_after(&self) -> Option<Duration> {
        self.statuses.values().map(|answers| answers.last_after).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_kept_apart_from_what_was_accepted() {
        let mut measured = Measured { begun: 5, ..Measured::default() };
        for (status, body_bytes, ms) in [(200, 10, 50), (202, 12, 150), (503, 99, 1), (404, 7, 2)] {
            let time = Duration::from_millis(ms);
            measured.answer(Response { status, body_bytes, keeps: true }, time, time * 2);
        }
        let accepted = measured.accepted();
        assert_eq!((accepted.count, accepted.body_bytes), (2, Some((10, 12))));
        assert_eq!(accepted.times.max(), Some(150_000_000));
        assert_eq!(accepted.last_after, Duration::from_millis(300));
        assert_eq!(measured.refused().times.max(), Some(1_000_000));
        assert_eq!(measured.others().count, 1);
        assert_eq!((measured.answered(), measured.under_way()), (4, 1));
        measured.faults.resets += 1;
        assert_eq!(measured.under_way(), 0);
    }
}
