//! All that one instance remembers, and the one way to it.
//!
//! An instance belongs to one thread: its memory is private, and JavaScript calls one function at a time. On the host,
//! where tests run in many threads, each has a brain of its own.

use crate::affinity::Keys;
use crate::choose::Strategy;
use crate::histogram::Histograms;
use crate::slate::Slate;
use millpond_policy::choose::{Choice, RoundRobin};
use millpond_policy::scale::{Decision, Scaler};
use millpond_policy::view::Views;

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::ground::{has_room, with};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::host::{has_room, with};

/// What one instance remembers.
#[derive(Debug)]
pub(crate) struct Brain {
    pub(crate) slate: Slate,
    pub(crate) workers: Views,
    pub(crate) strategy: Strategy,
    /// The last choice, whose reason may be asked for.
    pub(crate) choice: Option<Choice>,
    /// None until it is configured.
    pub(crate) scaler: Option<Scaler>,
    pub(crate) decision: Option<Decision>,
    pub(crate) keys: Keys,
    pub(crate) histograms: Histograms,
}

impl Brain {
    pub(crate) fn new() -> Self {
        Self {
            slate: Slate::default(),
            workers: Views::default(),
            strategy: Strategy::RoundRobin(RoundRobin::new()),
            choice: None,
            scaler: None,
            decision: None,
            keys: Keys::default(),
            histograms: Histograms::default(),
        }
    }
}
