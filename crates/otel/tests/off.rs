//! What is off costs nothing: no thread, no memory, and no context of its own for a task.
//!
//! A program of its own, since it counts what the process allocates and which threads it has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_otel::Exporter;
use millpond_tasks::config::TraceSettings;
use millpond_tasks::{Log, Registry, Service, ServiceConfig, Submit, Symbols, function};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);

/// The names of the threads that there are.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).collect()
}

fn is_sending() -> bool {
    threads().iter().any(|name| name.starts_with("millpond-traces"))
}

#[test]
fn without_an_endpoint_there_is_no_thread_no_memory_and_no_trace() {
    let settings = TraceSettings::default();
    assert_eq!(settings.endpoint, None, "it is off unless somebody says where to");
    let log = Log::silent();
    let allocated = allocation_counter::measure(|| {
        let exporter = Exporter::start(&settings, log.clone()).unwrap();
        assert!(exporter.is_none());
    });
    assert_eq!(allocated.count_total, 0);
    assert!(!is_sending(), "{:?}", threads());

    let mut registry = Registry::new();
    registry.add("echo", function(|call| Ok(call.args().to_owned()))).unwrap();
    let service = Service::start(ServiceConfig::default(), registry, Symbols::new()).unwrap();
    let handle = service.handle();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = format!(r#"{{"handler":"echo","traceparent":"{traceparent}"}}"#);
    let accepted = handle.submit(request.as_bytes(), Submit { keep: true, ..Submit::default() }).unwrap();
    assert!(accepted.task.wait(SOON).is_some());
    assert_eq!((accepted.task.own_traceparent(), handle.trace_stats()), (None, None));
    service.stop(SOON);

    // The names above would say nothing if the thread had another one.
    let settings = TraceSettings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..settings };
    let exporter = Exporter::start(&settings, log).unwrap().expect("there is an endpoint");
    // A thread gives itself its name, so it may take a moment to be seen.
    let deadline = Instant::now() + SOON;
    while !is_sending() {
        assert!(Instant::now() < deadline, "{:?}", threads());
        std::thread::yield_now();
    }
    exporter.stop(SOON);
}
