//! `GlobalQueue`: where work from outside the pool waits, in lanes of priority, until a worker takes a batch of it.
//!
//! Each lane is a `Ring`: bounded, lock-free, and faster here than a lock around a deque (`cargo run --release -p
//! millpond-bench -- global`). A worker takes one item to run and moves more of the same lane to its own
//! `StealQueue`, so that the shared cursors are touched once per batch.
//!
//! Priority must not mean starvation. Each worker goes through a fixed pattern as long as the sum of the
//! weights, in which every lane comes first as often as its weight says; the other lanes follow in order of
//! priority. So of any such many takes in a row by one worker, a lane with work gets at least its weight,
//! whatever the other lanes hold: an item with q items before it in its lane is taken after at most ⌈(q + 1)
//! / weight⌉ × (sum of weights) takes.
//!
//! Not here: which priority a task has (the pool's business).

use crate::ring::Ring;
use crate::slots::CapacityError;
use crate::steal::StealQueue;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// The most lanes a queue may have.
pub const LANES_MAX: usize = 8;
/// The largest weight of a lane.
pub const WEIGHT_MAX: u32 = 64;

/// One lane of a [`GlobalQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// How many items may wait in it: 1 to [`CAPACITY_MAX`](crate::CAPACITY_MAX).
    pub capacity: usize,
    /// How often it comes first, relative to the other lanes: 1 to [`WEIGHT_MAX`].
    pub weight: u32,
}

/// Why the lanes asked for cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaneError {
    /// No lanes, or more than [`LANES_MAX`].
    Count(usize),
    /// A lane's weight is 0 or above [`WEIGHT_MAX`].
    Weight {
        /// Which lane, counted from 0.
        lane: usize,
        /// What was asked for.
        weight: u32,
    },
    /// A lane's capacity cannot be had.
    Capacity {
        /// Which lane, counted from 0.
        lane: usize,
        /// Why not.
        reason: CapacityError,
    },
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "lanes: expected 1 to {LANES_MAX}, got {count}"),
            Self::Weight { lane, weight } => {
                write!(f, "lane {lane}: weight: expected 1 to {WEIGHT_MAX}, got {weight}")
            }
            Self::Capacity { lane, reason } => write!(f, "lane {lane}: {reason}"),
        }
    }
}

impl core::error::Error for LaneError {}

/// Where one worker is in the pattern of lanes. Each worker keeps its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneTurn(usize);

/// A bounded queue with lanes of priority, for many producers and many workers. Lane 0 is the most urgent.
///
/// ```
/// use millpond_queue::{GlobalQueue, Lane, LaneTurn, StealQueue};
/// let urgent = Lane { capacity: 16, weight: 3 };
/// let patient = Lane { capacity: 1024, weight: 1 };
/// let queue = GlobalQueue::with_lanes(&[urgent, patient])?;
/// for task in 0..8 {
///     queue.push(1, task).expect("below the capacity");
/// }
/// let (mut turn, own) = (LaneTurn::default(), StealQueue::new());
/// assert_eq!(queue.pop_batch(&mut turn, &own, 4), Some(0), "one to run now");
/// assert_eq!(own.len(), 3, "and three more for later");
/// # Ok::<(), millpond_queue::LaneError>(())
/// ```
pub struct GlobalQueue<T> {
    lanes: Box<[Ring<T>]>,
    pattern: LanePattern,
}

impl<T> GlobalQueue<T> {
    /// A queue with one lane of exactly `capacity` items.
    pub fn with_capacity(capacity: usize) -> Result<Self, LaneError> {
        Self::with_lanes(&[Lane { capacity, weight: 1 }])
    }

    /// A queue with these lanes, the most urgent first.
    pub fn with_lanes(lanes: &[Lane]) -> Result<Self, LaneError> {
        if lanes.is_empty() || lanes.len() > LANES_MAX {
            return Err(LaneError::Count(lanes.len()));
        }
        let mut rings = Vec::with_capacity(lanes.len());
        for (lane, &Lane { capacity, weight }) in lanes.iter().enumerate() {
            if weight == 0 || weight > WEIGHT_MAX {
                return Err(LaneError::Weight { lane, weight });
            }
            rings.push(Ring::with_capacity(capacity).map_err(|reason| LaneError::Capacity { lane, reason })?);
        }
        let weights: Vec<u32> = lanes.iter().map(|lane| lane.weight).collect();
        Ok(Self { lanes: rings.into_boxed_slice(), pattern: LanePattern::new(&weights) })
    }

