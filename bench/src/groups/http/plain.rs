//! What does HTTP itself cost: a request on a connection that is kept, and one on a new connection?
//!
//! `http-keepalive`: 50 clients in a closed loop ask for a small answer; the figure is the rate.
//! `http-new-connection`: the same, and every request has a connection of its own. There the generator is the
//! bottleneck on two cores, so the figure is the processor time that the server needs for one request.

use super::{contestants, healthz, measure, megabytes, milliseconds, only};
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{Duty, HEALTHY, Server};
use millpond_load::{Arrivals, Measured, Plan};
use std::time::Duration;

const CLIENTS: usize = 50;
const WARMING_REQUESTS: u64 = 2000;

pub(super) fn groups() -> Vec<Group> {
    let duty = |_| Duty::PLAIN;
    let keep = Group {
        name: "http-keepalive",
        question: "small answers on 50 connections that are kept",
        unit: "requests/s",
        better: Better::Higher,
        pace: Pace::Rounds,
        contestants: contestants(duty, keep_alive, true),
    };
    let new = Group {
        name: "http-new-connection",
        question: "small answers, each on a connection of its own, 50 clients",
        unit: "server CPU µs/request",
        better: Better::Lower,
        pace: Pace::Rounds,
        contestants: contestants(duty, new_connections, true),
    };
    vec![keep, new]
}

fn keep_alive(server: &Server, duration: Duration) -> Result<Figures, String> {
    let (measured, microseconds) = load(server, duration, true)?;
    let beside = vec![
        ("p50_ms", milliseconds(&measured.accepted(), 5_000)),
        ("p99_ms", milliseconds(&measured.accepted(), 9_900)),
        ("cpu_us", microseconds),
        ("rss_mb", megabytes(server.memory_bytes()?)),
    ];
    Ok(Figures { main: rate(&measured), beside })
}

fn new_connections(server: &Server, duration: Duration) -> Result<Figures, String> {
    let (measured, microseconds) = load(server, duration, false)?;
    let beside = vec![
        ("rate", rate(&measured)),
        ("p50_ms", milliseconds(&measured.accepted(), 5_000)),
        ("p99_ms", milliseconds(&measured.accepted(), 9_900)),
        ("rss_mb", megabytes(server.memory_bytes()?)),
    ];
    Ok(Figures { main: microseconds, beside })
}

fn rate(measured: &Measured) -> f64 {
    measured.accepted().count as f64 / measured.elapsed.as_secs_f64()
}

/// What was measured, and the server's processor time for a request, in microseconds.
fn load(server: &Server, duration: Duration, keep_alive: bool) -> Result<(Measured, f64), String> {
    let arrivals = Arrivals::Closed { clients: CLIENTS };
    let plan = Plan { arrivals, keep_alive, duration, ..healthz(server) };
    check(&measure(&Plan { requests_max: Some(WARMING_REQUESTS), ..plan.clone() })?)?;
    let before = server.processor_time()?;
    let measured = measure(&plan)?;
    let used = server.processor_time()?.saturating_sub(before);
    check(&measured)?;
    let microseconds = used.as_secs_f64() * 1e6 / measured.accepted().count as f64;
    Ok((measured, microseconds))
}

/// Everybody got the whole answer.
fn check(measured: &Measured) -> Result<(), String> {
    only(measured, &[200])?;
    let length = HEALTHY.len() as u64;
    let accepted = measured.accepted();
    if accepted.body_bytes != Some((length, length)) {
        return Err(format!("expected answers of {length} bytes, got {:?}", accepted.body_bytes));
    }
    match measured.faults.count() {
        0 => Ok(()),
        _ => Err(format!("expected an answer for everybody, got {:?}", measured.faults)),
    }
}
