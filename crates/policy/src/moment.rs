//! A moment in time, as policy is told it: nanoseconds since whatever the caller counts from.
//!
//! Policy has no clock. It compares moments and takes their difference, and never asks how late it is; so a test, the
//! simulator and a browser can all tell it their own time.

use core::fmt;
use core::ops::Add;
use core::time::Duration;

/// Nanoseconds since a beginning of the caller's choice. Five hundred years fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; nothing if it is still to come.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// As late as a moment can be, if the sum is later than that.
    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_to_come_is_no_time_ago_and_sums_stop_at_the_end() {
        let one = Moment::from_nanos(5);
        let two = one + Duration::from_nanos(7);
        assert_eq!(two.since(one), Duration::from_nanos(7));
        assert_eq!(one.since(two), Duration::ZERO);
        assert_eq!(one + Duration::MAX, Moment::from_nanos(u64::MAX));
    }
}
