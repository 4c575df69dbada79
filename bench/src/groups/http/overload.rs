//! What does a server do that is asked five times as much as it can do?
//!
//! `http-overload`: ten milliseconds of work, 8 at a time, 100 may wait, and 4000 new connections come in a
//! second by the clock; a client gives up after two seconds. What counts is how much is still done (as a
//! share of what the same server does in the same round when nobody pushes), how long those wait who are let
//! in, how soon the others are told, and that nobody is left without an answer. The row `hyper` has no limit
//! and shows what the others prevent.

use super::{WORK, contestants, exec, measure, megabytes, milliseconds, only, percent};
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{AT_ONCE, Duty, Server};
use millpond_load::{Arrivals, Plan};
use std::time::Duration;

const PER_SECOND: f64 = 4000.0;
const PATIENCE: Duration = Duration::from_secs(2);
/// More than enough for everybody who comes before the first gives up.
const CONNECTIONS_MAX: usize = 10_000;

pub(super) fn groups() -> Vec<Group> {
    vec![Group {
        name: "http-overload",
        question: "10 ms of work, 8 at a time, 100 may wait, 4000 come in a second",
        unit: "accepted/s",
        better: Better::Higher,
        pace: Pace::Rounds,
        contestants: contestants(|_| Duty::Limited, overload, true),
    }]
}

fn overload(server: &Server, duration: Duration) -> Result<Figures, String> {
    let capacity = capacity(server, duration / 5)?;
    let arrivals = Arrivals::Open { per_second: PER_SECOND, connections_max: CONNECTIONS_MAX };
    let plan = exec(server, WORK.as_bytes());
    let plan = Plan { arrivals, keep_alive: false, timeout: PATIENCE, duration, ..plan };
    let measured = measure(&plan)?;
    only(&measured, &[200, 503])?;
    let (accepted, refused, faults) = (measured.accepted(), measured.refused(), &measured.faults);
    let goodput = accepted.count as f64 / measured.elapsed.as_secs_f64();
    let beside = vec![
        ("share_pct", 100.0 * goodput / capacity),
        ("p50_ms", milliseconds(&accepted, 5_000)),
        ("p99_ms", milliseconds(&accepted, 9_900)),
        ("503_pct", percent(refused.count, measured.begun)),
        ("503_p99ms", milliseconds(&refused, 9_900)),
        ("timeouts", faults.timeouts as f64),
        ("lost", (faults.count() - faults.timeouts) as f64),
        ("lag_p99ms", measured.lag.quantile(9_900).unwrap_or(0) as f64 / 1e6),
        ("rss_mb", megabytes(server.memory_bytes()?)),
    ];
    Ok(Figures { main: goodput, beside })
}

/// What it does in a second if there is always work and never too much of it.
fn capacity(server: &Server, duration: Duration) -> Result<f64, String> {
    let arrivals = Arrivals::Closed { clients: 4 * AT_ONCE };
    let measured = measure(&Plan { arrivals, duration, ..exec(server, WORK.as_bytes()) })?;
    only(&measured, &[200])?;
    Ok(measured.accepted().count as f64 / measured.elapsed.as_secs_f64())
}
