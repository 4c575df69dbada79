//! The spans of one task, as OpenTelemetry's conventions for messaging want them.
//!
//! ```text
//!  the caller's span
//!  └─ process echo            consumer, from acceptance to end; event `started` with the wait in the queue
//!     ├─ attempt 1            internal, failed: error.type, message
//!     └─ attempt 2
//! ```
//!
//! What a handler does hangs below the task's span, since that is the context it is given.

use crate::ids::Ids;
use crate::record::Record;
use millpond_tasks::{TaskId, Try};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

/// What the task's span does, in the words of the conventions.
const OPERATION: &str = "process";
/// The flag of a span that is recorded.
const SAMPLED: u32 = 1;

/// The spans of these tasks, with what they all share.
pub(crate) fn of_all(records: &[Record], resource: &Resource, ids: &Ids) -> ResourceSpans {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = records.iter().flat_map(|record| of_one(record, ids)).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
    ResourceSpans { resource: Some(resource.clone()), scope_spans, schema_url: String::new() }
}

/// This daemon.
pub(crate) fn resource(ids: &Ids) -> Resource {
    let attributes = vec![
        text("service.name", "millpond"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &format!("{:016x}", ids.span())),
        number("process.pid", u64::from(std::process::id())),
        text("telemetry.sdk.name", env!("CARGO_PKG_NAME")),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource { attributes, ..Resource::default() }
}

/// The task's span, and one for each attempt.
fn of_one(record: &Record, ids: &Ids) -> Vec<Span> {
    let mut spans = Vec::with_capacity(1 + record.tries.len());
    spans.push(of_task(record));
    spans.extend(record.tries.iter().map(|attempt| of_attempt(record, attempt, ids.span())));
    spans
}

fn of_task(record: &Record) -> Span {
    let status = &record.status;
    // As it stands in an address, without the quotes of JSON.
    let id = match &status.task_id {
        TaskId::Number(number) => number.to_string(),
        TaskId::Name(name) => name.to_string(),
        TaskId::Assigned(number) => format!("t{number}"),
    };
    let mut attributes = vec![
        text("messaging.system", "millpond"),
        text("messaging.operation.name", OPERATION),
        text("messaging.operation.type", OPERATION),
        text("messaging.destination.name", &status.handler),
        text("messaging.message.id", &id),
        text("millpond.door", status.door.name()),
        text("millpond.priority", status.priority),
        number("millpond.attempts", u64::from(status.attempts)),
    ];
    attributes.extend(status.worker.map(|worker| number("millpond.worker", worker as u64)));
    attributes.extend(status.error.map(|error| text("error.type", error)));
    Span {
        trace_id: record.own.trace.to_be_bytes().to_vec(),
        span_id: record.own.span.to_be_bytes().to_vec(),
        parent_span_id: record.parent.map_or_else(Vec::new, |parent| parent.to_be_bytes().to_vec()),
        flags: SAMPLED,
        name: format!("{OPERATION} {}", status.handler),
        kind: SpanKind::Consumer.into(),
        start_time_unix_nano: record.accepted_ns,
        end_time_unix_nano: record.ended_ns(),
        attributes,
        events: record.tries.first().map(|first| started(record, first)).into_iter().collect(),
        status: outcome(status.error, status.message.as_deref()),
        ..Span::default()
    }
}

/// The first attempt began. Of a task with very many attempts it is the first that is still known.
fn started(record: &Record, first: &Try) -> Event {
    Event {
        time_unix_nano: record.at_us(first.began_after_us),
        name: "started".to_owned(),
        attributes: vec![
            number("millpond.attempt", u64::from(first.attempt)),
            number("millpond.waited_us", first.began_after_us),
        ],
        dropped_attributes_count: 0,
    }
}

fn of_attempt(record: &Record, attempt: &Try, span: u64) -> Span {
    let mut attributes = vec![number("millpond.attempt", u64::from(attempt.attempt))];
    attributes.extend(attempt.worker.map(|worker| number("millpond.worker", worker as u64)));
    attributes.extend(attempt.error.map(|error| text("error.type", error)));
    Span {
        trace_id: record.own.trace.to_be_bytes().to_vec(),
        span_id: span.to_be_bytes().to_vec(),
        parent_span_id: record.own.span.to_be_bytes().to_vec(),
        flags: SAMPLED,
        name: format!("attempt {}", attempt.attempt),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: record.at_us(attempt.began_after_us),
        end_time_unix_nano: record.at_us(attempt.began_after_us + attempt.ran_us),
        attributes,
        status: outcome(attempt.error, attempt.message.as_deref()),
        ..Span::default()
    }
}

/// An error with its message. Success is left unsaid, as the conventions want it.
fn outcome(error: Option<&str>, message: Option<&str>) -> Option<Status> {
    let error = error?;
    Some(Status { message: message.unwrap_or(error).to_owned(), code: StatusCode::Error.into() })
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
