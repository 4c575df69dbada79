//! A discrete-event simulator over the policies of millpond: which strategy suits which load, on thousands of workers.
//!
//! Tasks arrive by a random process, run for random times, and the policy, the same code that the pool runs, says who
//! gets them, who robs whom, and how many workers there are. Everything follows from a seed: the same scenario gives
//! the same outcome to the last bit, on every machine. The tests hold it against queueing theory.
//!
//! ```
//! use millpond_sim::{Scenario, simulate};
//!
//! let scenario = Scenario { workers: 4, load: 0.8, tasks: 20_000, ..Scenario::default() };
//! let shared = simulate(&scenario)?;
//! let random = simulate(&Scenario { strategy: "random".into(), ..scenario })?;
//! assert!(shared.wait_mean_ns < random.wait_mean_ns);
//! # Ok::<(), millpond_sim::SimError>(())
//! ```
//!
//! It has a crate of its own since the policy may have no dependencies, and random times need logarithms.
#![forbid(unsafe_code)]

mod arrivals;
mod crew;
mod engine;
mod error;
mod idle;
mod ledger;
mod outcome;
mod random;
mod scaling;
mod scenario;
mod service;
mod strategy;
mod tasks;
mod trace;
mod watch;

pub use arrivals::Arrivals;
pub use error::SimError;
pub use outcome::Outcome;
pub use scenario::{LOAD_MAX, Scenario, TASKS_MAX, WORKERS_MAX};
pub use service::Service;
pub use strategy::{SHARED, check_strategy, strategies};
pub use trace::{Trace, TraceError};
pub use watch::{Unwatched, Watch};

use engine::Engine;
use millpond_policy::choose::Choose;
use strategy::Strategy;

/// Runs a scenario to its end.
pub fn simulate(scenario: &Scenario) -> Result<Outcome, SimError> {
    simulate_watched(scenario, &mut Unwatched)
}

/// Runs a scenario while somebody looks on, and may stop it.
pub fn simulate_watched(scenario: &Scenario, watch: &mut dyn Watch) -> Result<Outcome, SimError> {
    let strategy = Strategy::by_name(&scenario.strategy, scenario.seed)?;
    Engine::new(scenario, strategy, watch)?.run()
}

/// Runs a scenario with a strategy of one's own; the one the scenario names is not looked at.
pub fn simulate_with(
    scenario: &Scenario,
    strategy: Box<dyn Choose>,
    watch: &mut dyn Watch,
) -> Result<Outcome, SimError> {
    Engine::new(scenario, Strategy::Chosen(strategy), watch)?.run()
}

/// The snippets of the page, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;
