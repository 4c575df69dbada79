//! When tasks come: five processes, drawn one task at a time, so that ten million need no memory.
//!
//! All but a trace are given a mean gap between arrivals and keep to it in the long run; they differ in how the gaps
//! are spread. Time is kept in fractions of a nanosecond, so that rounding does not add up over a run.
//!
//! Not here: how the gap follows from the load (`scenario.rs`), how a trace is read (`trace.rs`).

use crate::random::{Source, Stream};
use crate::trace::Trace;
use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

/// The process by which tasks arrive.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// At random, one as likely as another at any time: many independent users.
    #[default]
    Poisson,
    /// Poisson while a burst lasts, and nothing between bursts. The lengths of both are exponential.
    Bursts {
        /// The mean length of a burst.
        on: Duration,
        /// The mean length of the pause between two.
        off: Duration,
    },
    /// Poisson with a rate that swings like a sine, as over the hours of a day; it begins at the mean and rises.
    Diurnal {
        /// The length of a day.
        period: Duration,
        /// How far the rate swings, as a share of its mean: 0 is not at all, 1 down to nothing and up to twice.
        swing: f64,
    },
    /// As they were recorded. The load of the scenario is not looked at.
    Trace(Arc<Trace>),
    /// One every so many nanoseconds, exactly.
    Even,
}

impl Arrivals {
    /// The names of all of them, in the order in which help texts list them.
    pub const NAMES: &[&str] = &["poisson", "bursts", "diurnal", "trace", "even"];

    /// What it is called: `poisson`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Bursts { .. } => "bursts",
            Self::Diurnal { .. } => "diurnal",
            Self::Trace(_) => "trace",
            Self::Even => "even",
        }
    }
}

/// Draws arrivals, one after the other.
#[derive(Debug)]
pub(crate) struct ArrivalTimes {
    process: Arrivals,
    source: Source,
    gap_ns: f64,
    /// How many have been drawn.
    drawn: u64,
    /// When the last one came, or the last candidate.
    clock_ns: f64,
    /// When the present burst ends.
    burst_ends_ns: f64,
}

impl ArrivalTimes {
    pub(crate) fn new(process: Arrivals, gap_ns: f64, seed: u64) -> Self {
        let mut source = Source::new(seed, Stream::Arrivals);
        let burst_ends_ns = match process {
            Arrivals::Bursts { on, .. } => on.as_nanos() as f64 * source.exponential(),
            _ => 0.0,
        };
        Self { process, source, gap_ns, drawn: 0, clock_ns: 0.0, burst_ends_ns }
    }

    /// When the next task comes, in nanoseconds since the beginning, and how long it runs if a trace says so.
    pub(crate) fn draw(&mut self) -> (u64, Option<u64>) {
        let place = self.drawn;
        self.drawn += 1;
        match &self.process {
            Arrivals::Trace(trace) => {
                let at = place as usize;
                return (trace.offset_ns(at), trace.service_ns(at));
            }
            Arrivals::Even => self.clock_ns = place as f64 * self.gap_ns,
            Arrivals::Poisson => self.clock_ns += self.gap_ns * self.source.exponential(),
            Arrivals::Bursts { on, off } => {
                let (on_ns, off_ns) = (on.as_nanos() as f64, off.as_nanos() as f64);
                self.draw_in_burst(on_ns, off_ns);
            }
            Arrivals::Diurnal { period, swing } => {
                let (period_ns, swing) = (period.as_nanos() as f64, *swing);
                self.draw_by_thinning(period_ns, swing);
            }
        }
        (self.clock_ns as u64, None)
    }

    /// A gap that ends after its burst is drawn anew in the next one, which exponential gaps allow: they have no
    /// memory of the time before.
    fn draw_in_burst(&mut self, on_ns: f64, off_ns: f64) {
        let gap_ns = self.gap_ns * on_ns / (on_ns + off_ns);
        loop {
            let next = self.clock_ns + gap_ns * self.source.exponential();
            if next <= self.burst_ends_ns {
                self.clock_ns = next;
                return;
            }
            self.clock_ns = self.burst_ends_ns + off_ns * self.source.exponential();
            self.burst_ends_ns = self.clock_ns + on_ns * self.source.exponential();
        }
    }

