//! The settings of traces: their part of the table, and what the exporter is given.
//!
//! Traces are off until somebody says where they go. What waits to be sent has a limit, and whatever does not
//! fit is counted and dropped: a collector that is slow or gone must not slow down tasks.
//!
//! Not here: what a trace is made of (the crate `millpond-otel`).

use super::load::Loaded;
use super::table::{Setting, setting};
use super::typed::text;
use super::value::Kind::{self, Count, Fraction, Span, Url};
use std::time::Duration;

const A_WHILE: Kind = Span(Duration::from_millis(1), Duration::from_secs(3600));

const fn trace(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "traces", about)
}

/// The settings of traces, as they stand in the table.
pub(super) const TRACE_SETTINGS: &[Setting] = &[
    trace("trace.endpoint", Url, "none", "Where spans of tasks are sent, by OTLP over HTTP.")
        .or("none", "tasks are not traced"),
    trace(
        "trace.sample",
        Fraction(0.0, 1.0),
        "1",
        "Which share is traced of the tasks that belong to nobody's trace; of others their caller decides.",
    ),
    trace(
        "trace.queue_max",
        Count(1, 1 << 20),
        "2048",
        "How many ended tasks may wait for their spans to be sent.",
    ),
    trace("trace.batch_max", Count(1, 1 << 16), "512", "Of how many tasks spans are sent at once."),
    trace(
        "trace.interval",
        A_WHILE,
        "1s",
        "How long the spans of a task wait for others before they are sent.",
    ),
    trace("trace.timeout", A_WHILE, "10s", "How long the receiver may take to answer."),
];

/// Where traces go, and which.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// Where spans are sent; without, tasks are not traced.
    pub endpoint: Option<String>,
    /// Which share is traced of the tasks that belong to nobody's trace: 0 to 1.
    pub sample: f64,
    /// How many ended tasks may wait for their spans to be sent.
    pub queue_max: usize,
    /// Of how many tasks spans are sent at once.
    pub batch_max: usize,
    /// How long the spans of a task wait for others.
    pub interval: Duration,
    /// How long the receiver may take to answer.
    pub timeout: Duration,
}

impl Loaded {
    pub(super) fn trace(&self) -> TraceSettings {
        TraceSettings {
            endpoint: text(self.value("trace.endpoint")).map(str::to_owned),
            sample: self.fraction("trace.sample"),
            queue_max: self.count("trace.queue_max"),
            batch_max: self.count("trace.batch_max"),
            interval: self.duration("trace.interval"),
            timeout: self.duration("trace.timeout"),
        }
    }
}
