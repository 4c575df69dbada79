//! How a strategy goes through the columns: the first worker that takes tasks, and the smallest key among
//! those.
//!
//! Both begin at a place of the caller's choice, so that equals take turns. States are a
//! byte each and are looked at in chunks without a branch for each worker, which the compiler turns into
//! vector instructions. Keys are mostly 64 bits wide, for which common machines have no vector comparison:
//! there a branch that is seldom taken is faster, and needs nothing written down.
//!
//! Not here: which keys, and where to begin (the strategies); what need not be looked at again (`blocks.rs`).

use crate::view::WorkerState;
use core::ops::Range;

/// So many states are looked at between two branches.
const CHUNK: usize = 64;

/// What workers are compared by.
pub(super) trait Key: Copy + Ord {
    /// Nothing is smaller: a search that meets it is over.
    const LOWEST: Self;
    /// Nothing is larger.
    const HIGHEST: Self;
}

impl Key for u32 {
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;
}

impl Key for u64 {
    const LOWEST: Self = Self::MIN;
    const HIGHEST: Self = Self::MAX;
}

/// The first worker that takes tasks, from `start` to the end and then from the beginning.
pub(super) fn first_taking(states: &[WorkerState], start: usize) -> Option<usize> {
    next_taking(states, start).or_else(|| next_taking(&states[..start.min(states.len())], 0))
}

/// The first worker that takes tasks, from `start` to the end.
pub(super) fn next_taking(states: &[WorkerState], start: usize) -> Option<usize> {
    let rest = states.get(start..)?;
    // The very first is the usual answer, and then no chunk need be looked at.
    if rest.first()?.takes_tasks() {
        return Some(start);
    }
    let mut passed = start;
    for chunk in rest.chunks(CHUNK) {
        if chunk.iter().fold(false, |any, state| any | state.takes_tasks()) {
            return chunk.iter().position(|state| state.takes_tasks()).map(|at| passed + at);
        }
        passed += chunk.len();
    }
    None
}

/// How many workers take tasks.
pub(super) fn count_taking(states: &[WorkerState]) -> usize {
    states.chunks(CHUNK).map(count_in_chunk).sum()
}

/// The same for at most [`CHUNK`] of them: the sum fits a byte, and bytes are what vectors hold most of.
fn count_in_chunk(states: &[WorkerState]) -> usize {
    usize::from(states.iter().map(|state| u8::from(state.takes_tasks())).sum::<u8>())
}

/// Where the worker stands that takes tasks and has `rank` such workers before it.
pub(super) fn nth_taking(states: &[WorkerState], rank: usize) -> Option<usize> {
    let mut left = rank;
    let mut passed = 0;
    for chunk in states.chunks(CHUNK) {
        let taking = count_in_chunk(chunk);
        if left < taking {
            let mut places = chunk.iter().enumerate().filter(|(_, state)| state.takes_tasks());
            return places.nth(left).map(|(at, _)| passed + at);
        }
        left -= taking;
        passed += chunk.len();
    }
    None
}

/// The search for the smallest key among the workers that take tasks; of equals it finds the one it sees
/// first.
pub(super) struct Smallest<'a, K> {
    states: &'a [WorkerState],
    best: K,
    at: Option<usize>,
    sum: u64,
}

impl<'a, K: Key> Smallest<'a, K> {
    pub(super) fn among(states: &'a [WorkerState]) -> Self {
        Self { states, best: K::HIGHEST, at: None, sum: 0 }
    }

    /// Looks at some workers and their keys. Does nothing once a worker with the lowest key there can be is
    /// found.
    #[inline]
    pub(super) fn look(&mut self, places: Range<usize>, keys: impl Iterator<Item = K>) {
        if self.is_over() {
            return;
        }
        let (mut best, mut found) = (self.best, None);
        for (at, (state, key)) in self.states[places.clone()].iter().zip(keys).enumerate() {
            if key < best && state.takes_tasks() {
                (best, found) = (key, Some(places.start + at));
                if key == K::LOWEST {
                    break;
                }
            }
        }
        self.best = best;
        self.at = found.or(self.at);
    }

