//! How long tasks waited and ran, in buckets: for Prometheus, and for a picture of where the time goes.
//!
//! Histograms are kept by handler and are fine enough for any bounds; the buckets are made when somebody
//! asks. Counts are since the start and not cumulative, so whoever draws the last minute takes a difference.

use crate::registry::Registered;
use crate::service::ServiceHandle;
use millpond::policy::histogram::Histogram;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// Bounds that suit most: about three in each power of ten, from 10 µs to 100 s.
pub const LATENCY_BOUNDS_US: &[u64] = &[
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// Times in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Buckets {
    /// The upper bound of each bucket, ascending.
    pub bounds_us: Vec<u64>,
    /// How many times fell into each bucket; one more than there are bounds, for what lies beyond the last.
    pub counts: Vec<u64>,
    /// How many there were.
    pub count: u64,
    /// All together.
    pub sum_us: u64,
}

/// How long tasks took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// From acceptance to the last attempt.
    pub waited: Buckets,
    /// The last attempt.
    pub ran: Buckets,
}

impl Buckets {
    fn of(histogram: &Histogram, bounds_us: &[u64]) -> Self {
        let bounds_ns: Vec<_> = bounds_us.iter().map(|bound| bound.saturating_mul(1000)).collect();
        let mut counts = vec![0; bounds_us.len()];
        histogram.cumulative(&bounds_ns, &mut counts);
        counts.push(histogram.count());
        for place in (1..counts.len()).rev() {
            counts[place] = counts[place].saturating_sub(counts[place - 1]);
        }
        Self {
            bounds_us: bounds_us.to_vec(),
            counts,
            count: histogram.count(),
            sum_us: histogram.sum() / 1000,
        }
    }

    pub(crate) fn of_locked(histogram: &Mutex<Histogram>, bounds_us: &[u64]) -> Self {
        Self::of(&histogram.lock().unwrap_or_else(PoisonError::into_inner), bounds_us)
    }
}

impl ServiceHandle {
    /// How long the tasks of all handlers waited and ran, in buckets up to these bounds, which ascend.
    pub fn latency(&self, bounds_us: &[u64]) -> Latency {
        let merged = |of: fn(&Registered) -> &Mutex<Histogram>| {
            let mut all = Histogram::new();
            for registered in self.shared.registry.all() {
                all.merge(&of(registered).lock().unwrap_or_else(PoisonError::into_inner));
            }
            Buckets::of(&all, bounds_us)
        };
        Latency { waited: merged(|of| &of.waited), ran: merged(|of| &of.ran) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_one_bucket_and_the_last_has_what_is_beyond() {
        let mut histogram = Histogram::new();
        for us in [1, 9, 15, 150, 5_000_000] {
            histogram.record(us * 1000);
        }
        let buckets = Buckets::of(&histogram, &[10, 20, 100, 1000]);
        assert_eq!(buckets.counts, [2, 1, 0, 1, 1]);
        assert_eq!((buckets.count, buckets.sum_us), (5, 5_000_175));
        assert_eq!(Buckets::of(&Histogram::new(), &[10]).counts, [0, 0]);
        assert!(LATENCY_BOUNDS_US.windows(2).all(|two| two[0] < two[1]));
    }
}
