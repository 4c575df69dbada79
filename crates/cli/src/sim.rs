//! `millpond sim`: the same tasks for each strategy in turn, and a table of how long they waited.
//!
//! All strategies meet the same arrivals and service times, drawn from one seed, so a difference between two rows is
//! not luck. The seed is chosen at random unless it is given, and printed with the command that repeats the run.
//!
//! Not here: what the options mean (`arguments.rs`), what the output looks like (`table.rs`, `json.rs`, `plot.rs`).

mod arguments;
mod json;
mod plot;
mod progress;
mod table;

pub(crate) use arguments::SimArguments;

use crate::failure::Failure;
use crate::{interrupt, output, units};
use millpond_sim::{Arrivals, Outcome, Scenario, SimError, simulate_watched};
use progress::Progress;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is to be run, once the options have been understood.
#[derive(Debug)]
struct Plan {
    /// With the first strategy.
    scenario: Scenario,
    strategies: Vec<String>,
    /// The command that repeats the run.
    command: String,
}

/// One strategy's run.
#[derive(Debug)]
struct Run {
    outcome: Outcome,
    /// How long it took on the real clock.
    took: Duration,
}

pub(crate) fn run(arguments: SimArguments) -> Result<(), Failure> {
    let plan = arguments.plan()?;
    if let Some(path) = &arguments.plot {
        // Better now than after a long run.
        drop(fs::File::create(path).map_err(|error| cannot_write(path, &error))?);
    }
    interrupt::listen()?;
    for warning in warnings(&plan.scenario) {
        output::note("warning", &warning);
    }
    let (mut runs, stopped) = simulate_all(&plan)?;
    if !runs.is_empty() {
        sort(&mut runs);
        let text = if arguments.json { json::text(&plan, &runs) } else { table::text(&plan, &runs) };
        // The picture first: whoever reads the table may leave early.
        if let Some(path) = &arguments.plot {
            write_plot(path, &plot::svg(&plan, &runs))?;
        }
        output::print(text.as_bytes())?;
    }
    if stopped { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Runs the strategies one after the other. Stopped, it gives those that were finished.
fn simulate_all(plan: &Plan) -> Result<(Vec<Run>, bool), Failure> {
    let mut progress = Progress::new(plan.scenario.tasks, plan.strategies.len());
    let mut runs = Vec::with_capacity(plan.strategies.len());
    for strategy in &plan.strategies {
        let scenario = Scenario { strategy: strategy.clone(), ..plan.scenario.clone() };
        progress.begin(strategy);
        let begun = Instant::now();
        match simulate_watched(&scenario, &mut progress) {
            Ok(outcome) => runs.push(Run { outcome, took: begun.elapsed() }),
            Err(SimError::Stopped) => return Ok((runs, true)),
            Err(error @ (SimError::Setting(_) | SimError::Trace(_))) => return Err(Failure::usage(error)),
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
    }
    Ok((runs, false))
}

/// The shortest p99 first; of equals the shortest mean.
fn sort(runs: &mut [Run]) {
    runs.sort_by(|one, other| {
        let p99 = |run: &Run| run.outcome.waits.percentiles().p99;
        let mean = |run: &Run| run.outcome.wait_mean_ns;
        p99(one).cmp(&p99(other)).then(mean(one).total_cmp(&mean(other)))
    });
}

/// What a newcomer could be misled by.
fn warnings(scenario: &Scenario) -> Vec<String> {
    const TASKS_PER_WORKER_MIN: u64 = 500;
    let load = scenario.load_offered();
    let mut warnings = Vec::new();
    if load >= 1.0 && scenario.scaling.is_none() {
        warnings.push(format!(
            "load {load:.3}: more comes than can be done, so waits grow for as long as tasks come; compare runs of the \
             same length only"
        ));
    }
    if scenario.tasks / u64::from(scenario.workers) < TASKS_PER_WORKER_MIN {
        let enough = (u64::from(scenario.workers) * TASKS_PER_WORKER_MIN).min(millpond_sim::TASKS_MAX);
        // A trace has as many as it has.
        let is_trace = matches!(scenario.arrivals, Arrivals::Trace(_));
        let advice = if is_trace { String::new() } else { format!("; --tasks {enough} would do") };
        warnings.push(format!(
            "{} tasks are few for {} workers: the run begins with nobody busy, and waits are shorter than in the long \
             run{advice}",
            units::grouped(scenario.tasks),
            units::grouped(scenario.workers.into()),
        ));
    }
    warnings
}

fn write_plot(path: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(path, picture).map_err(|error| cannot_write(path, &error))?;
    output::note("note", &format!("wrote {}", path.display()));
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("--plot {}: cannot be written: {error}", path.display()))
}
