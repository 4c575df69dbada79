//! One message of a queue: what its headers say, what its place on the server says, and what is sent.
//!
//! The payload is a request as every door takes it; no header is needed, so that any NATS client can submit. What the
//! door has to remember about a task that it moves to another lane (its first sequence, when it came, how often it
//! failed) travels in headers.
//!
//! Not here: subjects and keys (`names.rs`), what becomes of a message (`intake.rs`, `ending.rs`).

use crate::names::Lane;
use async_nats::HeaderMap;
use millpond_tasks::config::NatsResults;
use millpond_tasks::{Request, TaskId};

/// The server takes a message with the same id only once within the window.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// `1`: what the task says is published while it runs.
pub const STREAM: &str = "Mill-Stream";
/// When it is due, in Unix time in milliseconds.
pub const RUN_AT: &str = "Mill-Run-At";
/// The sequence under which it came first, if it was moved.
pub const ORIGIN: &str = "Mill-Origin";
/// When it came first, in Unix time in milliseconds, if it was moved.
pub const SINCE: &str = "Mill-Since";
/// How many attempts have failed.
pub const FAILURES: &str = "Mill-Failures";
/// `all`, `failures` or `none`: which results are wanted of this task, whatever the settings say.
pub const RESULT: &str = "Mill-Result";
/// Why it is a dead letter.
pub const REASON: &str = "Mill-Reason";
/// What the task is called, as JSON, on a dead letter.
pub const TASK: &str = "Mill-Task";
/// The condition of a compare-and-set.
pub const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";

/// More attempts than any request allows.
const FAILURES_MAX: u64 = 1000;

/// What the headers of a message say. What is not there, or not understood, is as if it were not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// Whether what it says is published.
    pub streams: bool,
    /// When it is due.
    pub run_at_ms: Option<u64>,
    /// Its first sequence.
    pub origin: Option<u64>,
    /// When it came first.
    pub since_ms: Option<u64>,
    /// How many attempts have failed.
    pub failures: u32,
    /// Which results are wanted, if that is said.
    pub results: Option<NatsResults>,
}

impl Heading {
    /// Reads headers.
    pub fn read(headers: Option<&HeaderMap>) -> Self {
        let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { return Self::default() };
        let text = |name: &str| headers.get(name).map(|value| value.as_str().trim());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        Self {
            streams: text(STREAM) == Some("1"),
            run_at_ms: number(RUN_AT),
            origin: number(ORIGIN),
            since_ms: number(SINCE),
            failures: number(FAILURES).map_or(0, |failures| failures.min(FAILURES_MAX) as u32),
            results: match text(RESULT) {
                Some("all") => Some(NatsResults::All),
                Some("failures") => Some(NatsResults::Failures),
                Some("none") => Some(NatsResults::None),
                _ => None,
            },
        }
    }

    /// As headers, without an id of the message.
    pub fn write(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.streams {
            headers.insert(STREAM, "1");
        }
        if let Some(results) = self.results {
            headers.insert(RESULT, results_name(results));
        }
        let mut number = |name: &str, number: Option<u64>| {
            if let Some(number) = number {
                headers.insert(name, number.to_string().as_str());
            }
        };
        number(RUN_AT, self.run_at_ms);
        number(ORIGIN, self.origin);
        number(SINCE, self.since_ms);
        number(FAILURES, (self.failures > 0).then_some(self.failures.into()));
        headers
    }
}

/// Where a message stands on the server: what the subject of its acknowledgement says.
///
/// `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time in ns>.<pending>`; newer
/// servers may put the domain and a hash of the account after `ACK`, and a token at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lane it came by.
    pub lane: Lane,
    /// How often it has been given out.
    pub deliveries: u32,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When the server took it, in Unix time in milliseconds.
    pub at_ms: u64,
    /// How many more wait on this lane.
    pub pending: u64,
}

/// Of how many parts the subject is made, at most, as far as is known.
const PLACE_PARTS_MAX: usize = 10;

