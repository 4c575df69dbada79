//! How long a task runs: four laws, each with the same mean, so that only their spread differs.
//!
//! | law | what it is | squared coefficient of variation |
//! |---|---|---|
//! | `exponential` | no memory; the usual textbook case | 1 |
//! | `heavy-tail` | bounded Pareto, alpha 1.5, the longest 10 000 times the shortest | about 33 |
//! | `bimodal` | nine of ten are short, the tenth takes ten times as long | about 2 |
//! | `constant` | all alike | 0 |
//!
//! Not here: service times that come with a recorded trace (`trace.rs`).

use crate::random::{Source, Stream};
use std::time::Duration;

/// The law of service times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Exponentially distributed.
    #[default]
    Exponential,
    /// Bounded Pareto with alpha 1.5; the longest task takes 10 000 times as long as the shortest.
    HeavyTail,
    /// Nine of ten tasks are short, and one takes ten times as long.
    Bimodal,
    /// All tasks take the same time.
    Constant,
}

/// One of ten tasks is long...
const LONG_SHARE: f64 = 0.1;
/// ...and takes ten times as long as the others.
const LONG_RATIO: f64 = 10.0;

const PARETO_ALPHA: f64 = 1.5;
const PARETO_RATIO: f64 = 10_000.0;

impl Service {
    /// Every law, in the order in which help texts list them.
    pub const ALL: &[Self] = &[Self::Exponential, Self::HeavyTail, Self::Bimodal, Self::Constant];

    /// What it is called: `heavy-tail`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::HeavyTail => "heavy-tail",
            Self::Bimodal => "bimodal",
            Self::Constant => "constant",
        }
    }
}

/// Draws service times, one for each task.
#[derive(Debug)]
pub(crate) struct ServiceTimes {
    law: Service,
    source: Source,
    mean_ns: f64,
    /// The shortest time under `HeavyTail`; what its formulas begin with.
    shortest_ns: f64,
    /// `(shortest / longest) ^ alpha` under `HeavyTail`.
    tail_cut: f64,
}

impl ServiceTimes {
    pub(crate) fn new(law: Service, mean: Duration, seed: u64) -> Self {
        let mean_ns = mean.as_nanos() as f64;
        let tail_cut = libm::pow(PARETO_RATIO, -PARETO_ALPHA);
        // The mean of a bounded Pareto is shortest × alpha/(alpha−1) × (1 − ratio^(1−alpha)) / (1 − ratio^−alpha).
        let mean_of_shortest = PARETO_ALPHA / (PARETO_ALPHA - 1.0)
            * (1.0 - libm::pow(PARETO_RATIO, 1.0 - PARETO_ALPHA))
            / (1.0 - tail_cut);
        let source = Source::new(seed, Stream::Service);
        Self { law, source, mean_ns, shortest_ns: mean_ns / mean_of_shortest, tail_cut }
    }

    /// The next task's service time in nanoseconds; at least 1.
    pub(crate) fn draw_ns(&mut self) -> u64 {
        let time = match self.law {
            Service::Exponential => self.mean_ns * self.source.exponential(),
            Service::Constant => self.mean_ns,
            Service::Bimodal => {
                let short = self.mean_ns / (1.0 - LONG_SHARE + LONG_SHARE * LONG_RATIO);
                if self.source.unit() <= LONG_SHARE { short * LONG_RATIO } else { short }
            }
            Service::HeavyTail => {
                let unit = self.source.unit();
                self.shortest_ns * libm::pow(1.0 - unit * (1.0 - self.tail_cut), -1.0 / PARETO_ALPHA)
            }
        };
        (libm::round(time) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(1);

    fn draws(law: Service, count: usize) -> Vec<f64> {
        let mut times = ServiceTimes::new(law, MEAN, 11);
        (0..count).map(|_| times.draw_ns() as f64 / MEAN.as_nanos() as f64).collect()
    }

    fn mean_and_variation(draws: &[f64]) -> (f64, f64) {
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        (mean, variance / (mean * mean))
    }

    #[test]
    fn every_law_has_the_mean_that_was_asked_for_and_its_own_spread() {
        for (law, variation, slack) in
            [(Service::Exponential, 1.0, 0.05), (Service::Bimodal, 2.02, 0.05), (Service::Constant, 0.0, 0.0)]
        {
            let (mean, measured) = mean_and_variation(&draws(law, 300_000));
            assert!((mean - 1.0).abs() < 0.01, "{law:?}: mean {mean}");
            assert!((measured - variation).abs() <= slack, "{law:?}: variation {measured}");
        }
        let (mean, variation) = mean_and_variation(&draws(Service::HeavyTail, 2_000_000));
        assert!((mean - 1.0).abs() < 0.02, "mean {mean}");
        assert!((25.0..42.0).contains(&variation), "variation {variation}; 32.7 by the formula");
    }

    #[test]
    fn one_of_ten_takes_ten_times_as_long() {
        let draws = draws(Service::Bimodal, 300_000);
        let short = 1.0 / 1.9;
        let long = draws.iter().filter(|time| (**time / short - 10.0).abs() < 1e-4).count();
        assert!((long as f64 / 300_000.0 - 0.1).abs() < 0.003, "{long}");
        assert_eq!(
            draws.iter().filter(|time| (**time / short - 1.0).abs() < 1e-4).count(),
            draws.len() - long
        );
    }

    #[test]
    fn the_heavy_tail_keeps_within_its_bounds() {
        let draws = draws(Service::HeavyTail, 500_000);
        let shortest = 0.99_f64.recip() / 3.0;
        let (low, high) =
            draws.iter().fold((f64::MAX, 0.0_f64), |(low, high), x| (low.min(*x), high.max(*x)));
        assert!((low / shortest - 1.0).abs() < 0.001, "{low} against {shortest}");
        assert!(high > 100.0 * shortest && high <= PARETO_RATIO * shortest * 1.001, "{high}");
    }
}