    /// Adds an item to a lane; a number past the last means the last. A full lane hands the item back.
    #[inline]
    pub fn push(&self, lane: usize, item: T) -> Result<(), T> {
        self.lanes[lane.min(self.lanes.len() - 1)].push(item)
    }

    /// Takes the oldest item of the lane whose turn it is, or else of the most urgent lane that has one.
    pub fn pop(&self, turn: &mut LaneTurn) -> Option<T> {
        self.in_turn(turn).find_map(Ring::pop)
    }

    /// As [`pop`](Self::pop), and moves up to `max - 1` more items of the same lane to the end of `into`, as
    /// far as it has room. The oldest is the one returned.
    pub fn pop_batch(&self, turn: &mut LaneTurn, into: &StealQueue<T>, max: usize) -> Option<T> {
        if max == 0 {
            return None;
        }
        self.in_turn(turn).find_map(|lane| {
            // Room for what there is, so that looking at an empty lane costs nothing.
            let room = into.reserve((max - 1).min(lane.len()));
            let mut first = None;
            lane.pop_each(1 + room, |item| {
                if first.is_none() {
                    first = Some(item);
                } else if into.push(item).is_err() {
                    unreachable!("room was reserved, and only the owner of the queue uses it up");
                }
            });
            first
        })
    }

    /// How many items wait in all lanes. It may be stale.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(Ring::len).sum()
    }

    /// How many items wait in one lane, or 0 if there is no such lane. It may be stale.
    pub fn lane_len(&self, lane: usize) -> usize {
        self.lanes.get(lane).map_or(0, Ring::len)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(Ring::is_empty)
    }

    /// How many items may wait in all lanes together.
    pub fn capacity(&self) -> usize {
        self.lanes.iter().map(Ring::capacity).sum()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The lanes in the order of this turn.
    fn in_turn(&self, turn: &mut LaneTurn) -> impl Iterator<Item = &Ring<T>> {
        self.pattern.order(turn).map(|lane| &self.lanes[lane])
    }
}

impl<T> fmt::Debug for GlobalQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalQueue").field("len", &self.len()).field("lanes", &self.lanes).finish()
    }
}

/// In which order a worker looks at lanes of priority: each comes first as often as its weight says, spread as evenly
/// as can be, and the others follow by priority.
///
/// ```
/// use millpond_queue::{LanePattern, LaneTurn};
/// let (pattern, mut turn) = (LanePattern::new(&[2, 1]), LaneTurn::default());
/// let first: Vec<usize> = (0..3).filter_map(|_| pattern.order(&mut turn).next()).collect();
/// assert_eq!(first.iter().filter(|&&lane| lane == 1).count(), 1, "once in every three turns");
/// ```
#[derive(Clone, Debug)]
pub struct LanePattern {
    /// The order of all lanes at each turn, one after the other.
    orders: Box<[u8]>,
    lanes: usize,
}

impl LanePattern {
    /// The pattern of lanes with these weights, the most urgent first. A lane past [`LANES_MAX`] is left out, and a
    /// weight outside 1 to [`WEIGHT_MAX`] is taken as the nearest bound.
    pub fn new(weights: &[u32]) -> Self {
        // No weights at all are those of one lane.
        let weights = if weights.is_empty() { &[1] } else { &weights[..weights.len().min(LANES_MAX)] };
        let weights: Vec<i64> =
            weights.iter().map(|&weight| i64::from(weight.clamp(1, WEIGHT_MAX))).collect();
        let sum: i64 = weights.iter().sum();
        let mut credit = vec![0i64; weights.len()];
        let mut orders = Vec::with_capacity(sum as usize * weights.len());
        for _ in 0..sum {
            // Every lane earns its weight; the richest comes first and pays for the whole round.
            for (credit, weight) in credit.iter_mut().zip(&weights) {
                *credit += weight;
            }
            let richest = (0..weights.len()).rev().max_by_key(|&lane| credit[lane]).unwrap_or(0);
            credit[richest] -= sum;
            orders.push(richest as u8);
            orders.extend((0..weights.len() as u8).filter(|&lane| usize::from(lane) != richest));
        }
        Self { orders: orders.into_boxed_slice(), lanes: weights.len() }
    }

