//! The names of the orderings: each edge by which one thread's writes reach another, named at both of its ends.
//!
//! An edge is one promise: *what was written before the `release` end is seen after the `acquire` end*. Every
//! atomic access that needs more than `Relaxed` gets its ordering from an edge, so that the name stands in the
//! code where the ordering is, `ORDERING.md` lists it with its reason, and tidy can check that both ends exist.
//!
//! The names do a second job. Under the model checkers each end, and each step named with [`left_out`], can be
//! weakened by setting `MILLPOND_MUTANT`, as in `MILLPOND_MUTANT=RING_PUBLISH.release`. `cargo xtask models`
//! weakens each in turn and fails unless a model fails. In the product both fold away to a constant.

use crate::sync::Ordering;

/// A named promise between two threads.
#[derive(Debug)]
pub struct Edge(#[cfg_attr(not(any(loom, shuttle)), allow(dead_code))] &'static str);

impl Edge {
    /// `name` is upper case with its file's name first: `RING_PUBLISH`.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The giving end, on a store.
    #[inline(always)]
    pub fn release(&self) -> Ordering {
        if self.weakened("release") { Ordering::Relaxed } else { Ordering::Release }
    }

    /// The receiving end, on a load.
    #[inline(always)]
    pub fn acquire(&self) -> Ordering {
        if self.weakened("acquire") { Ordering::Relaxed } else { Ordering::Acquire }
    }

    /// Both ends of this edge at once, on a read-modify-write whose like stands in every party.
    #[inline(always)]
    pub fn acq_rel(&self) -> Ordering {
        acq_rel(self, self)
    }

    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    fn weakened(&self, _end: &str) -> bool {
        false
    }

    #[cfg(any(loom, shuttle))]
    fn weakened(&self, end: &str) -> bool {
        crate::model::mutant().and_then(|mutant| mutant.strip_prefix(self.0)) == Some(&[".", end].concat())
    }
}

/// The ordering of a read-modify-write that receives by one edge and gives by another.
#[inline(always)]
pub fn acq_rel(receives: &Edge, gives: &Edge) -> Ordering {
    match (receives.acquire(), gives.release()) {
        (Ordering::Acquire, Ordering::Release) => Ordering::AcqRel,
        (Ordering::Acquire, _) => Ordering::Acquire,
        (_, Ordering::Release) => Ordering::Release,
        _ => Ordering::Relaxed,
    }
}

/// Whether a model run leaves out the step of this name, to show that it is needed. Never in the product.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub const fn left_out(_step: &str) -> bool {
    false
}

/// Whether a model run leaves out the step of this name, to show that it is needed. Never in the product.
#[cfg(any(loom, shuttle))]
pub fn left_out(step: &str) -> bool {
    crate::model::mutant() == Some(step)
}
