//! Rendezvous hashing: every worker draws a number for the key, and the highest draw wins.
//!
//! A draw depends on the key and the worker alone. So a worker that comes takes only keys for which it draws
//! highest, and one that goes leaves only its own; no third worker is touched, and the shares are as even as
//! chance makes them. With weights a draw is stretched so that a worker of weight 3 wins three times as often
//! as one of weight 1, and a changed weight moves keys only to or from that worker.
//!
//! Looks at every worker, one multiplication or two for each.

use super::hash::{mix, mix_two};
use super::logarithm::minus_log2;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A constant that keeps a worker's number apart from a ring's points and from keys.
const DRAW: u64 = 0x7264_765F_6472_6177;

/// The workers, and what each draws with.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    workers: Vec<Drawer>,
    /// How draws compare; none while all workers weigh the same, and their weights need not be looked at. It is set by
    /// whoever gives weights, so a program in which nobody does goes without the logarithm and its table.
    rank: Option<Rank>,
}

/// Less is better.
type Rank = fn(&Draw, &Draw) -> Ordering;

#[derive(Clone, Copy, Debug)]
struct Drawer {
    /// Made of its number.
    salt: u64,
    worker: u32,
    weight: u32,
}

/// A worker's draw for one key.
#[derive(Clone, Copy)]
struct Draw {
    number: u64,
    worker: u32,
    weight: u32,
}

impl Draw {
    /// By the draw itself, which no two workers share, since neither of the steps that make it maps two numbers to one.
    fn rank_even(&self, other: &Self) -> Ordering {
        other.number.cmp(&self.number)
    }

    /// By the stretched draw first.
    fn rank_weighted(&self, other: &Self) -> Ordering {
        let mine = u128::from(minus_log2(self.number)) * u128::from(other.weight);
        let stretched = mine.cmp(&(u128::from(minus_log2(other.number)) * u128::from(self.weight)));
        stretched.then_with(|| self.rank_even(other))
    }
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self::new()
    }
}

impl Rendezvous {
    /// Nobody yet.
    pub const fn new() -> Self {
        Self { workers: Vec::new(), rank: None }
    }

    /// Adds a worker of weight 1; false if it is there already.
    pub fn add(&mut self, worker: u32) -> bool {
        let is_new = self.put(worker, 1);
        self.see_weights(self.rank);
        is_new
    }

    /// Adds a worker that is to own `weight` times as many keys as one of weight 1; 0 counts as 1. False if
    /// it is there already.
    pub fn add_weighted(&mut self, worker: u32, weight: u32) -> bool {
        let is_new = self.put(worker, weight.max(1));
        self.see_weights(Some(Draw::rank_weighted));
        is_new
    }

    fn put(&mut self, worker: u32, weight: u32) -> bool {
        if self.workers.iter().any(|drawer| drawer.worker == worker) {
            return false;
        }
        self.workers.push(Drawer { salt: mix_two(DRAW, worker.into()), worker, weight });
        true
    }

    /// Changes a worker's weight; false if it is not there. Only its own keys leave it, and only it gets
    /// others'.
    pub fn set_weight(&mut self, worker: u32, weight: u32) -> bool {
        let Some(drawer) = self.workers.iter_mut().find(|drawer| drawer.worker == worker) else {
            return false;
        };
        drawer.weight = weight.max(1);
        self.see_weights(Some(Draw::rank_weighted));
        true
    }

    /// Takes a worker away; false if it is not there.
    pub fn remove(&mut self, worker: u32) -> bool {
        let Some(at) = self.workers.iter().position(|drawer| drawer.worker == worker) else { return false };
        self.workers.swap_remove(at);
        self.see_weights(self.rank);
        true
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The worker a key belongs to; nobody if there are none.
    pub fn owner(&self, key: u64) -> Option<u32> {
        if self.rank.is_some() {
            return self.best(key, |_| true).map(|draw| draw.worker);
        }
        let draws = self.workers.iter().map(|drawer| (mix(key ^ drawer.salt), drawer.worker));
        draws.reduce(|best, draw| if draw.0 > best.0 { draw } else { best }).map(|(_, worker)| worker)
    }

    /// Fills `workers` with the best for a key, the owner first. Says how many there are. Looks at all
    /// workers once for each.
    pub fn preference(&self, key: u64, workers: &mut [u32]) -> usize {
        let mut last: Option<Draw> = None;
        for (found, place) in workers.iter_mut().enumerate() {
            let rank = self.rank.unwrap_or(Draw::rank_even);
            let behind = |draw: &Draw| last.is_none_or(|last| rank(&last, draw).is_lt());
            let Some(best) = self.best(key, behind) else { return found };
            *place = best.worker;
            last = Some(best);
        }
        workers.len()
    }

    fn best(&self, key: u64, may_win: impl Fn(&Draw) -> bool) -> Option<Draw> {
        let draws = self.workers.iter().map(|drawer| Draw {
            number: mix(key ^ drawer.salt),
            worker: drawer.worker,
            weight: drawer.weight,
        });
        draws.filter(may_win).min_by(self.rank.unwrap_or(Draw::rank_even))
    }

    /// Workers or weights have changed: where some weigh more than others, draws compare by `weighted`.
    fn see_weights(&mut self, weighted: Option<Rank>) {
        let is_even = self.workers.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        self.rank = if is_even { None } else { weighted };
    }
}
