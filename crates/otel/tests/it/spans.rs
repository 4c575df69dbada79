//! What a collector is told of a task: whose child it is, how long it waited and ran, and what went wrong.
//!
//! Traces are read by people who were not there, so each of these is looked at in what really came over HTTP.

use crate::daemon::{Daemon, at_once};
use crate::receiver::{Collector, SOON, named};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == i32::from(StatusCode::Error))
}

#[test]
fn a_task_is_a_child_of_its_caller_and_its_handler_a_child_of_the_task() {
    let collector = Collector::start([]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    let caller = format!("00-{TRACE}-{CALLER}-01");
    let request =
        format!(r#"{{"handler":"echo","task_id":"job-1","priority":"high","traceparent":"{caller}"}}"#);
    let accepted = daemon.run(&request);
    let got = collector.next();
    let [task, attempt] = &got.spans[..] else { panic!("a task and an attempt: {got:?}") };
    assert_eq!((hex(&task.trace_id), hex(&task.parent_span_id)), (TRACE.to_owned(), CALLER.to_owned()));
    assert_eq!((task.name.as_str(), task.kind), ("process echo", SpanKind::Consumer.into()));
    let contexts = daemon.contexts.lock().unwrap().clone();
    assert_eq!(
        contexts,
        [Some(format!("00-{TRACE}-{}-01", hex(&task.span_id)))],
        "what the handler was given"
    );
    let attributes = named(&task.attributes);
    let expected = [
        ("messaging.system", "millpond"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "echo"),
        ("messaging.message.id", "job-1"),
        ("millpond.door", "library"),
        ("millpond.priority", "high"),
        ("millpond.attempts", "1"),
        ("millpond.worker", "0"),
    ];
    assert_eq!(attributes, expected.map(|(key, value)| (key, value.to_owned())).into());
    assert_eq!((hex(&attempt.trace_id), &attempt.parent_span_id), (TRACE.to_owned(), &task.span_id));
    assert_eq!((attempt.name.as_str(), attempt.kind), ("attempt 1", SpanKind::Internal.into()));
    assert_ne!(attempt.span_id, task.span_id);
    assert!(!is_error(task) && !is_error(attempt));
    check_times(&accepted.task, task, attempt);
    let resource = named(&got.resource.attributes);
    assert_eq!(
        (resource["service.name"].as_str(), resource["process.pid"].parse()),
        ("millpond", Ok(std::process::id()))
    );
    daemon.end(SOON);
}

/// The task begins when it was accepted, the attempt when its wait was over, and both end together.
fn check_times(task: &millpond_tasks::Task, span: &Span, attempt: &Span) {
    let outcome = task.outcome().expect("it has ended");
    assert_eq!(span.start_time_unix_nano, task.accepted_unix_ns());
    let [started] = &span.events[..] else { panic!("one event: {span:?}") };
    let waited_us = outcome.waited.as_micros() as u64;
    assert_eq!((started.name.as_str(), started.time_unix_nano), ("started", attempt.start_time_unix_nano));
    assert_eq!(named(&started.attributes)["millpond.waited_us"], waited_us.to_string());
    assert_eq!(attempt.start_time_unix_nano - span.start_time_unix_nano, waited_us * 1000);
    let ran_us = outcome.ran.as_micros() as u64;
    assert_eq!(attempt.end_time_unix_nano - attempt.start_time_unix_nano, ran_us * 1000);
    assert_eq!(span.end_time_unix_nano, attempt.end_time_unix_nano);
}

#[test]
fn a_task_of_nobody_begins_a_trace_of_its_own() {
    let collector = Collector::start([]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    daemon.run(r#"{"handler":"echo"}"#);
    let spans = collector.spans(4);
    let tasks: Vec<_> = spans.iter().filter(|span| span.kind == i32::from(SpanKind::Consumer)).collect();
    assert!(tasks.iter().all(|task| task.parent_span_id.is_empty() && task.trace_id.len() == 16));
    assert_ne!(tasks[0].trace_id, tasks[1].trace_id);
    assert_eq!(named(&tasks[0].attributes)["messaging.message.id"], "t1");
    daemon.end(SOON);
}

#[test]
fn every_attempt_is_a_span_with_its_own_error() {
    let collector = Collector::start([]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"third","retries":5}"#);
    let spans = collector.spans(4);
    let (task, attempts) = spans.split_first().unwrap();
    assert!(!is_error(task), "it succeeded in the end");
    assert_eq!(named(&task.attributes)["millpond.attempts"], "3");
    let names: Vec<_> = attempts.iter().map(|attempt| attempt.name.as_str()).collect();
    assert_eq!(names, ["attempt 1", "attempt 2", "attempt 3"]);
    assert_eq!(attempts.iter().map(is_error).collect::<Vec<_>>(), [true, true, false]);
    let messages: Vec<_> =
        attempts.iter().filter_map(|attempt| Some(attempt.status.as_ref()?.message.as_str())).collect();
    assert_eq!(messages, ["not at attempt 1", "not at attempt 2"]);
    assert_eq!(named(&attempts[0].attributes)["error.type"], "handler-error");
    assert!(attempts.iter().all(|attempt| attempt.parent_span_id == task.span_id));
    let in_order = |pair: &[Span]| pair[0].end_time_unix_nano <= pair[1].start_time_unix_nano;
    assert!(attempts.windows(2).all(in_order), "one after the other: {attempts:?}");
    assert_eq!(task.events.len(), 1, "the first one ended the wait");
    assert_eq!(task.events[0].time_unix_nano, attempts[0].start_time_unix_nano);
    daemon.end(SOON);
}

#[test]
fn a_task_that_failed_says_how() {
    let collector = Collector::start([]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"fail"}"#);
    let spans = collector.spans(2);
    for span in &spans {
        assert!(is_error(span), "{span:?}");
        assert_eq!(span.status.as_ref().unwrap().message, "it is broken");
        assert_eq!(named(&span.attributes)["error.type"], "handler-error");
    }
    daemon.end(SOON);
}

#[test]
fn a_task_that_never_began_has_no_attempt_and_no_start() {
    let collector = Collector::start([]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.cancelled(r#"{"handler":"echo","delay_ms":3600000}"#);
    let spans = collector.spans(1);
    assert!(is_error(&spans[0]) && spans[0].events.is_empty());
    let attributes = named(&spans[0].attributes);
    assert_eq!(
        (attributes["error.type"].as_str(), attributes["millpond.attempts"].as_str()),
        ("cancelled", "0")
    );
    assert!(!attributes.contains_key("millpond.worker"));
    assert!(spans[0].end_time_unix_nano >= spans[0].start_time_unix_nano);
    daemon.end(SOON);
}

#[test]
fn whoever_does_not_want_to_be_seen_is_not_and_keeps_its_context() {
    let collector = Collector::start([]);
    let settings = millpond_tasks::config::TraceSettings { sample: 0.0, ..at_once(collector.endpoint()) };
    let daemon = Daemon::start(&settings);
    let unsampled = format!("00-{TRACE}-{CALLER}-00");
    daemon.run(&format!(r#"{{"handler":"echo","traceparent":"{unsampled}"}}"#));
    daemon.run(r#"{"handler":"echo"}"#);
    assert_eq!(*daemon.contexts.lock().unwrap(), [Some(unsampled), None]);
    daemon.run(&format!(r#"{{"handler":"echo","traceparent":"00-{TRACE}-{CALLER}-01"}}"#));
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.dropped, stats.failed), (2, 0, 0), "the one that its caller records");
    assert_eq!(collector.rest().len(), 1);
}
