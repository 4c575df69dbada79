//! How many requests were answered, by route and status, and how long that took.
//!
//! Every answer passes here, a hundred thousand times a second, so it costs three additions and no look-up:
//! routes have numbers, statuses have places, and the table has its size from the start. A scrape reads it as
//! it is; figures of one moment may be an answer apart.
//!
//! Not here: connections, and requests for which there was no place (`figures.rs`).

use crate::api::routes;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Upper bounds of the buckets of durations, in microseconds. The last bucket has none.
pub(crate) const DURATION_BOUNDS_US: [u64; 14] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 10_000_000];

/// Statuses that are counted one by one; any other counts as 0.
pub(crate) const STATUSES: [u16; 22] = [
    200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 431, 500, 503, 504,
    0,
];

/// The place of every status in the list.
const PLACES: [u8; 600] = {
    let mut places = [STATUSES.len() as u8 - 1; 600];
    let mut index = 0;
    while index < STATUSES.len() - 1 {
        places[STATUSES[index] as usize] = index as u8;
        index += 1;
    }
    places
};

/// The answers of one route. Aligned, so that busy routes do not share a line of memory.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Row {
    statuses: [AtomicU64; STATUSES.len()],
    buckets: [AtomicU64; DURATION_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The answers of all routes. Anybody counts, anybody reads.
#[derive(Debug)]
pub(crate) struct Meter {
    /// By the number of the route; the last is for addresses that have none.
    rows: Box<[Row]>,
}

impl Default for Meter {
    /// For the routes that there are.
    fn default() -> Self {
        Self::new(routes::ROUTES.len())
    }
}

impl Meter {
    fn new(routes: usize) -> Self {
        Self { rows: (0..=routes).map(|_| Row::default()).collect() }
    }

    /// A request was answered with this status after so long. The route is its number, if there is one.
    pub(crate) fn record(&self, route: Option<usize>, status: u16, took: Duration) {
        let last = self.rows.len() - 1;
        let row = &self.rows[route.unwrap_or(last).min(last)];
        let place = PLACES.get(usize::from(status)).map_or(STATUSES.len() - 1, |place| usize::from(*place));
        row.statuses[place].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        row.buckets[DURATION_BOUNDS_US.partition_point(|bound| *bound < micros)].fetch_add(1, Relaxed);
        row.sum_us.fetch_add(micros, Relaxed);
    }

    /// All answers.
    pub(crate) fn answered(&self) -> u64 {
        self.rows.iter().map(Row::count).sum()
    }

    /// By the number of the route, then those without one.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Row {
    /// All answers of this route.
    pub(crate) fn count(&self) -> u64 {
        self.statuses.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// The statuses that occurred, and how often.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.statuses.iter().map(|count| count.load(Relaxed));
        STATUSES.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// How many took up to each bound, not with those of lower bounds; then those above all of them.
    pub(crate) fn buckets(&self) -> [u64; DURATION_BOUNDS_US.len() + 1] {
        self.buckets.each_ref().map(|bucket| bucket.load(Relaxed))
    }

    /// How long all took together.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_once_under_its_route_and_status() {
        let meter = Meter::new(2);
        meter.record(Some(0), 200, Duration::ZERO);
        meter.record(Some(0), 200, Duration::ZERO);
        meter.record(Some(1), 503, Duration::ZERO);
        meter.record(None, 404, Duration::ZERO);
        let seen: Vec<Vec<_>> = meter.rows().iter().map(|row| row.statuses().collect()).collect();
        assert_eq!(seen, [vec![(200, 2)], vec![(503, 1)], vec![(404, 1)]]);
        assert_eq!(meter.answered(), 4);
    }

    #[test]
    fn statuses_and_routes_that_nobody_thought_of_are_counted_too() {
        let meter = Meter::new(1);
        for status in [0, 99, 418, 599, 999, u16::MAX] {
            meter.record(Some(7), status, Duration::ZERO);
        }
        let seen: Vec<_> = meter.rows()[1].statuses().collect();
        assert_eq!(seen, [(0, 6)]);
    }

    #[test]
    fn a_duration_is_counted_in_the_bucket_whose_bound_it_does_not_pass() {
        let meter = Meter::new(1);
        let times = [0, 50, 51, 10_000_000, 10_000_001].map(Duration::from_micros);
        for took in times {
            meter.record(Some(0), 200, took);
        }
        let row = &meter.rows()[0];
        let buckets = row.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), row.sum()), (5, times.iter().sum()));
    }
}
