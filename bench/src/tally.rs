//! Whether a round moved every item once: the count and the sum of what came out.
//!
//! The items of a round are the numbers from 1 to n, dealt out to the producers in unbroken runs. A lost item is
//! missing from the count and from the sum; one lost and another doubled still shows in the sum.
//!
//! Not here: stopping the run for it (`measure.rs`).

use std::ops::Range;

/// What one consumer saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    /// Counts one item in.
    #[inline(always)]
    pub(crate) fn add(&mut self, item: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(item);
    }

    /// What was counted and summed elsewhere.
    pub(crate) fn of(count: u64, sum: u64) -> Self {
        Self { count, sum }
    }

    /// What several consumers saw together.
    pub(crate) fn total(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |total, part| Self {
            count: total.count + part.count,
            sum: total.sum.wrapping_add(part.sum),
        })
    }

    /// Fails unless this is what the numbers from 1 to `items` come to, each seen once.
    pub(crate) fn check(self, items: u64) -> Result<(), String> {
        let expected = Self { count: items, sum: (1..=items).fold(0, u64::wrapping_add) };
        if self == expected {
            return Ok(());
        }
        let fault = match self.count {
            count if count < items => format!("{} of {items} items were lost", items - count),
            count if count > items => format!("{} items came out that never went in", count - items),
            _ => format!("{items} items came out, but not the ones that went in"),
        };
        Err(format!("{fault}: expected the sum {}, got {}", expected.sum, self.sum))
    }
}

/// The items that producer `index` of `producers` brings.
pub(crate) fn share(items: u64, index: usize, producers: usize) -> Range<u64> {
    let border = |index: usize| 1 + items * index as u64 / producers as u64;
    border(index)..border(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(items: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        items.into_iter().for_each(|item| tally.add(item));
        tally
    }

    #[test]
    fn the_shares_hold_every_item_once() {
        for producers in 1..=5 {
            let parts = (0..producers).map(|index| tally(share(1001, index, producers)));
            Tally::total(parts).check(1001).unwrap();
        }
    }

    #[test]
    fn a_lost_a_doubled_and_a_swapped_item_are_all_found() {
        let message = |items: &[u64]| tally(items.iter().copied()).check(4).unwrap_err();
        assert_eq!(message(&[1, 2, 4]), "1 of 4 items were lost: expected the sum 10, got 7");
        assert_eq!(
            message(&[1, 2, 3, 4, 4]),
            "1 items came out that never went in: expected the sum 10, got 14"
        );
        assert_eq!(
            message(&[1, 2, 2, 4]),
            "4 items came out, but not the ones that went in: expected the sum 10, got 9"
        );
    }
}
