//! Who looks on while a run goes: a progress bar, a test, or somebody who wants to stop it.
//!
//! A watcher is told and asked now and then, and changes nothing else: a run that is watched to its end has the same
//! outcome as one that is not.

use millpond_policy::Moment;
use millpond_policy::scale::{Decision, Load};
use std::ops::ControlFlow;

/// Somebody who looks on. What is not of interest may be left as it is.
pub trait Watch {
    /// So many tasks have arrived. Called every 16 384 tasks; `Break` ends the run with
    /// [`SimError::Stopped`](crate::SimError::Stopped).
    fn progress(&mut self, arrived: u64) -> ControlFlow<()> {
        let _ = arrived;
        ControlFlow::Continue(())
    }

    /// The scaling policy saw this load at this time and decided so.
    fn scaling_looked(&mut self, now: Moment, load: &Load, decision: &Decision) {
        let _ = (now, load, decision);
    }
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}