impl Place {
    /// Reads the subject to which an acknowledgement is sent; none if it is no such subject.
    pub fn read(reply: &str) -> Option<Self> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        let mut parts = [""; PLACE_PARTS_MAX];
        let mut count = 0;
        for (place, part) in parts.iter_mut().zip(rest.split('.')) {
            *place = part;
            count += 1;
        }
        let from = match count {
            7 => 0,
            9.. => 2,
            _ => return None,
        };
        let number = |at: usize| parts.get(from + at)?.parse::<u64>().ok();
        Some(Self {
            lane: Lane::by_name(parts.get(from + 1)?)?,
            deliveries: u32::try_from(number(2)?).unwrap_or(u32::MAX),
            sequence: number(3)?,
            at_ms: number(5)? / 1_000_000,
            pending: number(6)?,
        })
    }
}

/// As it is written in headers and settings.
pub fn results_name(results: NatsResults) -> &'static str {
    match results {
        NatsResults::All => "all",
        NatsResults::Failures => "failures",
        NatsResults::None => "none",
    }
}

/// What a task without an id of its own is called: by its first sequence.
pub fn given_id(origin: u64) -> TaskId {
    TaskId::Name(format!("n{origin}").into())
}

/// Which lane a request belongs to at this time, and when it is due if it has to wait.
pub fn lane_of(request: &Request, now_ms: u64) -> (Lane, Option<u64>) {
    let delay_ms = u64::try_from(request.delay.as_millis()).unwrap_or(u64::MAX);
    let due_ms = request.run_at_ms.or_else(|| (delay_ms > 0).then(|| now_ms.saturating_add(delay_ms)));
    match due_ms.filter(|due_ms| *due_ms > now_ms) {
        Some(due_ms) => (Lane::Later, Some(due_ms)),
        None => (Lane::of(request.priority), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_read_as_it_was_written() {
        let heading = Heading {
            streams: true,
            run_at_ms: Some(5),
            origin: Some(7),
            since_ms: Some(9),
            failures: 2,
            results: Some(NatsResults::Failures),
        };
        assert_eq!(Heading::read(Some(&heading.write())), heading);
        assert_eq!(Heading::read(Some(&Heading::default().write())), Heading::default());
        let mut odd = HeaderMap::new();
        odd.insert(RUN_AT, "soon");
        odd.insert(STREAM, "yes");
        assert_eq!(Heading::read(Some(&odd)), Heading::default(), "what is not understood is not said");
    }

    #[test]
    fn a_place_is_read_from_old_and_new_subjects() {
        let place =
            Place { lane: Lane::Low, deliveries: 3, sequence: 12, at_ms: 1_700_000_000_123, pending: 4 };
        let old = "$JS.ACK.MILL_jobs.low.3.12.77.1700000000123456789.4";
        let new = "$JS.ACK._.ACCOUNT.MILL_jobs.low.3.12.77.1700000000123456789.4.token";
        assert_eq!(Place::read(old), Some(place));
        assert_eq!(Place::read(new), Some(place));
        for other in ["", "_INBOX.a", "$JS.ACK.a.b", "$JS.ACK.MILL_jobs.other.3.12.77.17.4"] {
            assert_eq!(Place::read(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_due_goes_to_the_lane_of_its_priority() {
        let limits = millpond_tasks::Limits::default();
        let lane = |json: &str| lane_of(&Request::parse(json.as_bytes(), &limits).unwrap(), 1_000_000);
        assert_eq!(lane(r#"{"handler":"a"}"#), (Lane::Normal, None));
        assert_eq!(lane(r#"{"handler":"a","priority":"high"}"#), (Lane::High, None));
        assert_eq!(lane(r#"{"handler":"a","priority":"low","delay_ms":5}"#), (Lane::Later, Some(1_000_005)));
        assert_eq!(lane(r#"{"handler":"a","run_at":999999}"#), (Lane::Normal, None));
        assert_eq!(lane(r#"{"handler":"a","run_at":1000001}"#), (Lane::Later, Some(1_000_001)));
    }
}