    /// Somebody else has searched some workers, and found this one.
    pub(super) fn meet(&mut self, at: Option<usize>, key: K) {
        if key < self.best {
            (self.best, self.at) = (key, at);
        }
    }

    /// Whether a worker with the lowest key there can be is found.
    pub(super) fn is_over(&self) -> bool {
        self.best == K::LOWEST
    }

    /// Whom it has found so far: where that worker stands, and its key, which is the highest if there is
    /// none.
    pub(super) fn so_far(&self) -> (Option<usize>, K) {
        (self.at, self.best)
    }

    /// What was added up, around the end of the numbers if need be.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Where the worker stands, and its key. `start` is where the search began.
    pub(super) fn found(self, start: usize) -> Option<(usize, K)> {
        // No key is smaller than the highest, not even that of a worker which takes tasks.
        let at = self.at.or_else(|| first_taking(self.states, start))?;
        Some((at, self.best))
    }
}

impl Smallest<'_, u64> {
    /// Looks as [`look`](Self::look) does, and adds up the keys of all it sees, of those too that take no
    /// tasks.
    #[inline]
    pub(super) fn look_and_add(&mut self, places: Range<usize>, keys: impl Iterator<Item = u64>) {
        let mut sum = self.sum;
        #[expect(
            clippy::manual_inspect,
            reason = "of `inspect` no side-by-side loop is made, which costs up to a fifth"
        )]
        let added = keys.map(|key| {
            sum = sum.wrapping_add(key);
            key
        });
        self.look(places, added);
        self.sum = sum;
    }
}

/// Some places, in those before `cut` and those from there on. If there are none before it, the first range
/// is empty and lies behind `cut`.
pub(super) fn split(places: Range<usize>, cut: usize) -> (Range<usize>, Range<usize>) {
    let cut = cut.clamp(places.start, places.end);
    (places.start..cut, cut..places.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn smallest(states: &[WorkerState], keys: &[u32], start: usize) -> Option<(usize, u32)> {
        let mut search = Smallest::among(states);
        let start = start.min(states.len());
        for places in [start..states.len(), 0..start] {
            search.look(places.clone(), keys[places].iter().copied());
        }
        search.found(start)
    }

    #[test]
    fn the_search_goes_once_round_from_anywhere_and_across_chunks() {
        for len in [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            for only in [0, len / 2, len - 1] {
                let mut states = vec![WorkerState::Terminating; len];
                states[only] = WorkerState::Busy;
                for start in [0, only, len - 1, len] {
                    assert_eq!(first_taking(&states, start), Some(only), "{len} workers, from {start}");
                    let keys: Vec<u32> = (0..len as u32).collect();
                    assert_eq!(smallest(&states, &keys, start), Some((only, only as u32)));
                }
                assert_eq!((count_taking(&states), nth_taking(&states, 0)), (1, Some(only)));
                assert_eq!(nth_taking(&states, 1), None);
            }
        }
    }

    #[test]
    fn of_equals_the_first_from_the_start_is_found() {
        let states = vec![WorkerState::Ready; 200];
        let mut keys = vec![9; 200];
        for at in [3, 70, 150] {
            keys[at] = 4;
        }
        let starts = [(0, 3), (3, 3), (4, 70), (71, 150), (151, 3), (200, 3)];
        for (start, expected) in starts {
            assert_eq!(smallest(&states, &keys, start), Some((expected, 4)), "from {start}");
        }
    }

    #[test]
    fn nobody_is_found_among_none_and_the_highest_key_hides_nobody() {
        assert_eq!(smallest(&[], &[], 0), None);
        assert_eq!(first_taking(&[], 0), None);
        let states = [WorkerState::Cold, WorkerState::Busy, WorkerState::Terminated];
        assert_eq!(smallest(&states, &[0, u32::MAX, 0], 2), Some((1, u32::MAX)));
        assert_eq!(smallest(&states[..1], &[0], 0), None);
    }
}
