//! How long things took: a histogram whose buckets are a 64th of their value wide.
//!
//! Every power of two is cut into 64 equal buckets, and the numbers below 128 have a bucket each. A bucket
//! stands for its middle, which is less than 0.8 % from anything in it. All of `u64` fits, from one
//! nanosecond to centuries, in 3776 counts (30 KB), so there is no range to choose and no value to lose; only
//! pages that are used become real. Two histograms have the same buckets and merge by adding them up, in any
//! order.
//!
//! A pool counts in atomics of its own, one array for each worker: [`bucket_of`] says where, and
//! [`Histogram::add_counts`] reads such an array. Not here: the atomics, and the text for Prometheus.
//!
//! ```text
//! value    0 .. 127   128 .. 255   256 .. 511   ...   2^63 .. 2^64-1
//! width        1           2            4                  2^57
//! bucket   0 .. 127   128 .. 191   192 .. 255   ...   3712 .. 3775
//! ```

use crate::BadSetting;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;
use core::ops::RangeInclusive;

/// How many buckets there are.
pub const BUCKETS: usize = PER_OCTAVE * (u64::BITS - OCTAVE_BITS + 1) as usize;

/// Upper bounds for an exposition in a few buckets, in nanoseconds: 1, 5, 10, 25, 50, 100, 250, 500 and 1000
/// ms.
pub const BOUNDS_DEFAULT: [u64; 9] = [
    1_000_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];

const OCTAVE_BITS: u32 = 6;
const PER_OCTAVE: usize = 1 << OCTAVE_BITS;

/// The bucket of a value.
pub const fn bucket_of(value: u64) -> usize {
    // The highest bit says how wide the bucket is; the six bits below it say which of its octave.
    let shift = (u64::BITS - OCTAVE_BITS - 1).saturating_sub(value.leading_zeros());
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// The smallest value of a bucket. Panics unless `bucket` is below [`BUCKETS`].
pub const fn lower_bound(bucket: usize) -> u64 {
    assert!(bucket < BUCKETS, "there is no such bucket");
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    ((PER_OCTAVE + bucket % PER_OCTAVE) as u64) << width_bits(bucket)
}

/// The largest value of a bucket. Panics unless `bucket` is below [`BUCKETS`].
pub const fn upper_bound(bucket: usize) -> u64 {
    lower_bound(bucket) + ((1 << width_bits(bucket)) - 1)
}

/// The value that stands for a bucket: its middle, rounded down. Panics unless `bucket` is below [`BUCKETS`].
pub const fn middle(bucket: usize) -> u64 {
    lower_bound(bucket) + ((1 << width_bits(bucket)) - 1) / 2
}

const fn width_bits(bucket: usize) -> u32 {
    (bucket / PER_OCTAVE).saturating_sub(1) as u32
}

/// Counts of values, with their sum and their extremes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    /// `u64::MAX` while there are none.
    min: u64,
    max: u64,
}

/// The values that so many do not exceed; all 0 if there are no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
}

/// Counts that are not of this histogram's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLayout {
    /// So many buckets came, or more.
    pub got: usize,
}

impl fmt::Display for WrongLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "counts: expected {BUCKETS} buckets, got {}; count with bucket_of of this release",
            self.got
        )
    }
}

