//! What is printed of a run: a table by kind of answer for people, one object for programs.
//!
//! Accepted and refused requests never share a line. What got no answer is listed even where it is nought,
//! since that is what a load test is made for.

use super::scenario::Scenario;
use super::shown;
use crate::columns::{Cell, Heading, table};
use crate::output::harmless;
use crate::paint::{Paint, Tone};
use crate::units::{bytes, grouped, time};
use millpond_load::{Answers, Arrivals, Measured, Plan};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A generator that is later than this with one in a hundred of its requests has its own figures in them.
const LAG_NOTED: Duration = Duration::from_millis(5);

const HEADINGS: &[Heading] = &[
    Heading::left("answers"),
    Heading::right("count"),
    Heading::right("share"),
    Heading::right("rate"),
    Heading::right("p50"),
    Heading::right("p90"),
    Heading::right("p99"),
    Heading::right("p99.9"),
    Heading::right("max"),
];

/// A scenario, and what it missed.
pub(super) type Missed = (Scenario, Vec<String>);

/// For people.
pub(super) fn text(plan: &Plan, measured: &Measured, missed: Option<&Missed>) -> String {
    let paint = Paint::for_output();
    let seconds = measured.elapsed.as_secs_f64();
    let mut text = format!(
        "{}\n{}, {}; {} requests on {} connections in {seconds:.1} s\n\n",
        shown(plan),
        arrivals(plan),
        if plan.keep_alive { "connections kept" } else { "a connection each" },
        grouped(measured.begun),
        grouped(measured.connections),
    );
    let mut rows = vec![row("accepted (2xx)", &measured.accepted(), measured, Tone::Good)];
    rows.push(row("refused (503)", &measured.refused(), measured, Tone::Doubtful));
    for (status, answers) in &measured.statuses {
        if !(200..300).contains(status) && *status != 503 {
            rows.push(row(&status.to_string(), answers, measured, Tone::Bad));
        }
    }
    text.push_str(&table(HEADINGS, &rows, paint));
    text.push_str(&format!("\n{}\n", faults(measured, paint)));
    text.push_str(&streams(measured));
    let lag = Duration::from_nanos(measured.lag.quantile(9_900).unwrap_or(0));
    if lag > LAG_NOTED {
        let late = time(lag.as_nanos() as f64);
        text.push_str(&format!(
            "1 % of the requests were begun {late} or more after they were due: no connection was free, or \
             this machine is too busy\n"
        ));
    }
    if let Some((scenario, missed)) = missed {
        let name = scenario.name();
        match missed.is_empty() {
            true => text.push_str(&format!("scenario {name}: {}\n", paint.put(Tone::Good, "passed"))),
            false => missed.iter().for_each(|missed| {
                text.push_str(&format!("scenario {name}: {}: {missed}\n", paint.put(Tone::Bad, "failed")));
            }),
        }
    }
    text
}

fn arrivals(plan: &Plan) -> String {
    match plan.arrivals {
        Arrivals::Closed { clients } => format!("closed loop, {} clients", grouped(clients as u64)),
        Arrivals::Burst { clients } => format!("burst of {} clients", grouped(clients as u64)),
        Arrivals::Open { per_second, connections_max } => {
            let most = grouped(connections_max as u64);
            format!("open loop, {per_second} requests/s, at most {most} connections")
        }
    }
}

fn row(name: &str, answers: &Answers, measured: &Measured, tone: Tone) -> Vec<Cell> {
    let share = 100.0 * answers.count as f64 / measured.begun.max(1) as f64;
    let rate = answers.count as f64 / measured.elapsed.as_secs_f64().max(1e-9);
    let at =
        |per_10_000| answers.times.quantile(per_10_000).map_or("-".to_owned(), |nanos| time(nanos as f64));
    let max = answers.times.max().map_or("-".to_owned(), |nanos| time(nanos as f64));
    let figures =
        [grouped(answers.count), format!("{share:.2} %"), format!("{}/s", grouped(rate as u64)), at(5_000)];
    let figures = figures.into_iter().chain([at(9_000), at(9_900), at(9_990), max]);
    let tone = if answers.count > 0 { tone } else { Tone::Faint };
    [Cell::toned(tone, name)].into_iter().chain(figures.map(Cell::new)).collect()
}

