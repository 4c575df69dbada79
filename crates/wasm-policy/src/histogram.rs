//! How long things took: histograms by number, counted in nanoseconds.
//!
//! A histogram takes 32 KB, so there is a limit to them; they live as long as the pool whose brain this is. What they
//! answer stands on the slate in whole numbers of 64 bits, which JavaScript reads as two halves.

use crate::brain::{self, Brain, has_room};
use crate::number::{nanos, whole};
use alloc::vec::Vec;
use millpond_policy::histogram::{self, Histogram};

/// The most histograms of one instance.
pub const HISTOGRAMS_MAX: usize = 256;
/// What one takes, as a block of the heap.
const HISTOGRAM_BYTES: usize = (histogram::BUCKETS * 8).next_power_of_two();
/// The most bounds of [`histogram_cumulative`].
const BOUNDS_MAX: usize = 64;

/// Histograms by number.
pub(crate) type Histograms = Vec<Histogram>;

impl Brain {
    fn histogram(&mut self, number: u32) -> Option<&mut Histogram> {
        self.histograms.get_mut(number as usize)
    }
}

/// Does something with a histogram; nothing if there is none of this number.
fn of(number: u32, act: impl FnOnce(&mut Histogram)) {
    brain::with(|brain| {
        if let Some(histogram) = brain.histogram(number) {
            act(histogram);
        }
    });
}

/// The number of a new histogram, or -1 if there are [`HISTOGRAMS_MAX`] or there is no memory for one.
#[unsafe(no_mangle)]
pub extern "C" fn histogram_new() -> i32 {
    brain::with(|brain| {
        let number = brain.histograms.len();
        if number >= HISTOGRAMS_MAX || !has_room(2 * HISTOGRAM_BYTES) {
            return -1;
        }
        brain.histograms.push(Histogram::new());
        number as i32
    })
}

/// Counts a time.
#[unsafe(no_mangle)]
pub extern "C" fn histogram_record(number: u32, time: f64) {
    of(number, |histogram| histogram.record(nanos(time)));
}

/// Counts a value so many times.
#[unsafe(no_mangle)]
pub extern "C" fn histogram_record_exact(number: u32, low: u32, high: u32, times_low: u32, times_high: u32) {
    of(number, |histogram| histogram.record_n(whole(low, high), whole(times_low, times_high)));
}

/// Writes what a histogram says to the slate: count, sum, smallest, largest, mean, p50, p90, p95, p99, p999. Of an
/// empty one all are 0. Answers 0 if there is none of this number.
#[unsafe(no_mangle)]
pub extern "C" fn histogram_read(number: u32) -> u32 {
    brain::with(|brain| {
        let Some(histogram) = brain.histogram(number) else { return 0 };
        let at = histogram.percentiles();
        let known = |fact: Option<u64>| fact.unwrap_or(0);
        let (least, most, mean) = (known(histogram.min()), known(histogram.max()), known(histogram.mean()));
        let (count, sum) = (histogram.count(), histogram.sum());
        brain.slate.put_all(&[count, sum, least, most, mean, at.p50, at.p90, at.p95, at.p99, at.p999]);
        1
    })
}

/// How many values are at or below each of the bounds on the slate, which are whole numbers of nanoseconds and ascend;
/// at most 64. The counts take their places. Answers with how many.
#[unsafe(no_mangle)]
pub extern "C" fn histogram_cumulative(number: u32, bounds: u32) -> u32 {
    brain::with(|brain| {
        let bounds = BOUNDS_MAX.min(bounds as usize);
        let (mut limits, mut counts) = ([0; BOUNDS_MAX], [0; BOUNDS_MAX]);
        for (at, limit) in limits[..bounds].iter_mut().enumerate() {
            *limit = brain.slate.read(at);
        }
        let Some(histogram) = brain.histogram(number) else { return 0 };
        histogram.cumulative(&limits[..bounds], &mut counts);
        for (at, count) in counts[..bounds].iter().enumerate() {
            brain.slate.put(at, *count);
        }
        bounds as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;

    fn read<const N: usize>() -> [u64; N] {
        brain::with(|brain| core::array::from_fn(|at| brain.slate.read(at)))
    }

    #[test]
    fn what_was_counted_is_answered() {
        assert_ne!(slate_at(0), 0);
        let (one, other) = (histogram_new() as u32, histogram_new() as u32);
        assert_eq!((histogram_read(one), read::<10>()), (1, [0; 10]));
        histogram_record(one, 99.6);
        histogram_record_exact(one, 50, 0, 3, 0);
        histogram_record_exact(other, 0, 1, 2, 0);
        assert_eq!(histogram_read(one), 1);
        assert_eq!(read::<10>(), [4, 250, 50, 100, 62, 50, 100, 100, 100, 100]);
        assert_eq!((histogram_read(other), read::<2>()), (1, [2, 1 << 33]), "each counts for itself");
        histogram_record(9, 1.0);
        assert_eq!(histogram_read(9), 0, "there is none of this number");
    }

    #[test]
    fn counts_take_the_places_of_their_bounds() {
        assert_ne!(slate_at(0), 0);
        let number = histogram_new() as u32;
        for nanos in [0.5e6, 3e6, 7e6] {
            histogram_record(number, nanos);
        }
        brain::with(|brain| brain.slate.put_all(&[1_000_000, 5_000_000, 10_000_000]));
        assert_eq!((histogram_cumulative(number, 3), read::<3>()), (3, [1, 2, 3]));
        assert_eq!((histogram_cumulative(number, u32::MAX), histogram_cumulative(99, 3)), (64, 0));
    }

    #[test]
    fn there_is_a_limit_to_histograms() {
        for number in 0..HISTOGRAMS_MAX as i32 {
            assert_eq!(histogram_new(), number);
        }
        assert_eq!(histogram_new(), -1);
    }
}