impl core::error::Error for WrongLayout {}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram of nothing.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// A histogram of counts that somebody kept by [`bucket_of`]; see [`add_counts`](Self::add_counts).
    pub fn from_counts(
        counts: impl IntoIterator<Item = u64>,
        sum: u64,
        extremes: Option<(u64, u64)>,
    ) -> Result<Self, WrongLayout> {
        let mut histogram = Self::new();
        histogram.add_counts(counts, sum, extremes)?;
        Ok(histogram)
    }

    /// Adds counts that somebody kept by [`bucket_of`], with the sum of their values and, where known, the
    /// smallest and the largest. Without those the bounds of the outermost buckets are taken.
    pub fn add_counts(
        &mut self,
        counts: impl IntoIterator<Item = u64>,
        sum: u64,
        extremes: Option<(u64, u64)>,
    ) -> Result<(), WrongLayout> {
        let mut added = Self::new();
        let mut got = 0;
        for count in counts {
            let Some(place) = added.counts.get_mut(got) else { return Err(WrongLayout { got: got + 1 }) };
            *place = count;
            added.count = added.count.saturating_add(count);
            got += 1;
        }
        if got != BUCKETS {
            return Err(WrongLayout { got });
        }
        let used = |&count: &u64| count > 0;
        if let (Some(first), Some(last)) =
            (added.counts.iter().position(used), added.counts.iter().rposition(used))
        {
            // Extremes kept beside counts may be a moment older or newer than those.
            let (min, max) = extremes.unwrap_or((lower_bound(first), upper_bound(last)));
            added.max = max.clamp(lower_bound(last), upper_bound(last));
            added.min = min.clamp(lower_bound(first), upper_bound(first)).min(added.max);
            added.sum = sum;
            self.merge(&added);
        }
        Ok(())
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value so many times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let place = &mut self.counts[bucket_of(value)];
        *place = place.saturating_add(times);
        self.count = self.count.saturating_add(times);
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        let used = other.used();
        for (mine, theirs) in self.counts[used.clone()].iter_mut().zip(&other.counts[used]) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything and keeps its memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// How many values there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// All values together; as large as can be, if that is too large.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The smallest value.
    pub const fn min(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.min) }
    }

    /// The largest value.
    pub const fn max(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.max) }
    }

    /// The mean, rounded down.
    pub const fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }

    /// How many values each bucket has.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The value that `per_10_000` of 10 000 values do not exceed: 5 000 is the median, 9 990 the p999. It is
    /// the middle of a bucket, kept between the smallest and the largest value: within 0.8 % of the true one.
    pub fn quantile(&self, per_10_000: u32) -> Option<u64> {
        let mut found = [0];
        self.quantiles(&[per_10_000], &mut found);
        (self.count > 0).then_some(found[0])
    }

    /// The percentiles that are usually asked for, in one pass.
    pub fn percentiles(&self) -> Percentiles {
        let mut found = [0; 5];
        self.quantiles(&[5_000, 9_000, 9_500, 9_900, 9_990], &mut found);
        let [p50, p90, p95, p99, p999] = found;
        Percentiles { p50, p90, p95, p99, p999 }
    }

    /// The quantiles of `shares`, which ascend.
    fn quantiles(&self, shares: &[u32], found: &mut [u64]) {
        if self.count == 0 {
            return;
        }
        let (mut bucket, last) = (bucket_of(self.min), bucket_of(self.max));
        let mut passed = self.counts[bucket];
        for (share, place) in shares.iter().zip(found) {
            let rank = self.rank(*share);
            // All counts together reach every rank, so the last bucket is never passed.
            while passed < rank && bucket < last {
                bucket += 1;
                passed = passed.saturating_add(self.counts[bucket]);
            }
            *place = middle(bucket).clamp(self.min, self.max);
        }
    }

    /// The buckets from the smallest value to the largest.
    fn used(&self) -> RangeInclusive<usize> {
        if self.count == 0 { RangeInclusive::new(1, 0) } else { bucket_of(self.min)..=bucket_of(self.max) }
    }

    /// Which value, counted from 1 in order of size, has that share of all at or below it.
    fn rank(&self, per_10_000: u32) -> u64 {
        let share = u128::from(per_10_000.min(10_000));
        let rank = (u128::from(self.count) * share).div_ceil(10_000);
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }

    /// How many values are at or below each of the `bounds`, which ascend, as Prometheus wants them. `counts`
    /// is filled as far as both reach. A bucket is counted where its middle is, so a bound is in effect moved
    /// by less than 0.8 %.
    pub fn cumulative(&self, bounds: &[u64], counts: &mut [u64]) {
        let (mut bucket, mut passed) = (0, 0_u64);
        for (bound, place) in bounds.iter().zip(counts) {
            while bucket < BUCKETS && middle(bucket) <= *bound {
                passed = passed.saturating_add(self.counts[bucket]);
                bucket += 1;
            }
            *place = passed;
        }
    }
}

/// Bounds for [`cumulative`](Histogram::cumulative), in nanoseconds, from the setting
/// `metrics.histogram_buckets`, which is in milliseconds.
pub fn bounds_from_ms(bounds_ms: &[f64]) -> Result<Vec<u64>, BadSetting> {
    let bad = |got| BadSetting {
        setting: "metrics.histogram_buckets",
        expected: "1 to 64 ascending numbers of milliseconds, each from 0.000001 to 1000000000".into(),
        got,
    };
    if !(1..=64).contains(&bounds_ms.len()) {
        return Err(bad(format!("{} numbers", bounds_ms.len())));
    }
    let mut bounds: Vec<u64> = Vec::with_capacity(bounds_ms.len());
    for (index, &bound_ms) in bounds_ms.iter().enumerate() {
        // A NaN is in no range.
        if !(0.000_001..=1e9).contains(&bound_ms) {
            return Err(bad(format!("{bound_ms} at place {}", index + 1)));
        }
        let bound = (bound_ms * 1e6 + 0.5) as u64;
        if bounds.last().is_some_and(|&before| before >= bound) {
            return Err(bad(format!("{bound_ms} after {}", bounds_ms[index - 1])));
        }
        bounds.push(bound);
    }
    Ok(bounds)
}
