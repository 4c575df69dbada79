//! How many tasks will come: the rate of arrivals and how it changes, both smoothed over time.
//!
//! This is Holt's method for samples at any distance. The rate that was expected, from the last one and its
//! slope, and the rate that was measured are mixed; how much the expected one counts halves with every
//! half-life that passes. The slope is smoothed alike, over twice the time, so that it does not follow every
//! jump. On a steady climb it neither lags nor overshoots, which a plain moving average would: that is what
//! makes it fit to look ahead.
//!
//! Rates are in millionths of a task a second, and slopes in such rates a second: whole numbers, alike
//! everywhere.

use crate::Moment;
use crate::decay::Fading;
use core::time::Duration;

/// Millionths in one.
const MILLION: i128 = 1_000_000;
/// Nanoseconds in a second.
const SECOND_NS: i128 = 1_000_000_000;

/// The trend of arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trend {
    /// The last sample: when, and how many had come by then.
    last: Option<(Moment, u64)>,
    /// None until there are two samples.
    rate: Option<i64>,
    slope: i64,
}

impl Trend {
    /// Takes a sample: by `now` so many tasks have come. A number that is smaller than before begins anew.
    pub(super) fn observe(&mut self, arrivals_total: u64, now: Moment, half_life: Duration) {
        let (at, before) = match self.last {
            Some((at, before)) if arrivals_total >= before => (at, before),
            _ => {
                *self = Self { last: Some((now, arrivals_total)), ..Self::default() };
                return;
            }
        };
        let elapsed = now.since(at);
        let elapsed_ns = elapsed.as_nanos() as i128;
        if elapsed_ns == 0 {
            // Two samples of one moment say nothing about a rate. What has come is counted with the next.
            return;
        }
        self.last = Some((now, arrivals_total));
        let measured = moved(0, i128::from(arrivals_total - before), MILLION * SECOND_NS, elapsed_ns);
        let Some(rate) = self.rate else {
            self.rate = Some(measured);
            return;
        };
        let expected = moved(rate, self.slope.into(), elapsed_ns, SECOND_NS);
        let mixed = mix(expected, measured, Fading::over(elapsed, half_life));
        let climbed = moved(0, i128::from(mixed) - i128::from(rate), SECOND_NS, elapsed_ns);
        self.slope = mix(self.slope, climbed, Fading::over(elapsed, half_life.saturating_mul(2)));
        self.rate = Some(mixed);
    }

    /// How many workers it will take after `horizon`, if each is to be busy for `utilisation` thousandths of
    /// its time; 0 if nothing is known.
    pub(super) fn workers_needed(&self, horizon: Duration, run_mean_ns: u64, utilisation: u64) -> u32 {
        let Some(rate) = self.rate else { return 0 };
        let horizon_ns = i128::from(u64::try_from(horizon.as_nanos()).unwrap_or(u64::MAX));
        let rate = moved(rate, self.slope.into(), horizon_ns, SECOND_NS);
        let rate = u128::from(rate.max(0).unsigned_abs());
        let busy = rate * u128::from(run_mean_ns);
        let whole = (MILLION * SECOND_NS / 1000).unsigned_abs() * u128::from(utilisation);
        u32::try_from(busy.div_ceil(whole)).unwrap_or(u32::MAX)
    }
}

/// `new`, and of what `old` differs from it as much as has not faded.
fn mix(old: i64, new: i64, fading: Fading) -> i64 {
    let left = i128::from(fading.of(old.abs_diff(new)));
    moved(new, if old < new { -left } else { left }, 1, 1)
}

/// `from`, moved on by `by` times `times` in `per`; the nearest number that fits. Kept apart, since numbers of 128 bits
/// take much code where there is no instruction for them.
#[inline(never)]
fn moved(from: i64, by: i128, times: i128, per: i128) -> i64 {
    let to = i128::from(from) + by * times / per;
    let fits = to.clamp(i64::MIN.into(), i64::MAX.into());
    i64::try_from(fits).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    /// A trend of one sample a second, at these rates.
    fn of_rates(rates: impl Iterator<Item = u64>) -> Trend {
        let mut trend = Trend::default();
        let (mut total, mut now) = (0, Moment::ZERO);
        trend.observe(total, now, HALF_LIFE);
        for rate in rates {
            (total, now) = (total + rate, now + SECOND);
            trend.observe(total, now, HALF_LIFE);
        }
        trend
    }

    fn needed(trend: &Trend, horizon: Duration) -> u32 {
        // A task of one second and workers that may be busy all the time: as many workers as tasks a second.
        trend.workers_needed(horizon, 1_000_000_000, 1000)
    }

    #[test]
    fn a_steady_rate_is_found_at_once_and_foretold_as_it_is() {
        for samples in [1, 2, 50] {
            assert_eq!(needed(&of_rates((0..samples).map(|_| 25)), 60 * SECOND), 25);
        }
    }

    #[test]
    fn a_steady_climb_is_foretold_without_lag() {
        let trend = of_rates((0..200).map(|second| 10 + 2 * second));
        // At the end 408 a second come; 20 seconds later it will be 448.
        assert!((407..=409).contains(&needed(&trend, Duration::ZERO)));
        assert!((447..=450).contains(&needed(&trend, 20 * SECOND)));
    }

    #[test]
    fn a_fall_is_foretold_and_ends_at_nothing() {
        let trend = of_rates((0..100).map(|second| 500 - 5 * second));
        assert!(needed(&trend, SECOND) < 10);
        assert_eq!(needed(&trend, 60 * SECOND), 0, "there is no rate below nothing");
    }

    #[test]
    fn without_two_samples_or_a_run_time_nothing_is_foretold() {
        assert_eq!(needed(&Trend::default(), SECOND), 0);
        assert_eq!(needed(&of_rates(core::iter::empty()), SECOND), 0);
        assert_eq!(of_rates([9, 9].into_iter()).workers_needed(SECOND, 0, 800), 0);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut trend = Trend::default();
        for (nanos, total) in [(0, 0), (1, u64::MAX / 2), (2, u64::MAX), (3, u64::MAX)] {
            trend.observe(total, Moment::from_nanos(nanos), Duration::from_nanos(1));
        }
        let _ = trend.workers_needed(Duration::MAX, u64::MAX, 1);
        let mut trend = Trend::default();
        trend.observe(0, Moment::ZERO, Duration::MAX);
        trend.observe(u64::MAX, Moment::from_nanos(1), Duration::MAX);
        trend.observe(u64::MAX, Moment::from_nanos(u64::MAX), Duration::MAX);
        assert!(trend.workers_needed(Duration::ZERO, u64::MAX, 1) > 0);
    }
}
