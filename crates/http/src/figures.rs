//! What the door has done and has to do, in figures. Anybody counts, anybody reads.
//!
//! Nothing is decided by these numbers, so they need no order among them. What changes with every request is
//! one addition; what costs more (times) is recorded only for those who had to wait.
//!
//! Not here: how the figures are shown (`stats.rs`, `metrics.rs`).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

/// Upper bounds of the buckets of waits, in microseconds. The last bucket has none.
pub(crate) const WAIT_BOUNDS_US: [u64; 12] =
    [100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000];

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// The line was full.
    QueueFull,
    /// It waited in the line for too long.
    QueueTimeout,
    /// Too many connections are open.
    TooMany,
    /// Its address has too many.
    PeerTooMany,
    /// The daemon ends.
    Draining,
    /// The system has no more file descriptors.
    NoDescriptors,
    /// Another user's program, at the Unix socket.
    Stranger,
}

impl Turned {
    pub(crate) const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::QueueTimeout,
        Self::TooMany,
        Self::PeerTooMany,
        Self::Draining,
        Self::NoDescriptors,
        Self::Stranger,
    ];

    /// As it is written in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::QueueTimeout => "queue-timeout",
            Self::TooMany => "connections-max",
            Self::PeerTooMany => "connections-per-peer-max",
            Self::Draining => "draining",
            Self::NoDescriptors => "no-descriptors",
            Self::Stranger => "stranger",
        }
    }
}

/// Why an open connection was ended by the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// No request came for too long.
    Idle,
    /// Room was needed for another.
    Evicted,
    /// A head took too long.
    SlowHead,
    /// An answer was not read.
    Stalled,
    /// The daemon ends: finish what runs.
    Drain,
    /// The daemon ends now.
    Abort,
}

impl Cut {
    pub(crate) const ALL: [Self; 6] =
        [Self::Idle, Self::Evicted, Self::SlowHead, Self::Stalled, Self::Drain, Self::Abort];

    /// As it is written in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::SlowHead => "slow-head",
            Self::Stalled => "stalled",
            Self::Drain => "drain",
            Self::Abort => "abort",
        }
    }
}

/// Counters of the door.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Connections that the system handed over.
    pub(crate) accepted: AtomicU64,
    /// Requests whose head was complete.
    pub(crate) requests: AtomicU64,
    /// Connections that hyper gave up: bytes that are no HTTP, or a peer that went away in the middle.
    pub(crate) broken: AtomicU64,
    /// Answers that ended in a panic of ours.
    pub(crate) panics: AtomicU64,
    /// Clients that are still given time to read their last answer: refused ones, and those that may still send.
    pub(crate) lingering: AtomicUsize,
    /// Health checks that are served although there is no place.
    pub(crate) reserved: AtomicUsize,
    turned: [AtomicU64; Turned::ALL.len()],
    cut: [AtomicU64; Cut::ALL.len()],
}

impl Figures {
    pub(crate) fn was_turned(&self, why: Turned) -> u64 {
        self.turned[why as usize].fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn turned(&self, why: Turned) -> u64 {
        self.turned[why as usize].load(Relaxed)
    }

    /// All that were turned away, for whatever reason.
    pub(crate) fn turned_all(&self) -> u64 {
        Turned::ALL.into_iter().map(|why| self.turned(why)).sum()
    }

    pub(crate) fn was_cut(&self, why: Cut) {
        self.cut[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn cut(&self, why: Cut) -> u64 {
        self.cut[why as usize].load(Relaxed)
    }
}

/// How long those waited who had to.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    buckets: [AtomicU64; WAIT_BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Waits {
    pub(crate) fn record(&self, wait: Duration) {
        let micros = wait.as_micros();
        let bucket = WAIT_BOUNDS_US.iter().position(|bound| micros <= u128::from(*bound));
        self.buckets[bucket.unwrap_or(WAIT_BOUNDS_US.len())].fetch_add(1, Relaxed);
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(nanos, Relaxed);
        self.max_ns.fetch_max(nanos, Relaxed);
    }

    /// How many waited up to each bound, not with those of lower bounds; then those above all of them.
    pub(crate) fn buckets(&self) -> [u64; WAIT_BOUNDS_US.len() + 1] {
        self.buckets.each_ref().map(|bucket| bucket.load(Relaxed))
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets().iter().sum()
    }

    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Relaxed))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_in_the_bucket_whose_bound_it_does_not_pass() {
        let waits = Waits::default();
        for wait in [Duration::ZERO, Duration::from_micros(100), Duration::from_micros(101), Duration::MAX] {
            waits.record(wait);
        }
        let buckets = waits.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[WAIT_BOUNDS_US.len()]), (2, 1, 1));
        assert_eq!((waits.count(), waits.max()), (4, Duration::from_nanos(u64::MAX)));
    }

    #[test]
    fn every_reason_has_a_name_and_a_counter_of_its_own() {
        let figures = Figures::default();
        for (index, why) in Turned::ALL.into_iter().enumerate() {
            for _ in 0..=index {
                figures.was_turned(why);
            }
        }
        for (index, why) in Turned::ALL.into_iter().enumerate() {
            assert_eq!(figures.turned(why), index as u64 + 1, "{}", why.name());
        }
        for (index, why) in Cut::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, index, "{}", why.name());
        }
    }
}
