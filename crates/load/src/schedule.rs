//! When requests of an open loop are due, and which of them is next.
//!
//! Request number n is due n intervals after the start, to the nanosecond and without a sum that drifts. The
//! next one stays the next until it is begun, however late that is: this is what keeps a stall of the server
//! from hiding the requests that would have come meanwhile.

use crate::plan::{Arrivals, Plan};
use std::time::{Duration, Instant};

/// The requests that the clock makes due.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: Instant,
    /// None is due by the clock in a closed loop, all at once in a burst.
    per_second: f64,
    next: u64,
    /// One behind the last.
    end: u64,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan, start: Instant) -> Self {
        let (per_second, end) = match plan.arrivals {
            Arrivals::Closed { .. } => (f64::INFINITY, 0),
            Arrivals::Burst { .. } => (f64::INFINITY, plan.requests_max()),
            Arrivals::Open { per_second, .. } => {
                let within = (plan.duration.as_secs_f64() * per_second).ceil() as u64;
                (per_second, within.min(plan.requests_max()))
            }
        };
        Self { start, per_second, next: 0, end }
    }

    /// When the next request is due; none if it was the last.
    pub(crate) fn due(&self) -> Option<Instant> {
        let after = Duration::try_from_secs_f64(self.next as f64 / self.per_second).ok()?;
        (self.next < self.end).then(|| self.start + after)
    }

    /// The next request was begun, or has waited too long to be.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Address;

    fn due_after(arrivals: Arrivals, requests_max: Option<u64>) -> Vec<Duration> {
        let start = Instant::now();
        let address = Address::Unix("none".into());
        let plan = Plan { arrivals, requests_max, duration: Duration::from_secs(1), ..Plan::new(address) };
        let mut schedule = Schedule::new(&plan, start);
        std::iter::from_fn(|| {
            let due = schedule.due()?;
            schedule.advance();
            Some(due - start)
        })
        .collect()
    }

    #[test]
    fn an_open_loop_is_due_at_even_intervals_until_its_time_is_over() {
        let due = due_after(Arrivals::Open { per_second: 4000.0, connections_max: 1 }, None);
        assert_eq!(due.len(), 4000);
        assert_eq!(
            (due[0], due[1], due[3999]),
            (Duration::ZERO, Duration::from_micros(250), Duration::from_micros(999_750))
        );
        let few = due_after(Arrivals::Open { per_second: 4000.0, connections_max: 1 }, Some(3));
        assert_eq!(few.len(), 3);
    }

    #[test]
    fn a_burst_is_due_at_once_and_a_closed_loop_never() {
        assert_eq!(due_after(Arrivals::Burst { clients: 3 }, None), [Duration::ZERO; 3]);
        assert_eq!(due_after(Arrivals::Closed { clients: 3 }, None), []);
    }
}
