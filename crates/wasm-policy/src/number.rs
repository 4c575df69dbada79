//! Numbers as JavaScript has them, and as policy wants them.
//!
//! Halves of 32 bits carry what floating point would round. A time that is no number, or lies before the beginning,
//! is the beginning: a clock that jumps must not stop a pool.

use core::time::Duration;
use millpond_policy::Moment;

/// The number of two halves.
pub(crate) const fn whole(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// To the nearest nanosecond.
pub(crate) const fn nanos(nanos: f64) -> u64 {
    (nanos + 0.5) as u64
}

/// A moment, from nanoseconds.
pub(crate) const fn moment(now: f64) -> Moment {
    Moment::from_nanos(nanos(now))
}

/// A time, from nanoseconds.
#[inline(never)]
pub(crate) const fn duration(time: f64) -> Duration {
    Duration::from_nanos(nanos(time))
}

/// A time that may be left out: then it is below 0.
pub(crate) fn optional(time: f64) -> Option<Duration> {
    (time >= 0.0).then(|| duration(time))
}

/// A worker's number, or -1. Numbers are below 2^31, which [`workers_add`](crate::workers::workers_add) sees to.
pub(crate) fn worker(worker: Option<u32>) -> i32 {
    worker.map_or(-1, |worker| worker as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_and_nonsense_is_the_beginning() {
        assert_eq!((nanos(1.4), nanos(1.5), nanos(1e6)), (1, 2, 1_000_000));
        assert_eq!((nanos(f64::NAN), nanos(-5.0), nanos(f64::INFINITY)), (0, 0, u64::MAX));
        assert_eq!(
            (optional(-1.0), optional(f64::NAN), optional(2.0)),
            (None, None, Some(Duration::from_nanos(2)))
        );
    }

    #[test]
    fn halves_make_a_whole() {
        assert_eq!(whole(7, 1), (1 << 32) + 7);
        assert_eq!(whole(u32::MAX, u32::MAX), u64::MAX);
    }
}
