//! Where chance comes from: one seed, and from it a stream of its own for each use.
//!
//! Arrivals, service times and the strategy each draw from their own stream. So two strategies with one seed meet
//! the very same tasks, and a difference between them is not luck. Logarithms come from `libm`, which gives the same
//! bits everywhere; a seed repeats its run on any machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What a stream is for. The order is part of what a seed means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Arrivals,
    Service,
    Strategy,
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Source(Xoshiro256PlusPlus);

impl Source {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        // A jump is 2^128 steps long: the streams meet in no run of any length.
        for _ in 0..stream as u32 {
            generator.jump();
        }
        Self(generator)
    }

    /// A number for somebody who has a generator of his own.
    pub(crate) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Evenly spread above 0 and up to 1, in steps of 2^-53. Never 0, so that its logarithm exists.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.0.next_u64() >> 11) + 1) as f64 * STEP
    }

    /// Exponentially distributed with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_streams_differ() {
        let draw = |seed, stream| {
            let mut source = Source::new(seed, stream);
            [source.seed(), source.seed(), source.seed()]
        };
        assert_eq!(draw(7, Stream::Arrivals), draw(7, Stream::Arrivals));
        assert_ne!(draw(7, Stream::Arrivals), draw(8, Stream::Arrivals));
        assert_ne!(draw(7, Stream::Arrivals), draw(7, Stream::Service));
        assert_ne!(draw(7, Stream::Service), draw(7, Stream::Strategy));
    }

    #[test]
    fn exponential_times_have_the_mean_and_the_spread_of_their_law() {
        let mut source = Source::new(1, Stream::Service);
        let draws: Vec<f64> = (0..200_000).map(|_| source.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        assert!(draws.iter().all(|x| *x >= 0.0 && x.is_finite()));
    }
}