fn faults(measured: &Measured, paint: Paint) -> String {
    let faults = &measured.faults;
    let counts = [
        ("timeouts", faults.timeouts),
        ("resets", faults.resets),
        ("cut short", faults.cut_short),
        ("no connection", faults.unconnected),
        ("no HTTP", faults.garbled),
    ];
    let tone = |count| if count > 0 { Tone::Bad } else { Tone::Plain };
    let counts = counts.map(|(name, count)| paint.put(tone(count), &format!("{name} {}", grouped(count))));
    let first =
        faults.first.as_ref().map_or(String::new(), |first| format!("; the first: {}", harmless(first)));
    counts.join(", ") + &first
}

fn streams(measured: &Measured) -> String {
    let streams = &measured.streams;
    if streams.begun + streams.failed == 0 {
        return String::new();
    }
    format!(
        "streams: {} open, {} ended, {} not begun; {} events, {} heartbeats, {}\n",
        grouped(streams.open),
        grouped(streams.ended),
        grouped(streams.failed),
        grouped(streams.events),
        grouped(streams.heartbeats),
        bytes(streams.bytes)
    )
}

/// For programs.
pub(super) fn object(plan: &Plan, measured: &Measured, missed: Option<&Missed>) -> Value {
    let (mode, clients, rate) = match plan.arrivals {
        Arrivals::Closed { clients } => ("closed", clients, None),
        Arrivals::Burst { clients } => ("burst", clients, None),
        Arrivals::Open { per_second, connections_max } => ("open", connections_max, Some(per_second)),
    };
    let statuses: Map<String, Value> = measured
        .statuses
        .iter()
        .map(|(status, answers)| (status.to_string(), answers.count.into()))
        .collect();
    let faults = &measured.faults;
    let mut object = json!({
        "address": plan.address.to_string(),
        "method": plan.request.method,
        "path": plan.request.path,
        "mode": mode,
        "clients": clients,
        "keep_alive": plan.keep_alive,
        "seconds": measured.elapsed.as_secs_f64(),
        "requests": measured.begun,
        "connections": measured.connections,
        "statuses": statuses,
        "accepted": answers(&measured.accepted(), measured),
        "refused": answers(&measured.refused(), measured),
        "others": answers(&measured.others(), measured),
        "timeouts": faults.timeouts,
        "resets": faults.resets,
        "cut_short": faults.cut_short,
        "unconnected": faults.unconnected,
        "garbled": faults.garbled,
        "under_way": measured.under_way(),
        "lag_p99_ns": measured.lag.quantile(9_900).unwrap_or(0),
    });
    if let Some(rate) = rate {
        object["rate"] = rate.into();
    }
    if let Some(first) = &faults.first {
        object["first_fault"] = first.as_str().into();
    }
    if plan.readers.is_some() {
        let streams = &measured.streams;
        object["streams"] = json!({
            "open": streams.open, "begun": streams.begun, "failed": streams.failed, "ended": streams.ended,
            "events": streams.events, "heartbeats": streams.heartbeats, "bytes": streams.bytes,
        });
    }
    if let Some((scenario, missed)) = missed {
        object["scenario"] =
            json!({ "name": scenario.name(), "passed": missed.is_empty(), "missed": missed });
    }
    object
}

fn answers(answers: &Answers, measured: &Measured) -> Value {
    let percentiles = answers.times.percentiles();
    let (shortest, longest) = answers.body_bytes.unwrap_or_default();
    json!({
        "count": answers.count,
        "per_second": answers.count as f64 / measured.elapsed.as_secs_f64().max(1e-9),
        "p50_ns": percentiles.p50,
        "p90_ns": percentiles.p90,
        "p99_ns": percentiles.p99,
        "p999_ns": percentiles.p999,
        "max_ns": answers.times.max().unwrap_or(0),
        "body_bytes_min": shortest,
        "body_bytes_max": longest,
    })
}
