//! Letting a number fade: it halves whenever a half-life has passed, however often one looks.
//!
//! Fading goes by elapsed time and not by events, so that a worker with many short tasks is measured like one
//! with few long ones. It is done in integers: whole half-lives are shifts, the rest is read off a table of
//! 64 steps with straight lines between them. The result is at most [`ERROR_PER_MILLION`] millionths above
//! the true one, plus 1 for rounding down.

use core::time::Duration;

/// How far above the truth a line between two steps runs at most: (ln 2 / 64)² / 8.
#[cfg(test)]
const ERROR_PER_MILLION: u64 = 15;

const STEPS: usize = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// 1, in the fractions used here.
const ONE: u64 = 1 << 32;

/// 2^(−step/64), of [`ONE`], less one of it so that 32 bits are enough; see [`faded`].
static FADED: [u32; STEPS + 1] = {
    /// 2^(−1/64), of 2^64.
    const STEP: u128 = 0xfd3e_0c0c_f486_c174;
    let mut table = [u32::MAX; STEPS + 1];
    let mut value: u128 = 1 << 64;
    let mut step = 1;
    while step <= STEPS {
        value = (value * STEP) >> 64;
        // To the nearest: what was cut off is far below half a unit.
        table[step] = (((value + (1 << 31)) >> 32) - 1) as u32;
        step += 1;
    }
    table
};

/// 2^(−step/64), of [`ONE`].
fn faded(step: usize) -> u64 {
    u64::from(FADED[step]) + 1
}

/// By how much numbers fade over some while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fading {
    /// Of [`ONE`]; from a half to the whole.
    fraction: u64,
    /// How often they are halved besides.
    halvings: u32,
}

impl Fading {
    /// Over `elapsed`, with a half-life that must not be 0.
    pub(crate) fn over(elapsed: Duration, half_life: Duration) -> Self {
        let half_life = half_life.as_nanos().max(1);
        let elapsed = elapsed.as_nanos();
        let halvings = u32::try_from(elapsed / half_life).unwrap_or(u32::MAX);
        // Durations may have 94 bits, and the quotient has 32 more: too many only for half-lives of
        // centuries.
        let rest = ((elapsed % half_life).saturating_mul(u128::from(ONE)) / half_life) as u64;
        let step = (rest >> (32 - STEP_BITS)) as usize;
        let beyond = rest & ((1 << (32 - STEP_BITS)) - 1);
        let drop = ((faded(step) - faded(step + 1)) * beyond) >> (32 - STEP_BITS);
        Self { fraction: faded(step) - drop, halvings }
    }

    /// What is left of `value`, rounded down.
    pub(crate) fn of(self, value: u64) -> u64 {
        let (high, low) = (value >> 32, value & (ONE - 1));
        let faded = high * self.fraction + ((low * self.fraction) >> 32);
        faded.checked_shr(self.halvings).unwrap_or(0)
    }

    /// What is left of something that grew evenly over `elapsed`, the while this fading is for, as a fraction
    /// of 2^32: the oldest part of it has faded wholly so, the newest not at all.
    pub(crate) fn of_even_growth(self, elapsed: Duration, half_life: Duration) -> u64 {
        /// 1 / ln 2, of 2^32.
        const PER_LN_2: u128 = 6_196_328_019;
        let gone = u128::from(ONE - self.of(ONE));
        let elapsed = elapsed.as_nanos().max(1);
        let mean = gone * PER_LN_2 / u128::from(ONE) * half_life.as_nanos() / elapsed;
        u64::try_from(mean).unwrap_or(ONE).min(ONE)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn fading_stays_within_the_stated_error() {
        let half_life = Duration::from_nanos(1_000_003);
        let value = 1_u64 << 52;
        for step in 0..40_000_u64 {
            let elapsed = Duration::from_nanos(step * 997);
            let truth = value as f64 * (-(elapsed.as_nanos() as f64) / 1_000_003.0).exp2();
            let faded = Fading::over(elapsed, half_life).of(value) as f64;
            let most = truth * (1.0 + ERROR_PER_MILLION as f64 / 1e6) + 1.0;
            assert!(
                faded >= truth * (1.0 - 1e-9) - 1.0 && faded <= most,
                "{elapsed:?}: {faded}, truth {truth}"
            );
        }
    }

    #[test]
    fn whole_half_lives_are_exact_and_the_ends_do_not_overflow() {
        let second = Duration::from_secs(1);
        for halvings in 0..64 {
            assert_eq!(Fading::over(second * halvings, second).of(u64::MAX), u64::MAX >> halvings);
        }
        assert_eq!(Fading::over(second * 64, second).of(u64::MAX), 0);
        assert_eq!(Fading::over(Duration::MAX, Duration::from_nanos(1)).of(u64::MAX), 0);
        assert_eq!(Fading::over(Duration::ZERO, Duration::MAX).of(7), 7);
        assert_eq!(Fading::over(Duration::from_nanos(1), Duration::MAX).of(7), 7);
    }

    #[test]
    fn two_halves_of_a_while_fade_as_much_as_the_whole() {
        let half_life = Duration::from_millis(10);
        for ms in 1..100 {
            let whole = Fading::over(Duration::from_millis(2 * ms), half_life).of(1 << 50);
            let half = Fading::over(Duration::from_millis(ms), half_life);
            let twice = half.of(half.of(1 << 50));
            assert!(whole.abs_diff(twice) <= whole / 30_000 + 2, "{ms} ms twice: {twice}, at once {whole}");
        }
    }

    #[test]
    fn even_growth_fades_as_the_integral_says() {
        let half_life = Duration::from_secs(1);
        for ms in [1_u64, 10, 500, 1_000, 5_000, 100_000] {
            let elapsed = Duration::from_millis(ms);
            let lives = ms as f64 / 1e3;
            let truth = (1.0 - (-lives).exp2()) / (lives * core::f64::consts::LN_2);
            let mean =
                Fading::over(elapsed, half_life).of_even_growth(elapsed, half_life) as f64 / ONE as f64;
            assert!((mean / truth - 1.0).abs() < 0.03, "{ms} ms: {mean}, truth {truth}");
        }
    }
}
