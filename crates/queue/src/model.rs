//! How a model is explored: the settings of loom and shuttle, and which mutant is in force.
//!
//! A scenario is a closure that starts two to four threads and asserts what must hold in every interleaving.
//! The same scenario is explored three times, once per make of `sync.rs`. `cargo xtask models` runs each in a
//! process of its own, since a deadlock found by loom ends the process.

#![cfg_attr(not(test), allow(dead_code))]

use crate::sync::UnsafeCell;
use alloc::boxed::Box;
use std::sync::{Once, OnceLock};
use std::{env, println};

/// The weakened ordering or left-out step of this run, from `MILLPOND_MUTANT`.
pub fn mutant() -> Option<&'static str> {
    static MUTANT: OnceLock<Option<std::string::String>> = OnceLock::new();
    MUTANT.get_or_init(|| env::var("MILLPOND_MUTANT").ok()).as_deref()
}

/// Ends the process at the first failure of a mutant. It has been caught; a broken queue need not be dropped in order,
/// and may wait for ever when it is.
///
/// Failures speak in words. loom ends the threads of an execution by a panic of its own, which does not, and is none.
fn stop_at_first_failure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if mutant().is_none() {
            return;
        }
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |failure| {
            report(failure);
            if failure.payload().is::<&str>() || failure.payload().is::<std::string::String>() {
                std::process::abort();
            }
        }));
    });
}

/// Runs `scenario` in every interleaving with at most `preemptions` forced switches, and says how many there were.
#[cfg(loom)]
pub fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
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

/// Runs `scenario` under `MILLPOND_SCHEDULES` schedules, half of them random and half by priority, for at most
/// `MILLPOND_MODEL_SECONDS`, and says how many there were. Half of the time is kept for the second half.
#[cfg(shuttle)]
pub fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    stop_at_first_failure();
    let schedules = setting("MILLPOND_SCHEDULES", 100_000);
    let seconds = setting("MILLPOND_MODEL_SECONDS", 60);
    let limit = std::time::Duration::from_secs(seconds as u64);
    let started = std::time::Instant::now();
    let scenario = std::sync::Arc::new(scenario);
    let random = RandomScheduler::new(schedules.div_ceil(2));
    let random = run_until(started + limit / 2, random, &scenario);
    // A depth of d finds what needs d steps in a certain order: less than three is luck, more than five is rare.
    let priority = PctScheduler::new((preemptions + 1).clamp(3, 5), schedules / 2);
    let priority = run_until(started + limit, priority, &scenario);
    println!("explored {random} random and {priority} priority schedules");
    if random + priority < schedules {
        println!("stopped after {seconds} s, short of {schedules} schedules");
    }
}

/// Runs `scenario` as often as `scheduler` says or until `deadline`, but at least once. Says how often.
///
/// What is left at the deadline is run through without the scenario. Shuttle's own time limit would leave a random
/// schedule half begun, and report it as a failing one.
#[cfg(shuttle)]
fn run_until(
    deadline: std::time::Instant,
    scheduler: impl shuttle::scheduler::Scheduler + 'static,
    scenario: &std::sync::Arc<impl Fn() + Sync + Send + 'static>,
) -> usize {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
    let explored = Arc::new(AtomicUsize::new(0));
    let (counted, scenario) = (Arc::clone(&explored), Arc::clone(scenario));
    shuttle::Runner::new(scheduler, config).run(move || {
        if counted.load(Relaxed) == 0 || std::time::Instant::now() < deadline {
            scenario();
            counted.fetch_add(1, Relaxed);
        }
    });
    explored.load(Relaxed)
}

/// A number from the environment.
#[cfg(shuttle)]
fn setting(name: &str, otherwise: usize) -> usize {
    let parsed = |text: std::string::String| {
        text.parse().unwrap_or_else(|_| panic!("{name}: expected a whole number, got {text:?}"))
    };
    env::var(name).map_or(otherwise, parsed)
}

/// A value whose reading the checker can tell from its writing: it must have been packed before it is opened.
pub struct Parcel(Box<UnsafeCell<u32>>);

impl Parcel {
    pub fn new(number: u32) -> Self {
        let cell = Box::new(UnsafeCell::new(0));
        // SAFETY: nobody else knows the cell yet, so this thread may write it.
        cell.with_mut(|cell| unsafe { *cell = number });
        Self(cell)
    }

    pub fn open(self) -> u32 {
        // SAFETY: the parcel is this thread's own; that its writing happened before is what the checker verifies.
        self.0.with(|cell| unsafe { *cell })
    }
}

// SAFETY: a parcel is owned by one thread at a time; that it arrives whole is what the models check.
unsafe impl Send for Parcel {}
