//! The outcomes as JSON for programs: one object, with times in nanoseconds under names that say so.
//!
//! Runs stand in the order of the table, the shortest p99 wait first. Seeds are below 2^53, so that readers which know
//! only doubles, as JavaScript does, can repeat a run too.

use super::{Plan, Run};
use millpond_sim::Scenario;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn text(plan: &Plan, runs: &[Run]) -> String {
    let runs: Vec<Value> = runs.iter().map(run).collect();
    let whole = json!({ "scenario": scenario(&plan.scenario), "command": plan.command, "runs": runs });
    format!("{whole:#}\n")
}

fn scenario(scenario: &Scenario) -> Value {
    json!({
        "workers": scenario.workers,
        "tasks": scenario.tasks,
        "load": scenario.load_offered(),
        "arrivals": scenario.arrivals.name(),
        "service": scenario.service.name(),
        "service_mean_ns": nanos(scenario.service_mean),
        "speeds": scenario.speeds,
        "stealing": scenario.stealing.map(|stealing| stealing.size.name()),
        "scaling": scenario.scaling.map(|scaling| json!({
            "workers_min": scaling.workers_min,
            "workers_max": scaling.workers_max,
        })),
        "seed": scenario.seed,
    })
}

fn run(run: &Run) -> Value {
    let outcome = &run.outcome;
    let waits = outcome.waits.percentiles();
    json!({
        "strategy": outcome.strategy,
        "tasks": outcome.tasks,
        "wait_p50_ns": waits.p50,
        "wait_p90_ns": waits.p90,
        "wait_p99_ns": waits.p99,
        "wait_p999_ns": waits.p999,
        "wait_max_ns": outcome.waits.max(),
        "wait_mean_ns": outcome.wait_mean_ns,
        "sojourn_mean_ns": outcome.sojourn_mean_ns,
        "fairness": outcome.fairness,
        "utilisation": outcome.utilisation,
        "present_mean": outcome.present_mean,
        "load_at_least": outcome.load_at_least,
        "robberies": outcome.robberies,
        "stolen": outcome.stolen,
        "scale_ups": outcome.scale_ups,
        "scale_downs": outcome.scale_downs,
        "workers_end": outcome.workers_end,
        "workers_peak": outcome.workers_peak,
        "simulated_ns": nanos(outcome.simulated),
        "took_ns": nanos(run.took),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
