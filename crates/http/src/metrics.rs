//! Everything the daemon knows of itself, for Prometheus and whoever reads its text: `GET /metrics`.
//!
//! One picture is taken, and one table says what of it is shown under which name (`metrics/table.rs`). The
//! table is the source of `docs/metrics.md` as well. The pool's own metrics stand below in the same text, as
//! the library writes them. Labels have few values: routes and statuses are lists, and of handlers the first
//! 64 by name have series of their own.
//!
//! Not here: exemplars. They would need the trace of a task to be kept with a bucket of a histogram, which is
//! more than a scrape is worth to a worker; a trace says in itself how long its task took.

mod durable_table;
mod nats_table;
#[cfg(test)]
mod page;
mod pool_part;
mod process;
mod table;
mod text;

use crate::api::Api;
use crate::clients::Census;
use crate::door::Door;
use durable_table::DURABLE_TABLE;
use millpond_tasks::{Buckets, HandlerStats, Stats, TraceStats};
use nats_table::NATS_TABLE;
use process::Process;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::TABLE;
use text::{Format, Spread};

/// Of how many handlers there are series; of the rest, one for all.
const HANDLERS_MAX: usize = 64;
/// What stands for whatever has no series of its own.
const OTHER: &str = "other";

/// The answer to `GET /metrics`, in the format that was asked for.
pub(crate) fn metrics_text(api: &Api, open_metrics: bool) -> Vec<u8> {
    let format = if open_metrics { Format::OpenMetrics } else { Format::Prometheus };
    let picture = Picture::now(api);
    let mut text = String::with_capacity(64 << 10);
    for metric in TABLE.iter().chain(DURABLE_TABLE).chain(NATS_TABLE) {
        text::write(&mut text, format, metric, &picture);
    }
    let pool = api.service.pool_metrics().to_prometheus(&api.service.config().pool.name);
    pool_part::write(&mut text, format, &pool);
    text.push_str(format.end());
    text.into_bytes()
}

/// What is shown, at one moment.
struct Picture {
    tasks: Stats,
    handlers: BTreeMap<String, OfHandler>,
    /// What a full queue of tasks means.
    policy: &'static str,
    door: Arc<Door>,
    census: Census,
    /// Requests that wait for a task, and how many may.
    waiting: (usize, usize),
    /// Streams of events, and how many there may be.
    streams: (usize, usize),
    /// Bytes of bodies that are being read, and how many there may be.
    bodies: (usize, usize),
    /// What became of traces, if there are any.
    traces: Option<TraceStats>,
    process: Process,
}

/// One handler, or all those that have no series of their own.
#[derive(Default)]
struct OfHandler {
    succeeded: u64,
    failed: u64,
    waited: Buckets,
    ran: Buckets,
}

impl Picture {
    fn now(api: &Api) -> Self {
        let mut tasks = api.service.stats();
        Self {
            handlers: by_label(std::mem::take(&mut tasks.handlers)),
            tasks,
            policy: api.service.config().pool.back_pressure.name(),
            door: Arc::clone(&api.door),
            census: api.door.clients.census(),
            waiting: (api.waiting.now(), api.waiting.max()),
            streams: (api.streams.now(), api.streams.max()),
            bodies: (api.bodies.now(), api.bodies.max()),
            traces: api.service.trace_stats(),
            process: Process::now(),
        }
    }
}

/// Handlers by the name under which they are shown. Which they are is known from the start, so a handler
/// never moves from one series to another.
fn by_label(handlers: BTreeMap<String, HandlerStats>) -> BTreeMap<String, OfHandler> {
    let mut shown: BTreeMap<String, OfHandler> = BTreeMap::new();
    for (place, (name, stats)) in handlers.into_iter().enumerate() {
        let label = if place < HANDLERS_MAX { name } else { OTHER.to_owned() };
        let of = shown.entry(label).or_default();
        of.succeeded += stats.succeeded;
        of.failed += stats.failed;
        add(&mut of.waited, stats.waited_buckets);
        add(&mut of.ran, stats.ran_buckets);
    }
    shown
}

/// Adds times in buckets to others with the same bounds, or to none.
fn add(sum: &mut Buckets, more: Buckets) {
    if sum.counts.is_empty() {
        *sum = more;
        return;
    }
    for (count, more) in sum.counts.iter_mut().zip(&more.counts) {
        *count += more;
    }
    sum.count += more.count;
    sum.sum_us += more.sum_us;
}

fn spread(buckets: &Buckets) -> Spread<'_> {
    Spread {
        bounds_us: &buckets.bounds_us,
        counts: &buckets.counts,
        sum_seconds: buckets.sum_us as f64 / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_tasks::Times;

    fn handler(succeeded: u64) -> HandlerStats {
        let buckets =
            Buckets { bounds_us: vec![10], counts: vec![succeeded, 1], count: succeeded + 1, sum_us: 50 };
        HandlerStats {
            accepted: succeeded,
            succeeded,
            failed: 1,
            waited: Times::default(),
            ran: Times::default(),
            waited_buckets: buckets.clone(),
            ran_buckets: buckets,
            own: None,
        }
    }

    #[test]
    fn beyond_64_handlers_share_one_series_with_whoever_has_its_name() {
        let mut handlers: BTreeMap<_, _> =
            (0..70).map(|number| (format!("z{number:02}"), handler(number))).collect();
        let few = by_label(handlers.clone());
        assert_eq!(few.len(), 65);
        assert_eq!((few["z63"].succeeded, few["other"].succeeded), (63, (64..70).sum()));
        let Buckets { counts, count, sum_us, .. } = &few["other"].ran;
        assert_eq!((&counts[..], *count, *sum_us), (&[399, 6][..], 405, 300));
        handlers.insert("other".to_owned(), handler(1000));
        let shared = by_label(handlers);
        assert_eq!((shared.len(), shared["other"].succeeded), (64, 1000 + (63..70).sum::<u64>()));
    }
}
