//! What becomes of 500 clients who come at the same moment?
//!
//! `http-burst`: the limits are those of `http-overload`. The figure is the time from the burst to the last
//! answer of any kind; beside it stands how many were served and how many were refused, when the last was
//! served, when 99 of 100 refusals were there, and how many got no answer at all.

use super::{WORK, contestants, exec, measure, milliseconds, only};
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{Duty, Server};
use millpond_load::{Arrivals, Plan};
use std::time::Duration;

const CLIENTS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn groups() -> Vec<Group> {
    vec![Group {
        name: "http-burst",
        question: "500 clients at once, 10 ms of work, 8 at a time, 100 may wait",
        unit: "ms to the last answer",
        better: Better::Lower,
        pace: Pace::Rounds,
        contestants: contestants(|_| Duty::Limited, burst, true),
    }]
}

fn burst(server: &Server, _: Duration) -> Result<Figures, String> {
    let plan = exec(server, WORK.as_bytes());
    let arrivals = Arrivals::Burst { clients: CLIENTS };
    let measured = measure(&Plan { arrivals, keep_alive: false, timeout: PATIENCE, ..plan })?;
    only(&measured, &[200, 503])?;
    let (accepted, refused) = (measured.accepted(), measured.refused());
    let beside = vec![
        ("served", accepted.count as f64),
        ("served_ms", accepted.last_after.as_secs_f64() * 1e3),
        ("refused", refused.count as f64),
        ("503_p99ms", milliseconds(&refused, 9_900)),
        ("lost", measured.faults.count() as f64),
    ];
    Ok(Figures { main: measured.elapsed.as_secs_f64() * 1e3, beside })
}
