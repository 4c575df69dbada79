//! How a model is explored: the settings of loom and shuttle, and which mutant is in force.
//!
//! A scenario is a closure that starts two to four threads and asserts what must hold in every interleaving.
//! The same scenario is explored three times, once per make of `sync.rs`. `cargo xtask models` runs each in a
//! process of its own, since a deadlock found by loom ends the process.

#![cfg_attr(not(test), allow(dead_code))]

use crate::sync::UnsafeCell;
use alloc::boxed::Box;
use std::sync::OnceLock;
use std::{env, println};

/// The weakened ordering or left-out step of this run, from `MILLPOND_MUTANT`.
pub(crate) fn mutant() -> Option<&'static str> {
    static MUTANT: OnceLock<Option<std::string::String>> = OnceLock::new();
    MUTANT.get_or_init(|| env::var("MILLPOND_MUTANT").ok()).as_deref()
}

/// Ends the process at the first failure of a mutant. It has been caught; a broken queue need not be dropped in order,
/// and may wait for ever when it is.
fn stop_at_first_failure() {
    if mutant().is_some() {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |failure| {
            report(failure);
            std::process::abort();
        }));
    }
}

/// Runs `scenario` in every interleaving with at most `preemptions` forced switches, and says how many there were.
#[cfg(loom)]
pub(crate) fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    stop_at_first_failure();
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        scenario();
    });
    println!("explored {} executions", executions.load(Relaxed));
}

/// Runs `scenario` under random and priority schedules, as many of each as `MILLPOND_SCHEDULES` says.
#[cfg(shuttle)]
pub(crate) fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, MaxSteps, Runner};
    stop_at_first_failure();
    let schedules = env::var("MILLPOND_SCHEDULES").map_or(10_000, |text| {
        text.parse().expect("MILLPOND_SCHEDULES: expected a whole number of schedules")
    });
    let scenario = std::sync::Arc::new(scenario);
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(1_000_000);
    let random = std::sync::Arc::clone(&scenario);
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(move || random());
    Runner::new(PctScheduler::new(preemptions + 1, schedules), config).run(move || scenario());
    println!("explored {schedules} random and {schedules} priority schedules");
}

/// A value whose reading the checker can tell from its writing: it must have been packed before it is opened.
pub(crate) struct Parcel(Box<UnsafeCell<u32>>);

impl Parcel {
    pub(crate) fn new(number: u32) -> Self {
        let cell = Box::new(UnsafeCell::new(0));
        // SAFETY: nobody else knows the cell yet, so this thread may write it.
        cell.with_mut(|cell| unsafe { *cell = number });
        Self(cell)
    }

    pub(crate) fn open(self) -> u32 {
        // SAFETY: the parcel is this thread's own; that its writing happened before is what the checker verifies.
        self.0.with(|cell| unsafe { *cell })
    }
}

// SAFETY: a parcel is owned by one thread at a time; that it arrives whole is what the models check.
unsafe impl Send for Parcel {}
