//! Drawing at random: a small generator of integers that a seed repeats.
//!
//! It is SplitMix64, made for seeding and good enough to draw workers: one addition, two multiplications, and
//! every seed is as good as another. It is the same on every machine, so a run can be repeated from its seed
//! alone.

/// An endless row of numbers that only the seed decides.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    seed: u64,
    state: u64,
}

impl Draws {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// Begins the row again.
    pub(super) fn restart(&mut self) {
        self.state = self.seed;
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        scaled(self.next() >> 32, end)
    }

    /// Two different numbers below `end`, which must be at least 2.
    pub(super) fn two_below(&mut self, end: usize) -> (usize, usize) {
        let drawn = self.next();
        let one = scaled(drawn >> 32, end);
        let other = scaled(drawn & u64::from(u32::MAX), end - 1);
        // The other is drawn among those that are left.
        (one, if other < one { other } else { other + 1 })
    }
}

/// A share of 2^32 as a share of `end`. Some numbers come more often, by one in 2^32 / `end`.
fn scaled(share: u64, end: usize) -> usize {
    (share.wrapping_mul(end as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_the_published_one() {
        // The first numbers of SplitMix64 from the seed 1234567, as its reference implementation prints them.
        let mut draws = Draws::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([draws.next(), draws.next(), draws.next()], expected);
        draws.restart();
        assert_eq!(draws.next(), expected[0]);
    }

    #[test]
    fn every_pair_comes_about_as_often_as_another() {
        let mut draws = Draws::new(1);
        let mut seen = [[0_u32; 5]; 5];
        for _ in 0..20_000 {
            let (one, other) = draws.two_below(5);
            seen[one][other] += 1;
        }
        for (one, row) in seen.iter().enumerate() {
            assert_eq!(row[one], 0, "the two are different");
            // 20 pairs, 1000 of each expected, with a standard deviation of 31.
            assert!(
                row.iter().enumerate().all(|(other, n)| other == one || (850..1150).contains(n)),
                "{seen:?}"
            );
        }
    }
}
