//! The outcomes as a table for people: one row a strategy, the shortest p99 wait first.
//!
//! Columns about stealing and scaling are there only if there was any. Numbers stand right, names left, and no line is
//! wider than it must be.

use super::{Plan, Run};
use crate::units::{grouped, time};
use millpond_sim::{Arrivals, Scenario};
use std::fmt::Write;

/// One column: its heading, whether its cells stand left, and how a cell is made.
struct Column {
    heading: &'static str,
    is_left: bool,
    cell: fn(&Run) -> String,
}

impl Column {
    const fn number(heading: &'static str, cell: fn(&Run) -> String) -> Self {
        Self { heading, is_left: false, cell }
    }
}

pub(super) fn text(plan: &Plan, runs: &[Run]) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{}\n", describe(&plan.scenario));
    let columns = columns(&plan.scenario);
    let rows: Vec<Vec<String>> =
        runs.iter().map(|run| columns.iter().map(|column| (column.cell)(run)).collect()).collect();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().map(|row| width(&row[at]));
            cells.chain([width(column.heading)]).max().unwrap_or(0)
        })
        .collect();
    let headings: Vec<String> = columns.iter().map(|column| column.heading.to_owned()).collect();
    line(&mut text, &columns, &widths, &headings);
    let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    line(&mut text, &columns, &widths, &rules);
    for row in &rows {
        line(&mut text, &columns, &widths, row);
    }
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
    let mut columns = vec![
        Column { heading: "strategy", is_left: true, cell: |run| run.outcome.strategy.clone() },
        Column::number("p50", |run| time(run.outcome.waits.percentiles().p50 as f64)),
        Column::number("p99", |run| time(run.outcome.waits.percentiles().p99 as f64)),
        Column::number("p999", |run| time(run.outcome.waits.percentiles().p999 as f64)),
        Column::number("max", |run| time(run.outcome.waits.max().unwrap_or(0) as f64)),
        Column::number("mean", |run| time(run.outcome.wait_mean_ns)),
        Column::number("fairness", |run| format!("{:.4}", run.outcome.fairness)),
        Column::number("busy", |run| format!("{:.1} %", 100.0 * run.outcome.utilisation)),
    ];
    if scenario.stealing.is_some() {
        columns.push(Column::number("robberies", |run| grouped(run.outcome.robberies)));
        columns.push(Column::number("stolen", |run| grouped(run.outcome.stolen)));
    }
    if scenario.scaling.is_some() {
        columns.push(Column::number("up", |run| grouped(run.outcome.scale_ups)));
        columns.push(Column::number("down", |run| grouped(run.outcome.scale_downs)));
        columns.push(Column::number("peak", |run| grouped(run.outcome.workers_peak.into())));
        columns.push(Column::number("at end", |run| grouped(run.outcome.workers_end.into())));
    }
    columns.push(Column::number("took", |run| time(run.took.as_nanos() as f64)));
    columns
}

fn line(text: &mut String, columns: &[Column], widths: &[usize], cells: &[String]) {
    for (at, cell) in cells.iter().enumerate() {
        let padding = " ".repeat(widths[at] - width(cell));
        let gap = if at == 0 { "" } else { "  " };
        let _ = match columns[at].is_left {
            true => write!(text, "{gap}{cell}{padding}"),
            false => write!(text, "{gap}{padding}{cell}"),
        };
    }
    text.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}
