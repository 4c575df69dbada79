//! Spans of tasks for OpenTelemetry: what became of each task, sent by OTLP over HTTP to whoever collects
//! them.
//!
//! To follow one task: `tracer.rs` decides at its acceptance whether it is traced, and makes a `record.rs` of
//! it at its end; `exporter.rs` gathers records in a thread of its own, `spans.rs` makes spans of them,
//! `post.rs` sends those. `context.rs` is who a span is and whose child.
//!
//! Not here: which settings there are (`millpond_tasks::config::TraceSettings`), and who serves the figures.
#![forbid(unsafe_code)]

mod context;
mod exporter;
mod ids;
mod post;
mod record;
mod spans;
mod tracer;

pub use exporter::Exporter;

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