    /// The lanes in the order of this turn: the one whose turn it is, then the others by priority.
    #[inline]
    pub fn order(&self, turn: &mut LaneTurn) -> impl Iterator<Item = usize> + use<'_> {
        // A turn that was last used with a longer pattern begins anew.
        let start = if turn.0 + self.lanes <= self.orders.len() { turn.0 } else { 0 };
        turn.0 = start + self.lanes;
        self.orders[start..start + self.lanes].iter().map(|&lane| usize::from(lane))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn three_lanes() -> GlobalQueue<u32> {
        let lanes = [4, 2, 1].map(|weight| Lane { capacity: 64, weight });
        GlobalQueue::with_lanes(&lanes).expect("lanes for a test")
    }

    #[test]
    fn every_lane_comes_first_as_often_as_its_weight_says_in_any_window() {
        let queue = three_lanes();
        let once = || queue.pattern.orders.iter().step_by(3).copied();
        let twice: Vec<u8> = once().chain(once()).collect();
        for window in twice.windows(7) {
            for (lane, weight) in [(0, 4), (1, 2), (2, 1)] {
                assert_eq!(window.iter().filter(|&&first| first == lane).count(), weight, "{window:?}");
            }
        }
    }

    #[test]
    fn a_low_lane_is_served_within_its_bound_while_high_lanes_stay_full() {
        let queue = three_lanes();
        let mut turn = LaneTurn::default();
        queue.push(2, 999).unwrap();
        let mut takes = 0;
        loop {
            while queue.push(0, 0).is_ok() {}
            takes += 1;
            if queue.pop(&mut turn) == Some(999) {
                break;
            }
            assert!(takes < 7, "one item in a lane of weight 1 of 7 waits at most 7 takes");
        }
    }

    #[test]
    fn an_urgent_item_comes_first_when_no_other_lane_has_the_turn() {
        let queue = three_lanes();
        queue.push(1, 1).unwrap();
        queue.push(0, 0).unwrap();
        assert_eq!(queue.pop(&mut LaneTurn::default()), Some(0));
    }

    #[test]
    fn a_batch_comes_from_one_lane_and_keeps_its_order() {
        let queue = three_lanes();
        let own = StealQueue::new();
        for item in 10..20 {
            queue.push(1, item).unwrap();
        }
        queue.push(2, 99).unwrap();
        assert_eq!(queue.pop_batch(&mut LaneTurn::default(), &own, 4), Some(10));
        let moved: Vec<u32> = core::iter::from_fn(|| own.pop_oldest()).collect();
        assert_eq!(moved, [11, 12, 13]);
        assert_eq!(queue.len(), 7);
    }

    #[test]
    fn bad_lanes_are_refused_with_the_reason() {
        let lane = Lane { capacity: 1, weight: 1 };
        assert_eq!(GlobalQueue::<u8>::with_lanes(&[]).unwrap_err(), LaneError::Count(0));
        assert_eq!(GlobalQueue::<u8>::with_lanes(&[lane; 9]).unwrap_err(), LaneError::Count(9));
        let error = GlobalQueue::<u8>::with_lanes(&[lane, Lane { weight: 0, ..lane }]).unwrap_err();
        assert_eq!(alloc::format!("{error}"), "lane 1: weight: expected 1 to 64, got 0");
        let error = GlobalQueue::<u8>::with_capacity(0).unwrap_err();
        assert_eq!(alloc::format!("{error}"), "lane 0: capacity: expected 1 to 67108864, got 0");
    }
}
