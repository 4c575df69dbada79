//! A normal client that comes every 20 ms, on a new connection each time, while others behave badly.
//!
//! Whether it is served, and how soon, is what the groups about slow clients ask.

use super::{healthz, measure, milliseconds};
use crate::peers::http::Server;
use millpond_load::{Arrivals, Plan};
use std::time::Duration;

const PER_SECOND: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(2);

/// How the normal client fared.
pub(super) struct Fare {
    pub(super) served_percent: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

pub(super) fn probe(server: &Server, duration: Duration) -> Result<Fare, String> {
    let arrivals = Arrivals::Open { per_second: PER_SECOND, connections_max: 1000 };
    let plan = Plan { arrivals, keep_alive: false, timeout: PATIENCE, duration, ..healthz(server) };
    let measured = measure(&plan)?;
    let accepted = measured.accepted();
    Ok(Fare {
        served_percent: super::percent(accepted.count, measured.begun),
        p50_ms: milliseconds(&accepted, 5_000),
        p99_ms: milliseconds(&accepted, 9_900),
    })
}
