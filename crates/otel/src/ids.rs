//! Numbers for traces and spans that nobody else has, and the dice for who is traced.
//!
//! A counter, made unrecognisable by the keyed hash that std has for its maps: its key is random for each
//! process, so two daemons do not get the same numbers. Good enough to tell spans apart, and no secret.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Where the numbers come from. Anybody draws.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    key: RandomState,
    drawn: AtomicU64,
}

impl Ids {
    /// Any number.
    fn draw(&self) -> u64 {
        self.key.hash_one(self.drawn.fetch_add(1, Relaxed))
    }

    /// A number for a span: any but 0.
    pub(crate) fn span(&self) -> u64 {
        self.draw().max(1)
    }

    /// A number for a trace: any but 0.
    pub(crate) fn trace(&self) -> u128 {
        (u128::from(self.draw()) << 64 | u128::from(self.draw())).max(1)
    }

    /// True in this share of all cases: 0 for never, 1 for always.
    pub(crate) fn chance(&self, share: f64) -> bool {
        share >= 1.0 || (share > 0.0 && (self.draw() as f64) < share * u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_differ_within_a_process_and_between_two() {
        let (one, other) = (Ids::default(), Ids::default());
        let spans: HashSet<_> = (0..1000).flat_map(|_| [one.span(), other.span()]).collect();
        assert_eq!(spans.len(), 2000);
        assert_ne!(one.trace(), other.trace());
    }

    #[test]
    fn never_and_always_are_exact_and_between_them_the_share_is_about_right() {
        let ids = Ids::default();
        let of_10_000 = |share| (0..10_000).filter(|_| ids.chance(share)).count();
        assert_eq!((of_10_000(0.0), of_10_000(1.0)), (0, 10_000));
        // Ten standard deviations; a false alarm is out of the question.
        assert!((2_067..2_934).contains(&of_10_000(0.25)));
    }
}
