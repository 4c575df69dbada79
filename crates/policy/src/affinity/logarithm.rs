//! The logarithm that weighted draws need, in integers, so that every machine finds the same owner.
//!
//! A draw u between 0 and 1 is stretched to −log2(u) / weight, and the smallest wins: then a worker wins in
//! proportion to its weight, exactly. The whole part of the logarithm is the number of leading zeros; the
//! rest is read from a table of 257 values, made when the program is compiled, and straight lines between
//! them. That is within 3 millionths of the truth, and falls with u as the truth does.

/// Bits behind the point of a result.
const POINT_BITS: u32 = 32;
const STEPS_BITS: u32 = 8;
const STEPS: usize = 1 << STEPS_BITS;

/// log2(1 + i / 256), with 32 bits behind the point. The last is 1, of which nothing is left in 32 bits.
static TABLE: [u32; STEPS + 1] = table();

/// −log2((draw + 1) / 2^64), with 32 bits behind the point: 0 for the highest draw, 64 for the lowest.
pub(super) fn minus_log2(draw: u64) -> u64 {
    let Some(number) = draw.checked_add(1) else { return 0 };
    let whole = u64::from(number.leading_zeros()) + 1;
    // Without its leading one, the number is what lies behind the point of 1.xxx.
    let behind = if whole < u64::from(u64::BITS) { number << whole } else { 0 };
    let step = (behind >> (u64::BITS - STEPS_BITS)) as usize;
    let within = (behind << STEPS_BITS) >> POINT_BITS;
    // Around the end of the numbers at the last step, where it is right again.
    let rise = u64::from(TABLE[step + 1].wrapping_sub(TABLE[step]));
    let log2 = u64::from(TABLE[step]) + ((rise * within) >> POINT_BITS);
    (whole << POINT_BITS) - log2
}

const fn table() -> [u32; STEPS + 1] {
    let mut table = [0; STEPS + 1];
    let mut step = 0;
    while step <= STEPS {
        table[step] = log2_of(STEPS + step) as u32;
        step += 1;
    }
    table
}

/// log2(number / 256) for a number from 256 to 512, bit by bit: squaring doubles a logarithm, and whenever
/// the square reaches 2, the bit is one.
const fn log2_of(number: usize) -> u64 {
    if number == 2 * STEPS {
        return 1 << POINT_BITS;
    }
    let one = 1_u128 << 62;
    let mut square = (number as u128) << (62 - STEPS_BITS);
    let mut log2 = 0;
    let mut bit = 0;
    while bit < POINT_BITS {
        square = (square * square) >> 62;
        log2 <<= 1;
        if square >= 2 * one {
            square >>= 1;
            log2 |= 1;
        }
        bit += 1;
    }
    log2
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn it_is_within_three_millionths_of_the_truth_and_never_rises() {
        let mut last = u64::MAX;
        for part in 0..=100_000_u64 {
            let draw = part * (u64::MAX / 100_000);
            let found = minus_log2(draw);
            let truth = -((draw as f64 + 1.0) / 2_f64.powi(64)).log2();
            let error = (found as f64 / 2_f64.powi(32) - truth).abs();
            assert!(error < 3e-6, "draw {draw}: {error}");
            assert!(found <= last, "draw {draw}");
            last = found;
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(minus_log2(u64::MAX), 0);
        assert_eq!(minus_log2(0), 64 << 32);
        assert_eq!(minus_log2((1 << 63) - 1), 1 << 32);
        assert_eq!(minus_log2(1), 63 << 32);
    }
}