    /// Candidates come at the highest rate of the day, and each is taken with the chance that the rate at its time
    /// has of the highest. At least half of them are, on average.
    fn draw_by_thinning(&mut self, period_ns: f64, swing: f64) {
        let highest = 1.0 + swing;
        loop {
            self.clock_ns += self.gap_ns / highest * self.source.exponential();
            let phase = self.clock_ns % period_ns / period_ns;
            if self.source.unit() * highest <= 1.0 + swing * libm::sin(TAU * phase) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP_NS: f64 = 1000.0;

    fn draw(process: Arrivals, count: usize) -> Vec<u64> {
        let mut times = ArrivalTimes::new(process, GAP_NS, 3);
        (0..count).map(|_| times.draw().0).collect()
    }

    /// The variance of how many come in windows of 100 gaps, over its mean: 1 for Poisson.
    fn dispersion(arrivals: &[u64]) -> f64 {
        let mut counts = vec![0_f64; (arrivals[arrivals.len() - 1] as f64 / (100.0 * GAP_NS)) as usize];
        for arrival in arrivals {
            if let Some(count) = counts.get_mut((*arrival as f64 / (100.0 * GAP_NS)) as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / counts.len() as f64 / mean
    }

    #[test]
    fn every_process_keeps_to_the_mean_gap_and_differs_in_spread() {
        let bursts = Arrivals::Bursts { on: Duration::from_micros(10), off: Duration::from_micros(30) };
        let diurnal = Arrivals::Diurnal { period: Duration::from_millis(50), swing: 0.8 };
        // By theory, in gaps: of bursts 1 + 2·4·(1/10) / (1/10 + 1/30)² = 46, less some for the short window; of a day
        // 1 + 100 · 0.8²/2 = 33.
        for (process, low, high) in [
            (Arrivals::Poisson, 0.9, 1.1),
            (Arrivals::Even, 0.0, 0.01),
            (bursts, 37.0, 47.0),
            (diurnal, 31.0, 35.0),
        ] {
            let name = process.name();
            let arrivals = draw(process, 400_000);
            assert!(arrivals.is_sorted(), "{name}");
            let gap = arrivals[arrivals.len() - 1] as f64 / arrivals.len() as f64;
            assert!((gap / GAP_NS - 1.0).abs() < 0.03, "{name}: mean gap {gap}");
            let measured = dispersion(&arrivals);
            assert!((low..high).contains(&measured), "{name}: dispersion {measured}");
        }
    }

    #[test]
    fn a_day_has_its_noon_and_its_night() {
        let period = Duration::from_millis(1);
        let arrivals = draw(Arrivals::Diurnal { period, swing: 1.0 }, 200_000);
        let in_quarter = |quarter: u64| {
            arrivals.iter().filter(|at| *at % 1_000_000 / 250_000 == quarter).count() as f64 / 200_000.0
        };
        // The share of a quarter is 1/4 + 1/2π in the first half of the day and 1/4 − 1/2π in the second.
        for (quarter, share) in [(0, 0.409), (1, 0.409), (2, 0.091), (3, 0.091)] {
            assert!((in_quarter(quarter) - share).abs() < 0.01, "{quarter}: {}", in_quarter(quarter));
        }
    }

    #[test]
    fn a_trace_comes_back_as_it_is() {
        let trace = Trace::read("day", "0,1\n2.5,0.25\n".as_bytes()).unwrap();
        let mut times = ArrivalTimes::new(Arrivals::Trace(Arc::new(trace)), GAP_NS, 3);
        assert_eq!(times.draw(), (0, Some(1_000_000_000)));
        assert_eq!(times.draw(), (2_500_000_000, Some(250_000_000)));
    }
}
