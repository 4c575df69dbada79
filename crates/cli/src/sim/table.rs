//! The outcomes as a table for people: one row a strategy, the shortest p99 wait first.
//!
//! Columns about stealing and scaling are there only if there was any.

use super::{Plan, Run};
use crate::columns::{Cell, Heading, table};
use crate::paint::Paint;
use crate::units::{grouped, time};
use millpond_sim::{Arrivals, Scenario};
use std::fmt::Write;

/// One column: its heading, and how a cell is made.
type Column = (Heading, fn(&Run) -> String);

fn number(heading: &'static str, cell: fn(&Run) -> String) -> Column {
    (Heading::right(heading), cell)
}

pub(super) fn text(plan: &Plan, runs: &[Run]) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{}\n", describe(&plan.scenario));
    let columns = columns(&plan.scenario);
    let headings: Vec<Heading> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |run: &Run| columns.iter().map(|(_, cell)| Cell::new(cell(run))).collect();
    let rows: Vec<Vec<Cell>> = runs.iter().map(cells).collect();
    text.push_str(&table(&headings, &rows, Paint::for_output()));
    let _ = writeln!(
        text,
        "\nwaits, the shortest p99 first; fairness is Jain's index over the workers' busy time"
    );
    let _ = writeln!(text, "again: {}", plan.command);
    text
}

/// What was simulated, in one line.
pub(super) fn describe(scenario: &Scenario) -> String {
    let Scenario { workers, tasks, arrivals, service, .. } = scenario;
    let mean = time(scenario.service_mean.as_nanos() as f64);
    let service = match arrivals {
        Arrivals::Trace(trace) if trace.has_services() => "recorded service times".to_owned(),
        _ => format!("{} service of {mean}", service.name()),
    };
    let mut text = format!(
        "{} workers, load {:.3}, {} tasks, {} arrivals, {service}",
        grouped((*workers).into()),
        scenario.load_offered(),
        grouped(*tasks),
        arrivals.name()
    );
    if let Some(stealing) = &scenario.stealing {
        let _ = write!(text, ", stealing {}", stealing.size.name());
    }
    if let Some(scaling) = &scenario.scaling {
        let _ = write!(text, ", scaling {}..{}", scaling.workers_min, scaling.workers_max);
    }
    let _ = write!(text, ", seed {}", scenario.seed);
    text
}

fn columns(scenario: &Scenario) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        (Heading::left("strategy"), |run| run.outcome.strategy.clone()),
        number("p50", |run| time(run.outcome.waits.percentiles().p50 as f64)),
        number("p99", |run| time(run.outcome.waits.percentiles().p99 as f64)),
        number("p999", |run| time(run.outcome.waits.percentiles().p999 as f64)),
        number("max", |run| time(run.outcome.waits.max().unwrap_or(0) as f64)),
        number("mean", |run| time(run.outcome.wait_mean_ns)),
        number("fairness", |run| format!("{:.4}", run.outcome.fairness)),
        number("busy", |run| format!("{:.1} %", 100.0 * run.outcome.utilisation)),
    ];
    if scenario.stealing.is_some() {
        columns.push(number("robberies", |run| grouped(run.outcome.robberies)));
        columns.push(number("stolen", |run| grouped(run.outcome.stolen)));
    }
    if scenario.scaling.is_some() {
        columns.push(number("up", |run| grouped(run.outcome.scale_ups)));
        columns.push(number("down", |run| grouped(run.outcome.scale_downs)));
        columns.push(number("peak", |run| grouped(run.outcome.workers_peak.into())));
        columns.push(number("at end", |run| grouped(run.outcome.workers_end.into())));
    }
    columns.push(number("took", |run| time(run.took.as_nanos() as f64)));
    columns
}
