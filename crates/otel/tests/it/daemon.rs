//! A service whose tasks are traced: its handlers do what a test says, and its spans go to a test's
//! collector.
//!
//! The exporter waits for an hour unless a batch is full, so what is sent is sent because a test had it sent.

use crate::receiver::SOON;
use millpond_otel::Exporter;
use millpond_tasks::config::{RetrySettings, TraceSettings};
use millpond_tasks::{
    Accepted, Call, ErrorCode, Log, Registry, Service, ServiceConfig, Submit, Symbols, TaskFailure,
    TraceStats, function,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Settings with which a task is sent as soon as it has ended.
pub(crate) fn at_once(endpoint: String) -> TraceSettings {
    TraceSettings {
        endpoint: Some(endpoint),
        sample: 1.0,
        queue_max: 1024,
        batch_max: 1,
        interval: Duration::from_secs(3600),
        timeout: SOON,
    }
}

/// A service and its exporter.
pub(crate) struct Daemon {
    service: Service,
    exporter: Exporter,
    /// The trace contexts that the handler `echo` was given.
    pub(crate) contexts: Arc<Mutex<Vec<Option<String>>>>,
}

impl Daemon {
    pub(crate) fn start(settings: &TraceSettings) -> Self {
        let retry =
            RetrySettings { backoff_min: Duration::from_millis(1), backoff_max: Duration::from_millis(1) };
        let mut config = ServiceConfig { retry, ..ServiceConfig::default() };
        config.pool.workers = 1;
        let contexts = Arc::default();
        let mut registry = Registry::new();
        registry.add("echo", echo(Arc::clone(&contexts))).unwrap();
        registry
            .add("fail", function(|_| Err(TaskFailure::new(ErrorCode::HandlerError, "it is broken"))))
            .unwrap();
        registry.add("third", function(third)).unwrap();
        let service = Service::start(config, registry, Symbols::new()).unwrap();
        let exporter = Exporter::start(settings, Log::silent()).unwrap().expect("there is an endpoint");
        assert!(service.set_tracer(exporter.tracer()));
        Self { service, exporter, contexts }
    }

    /// Runs a task to its end.
    pub(crate) fn run(&self, request: &str) -> Accepted {
        let accepted = self.submit(request);
        assert!(accepted.task.wait(SOON).is_some(), "it ends");
        accepted
    }

    /// Hands in a task and cancels it.
    pub(crate) fn cancelled(&self, request: &str) {
        let accepted = self.submit(request);
        self.service.handle().cancel(accepted.task.id()).unwrap();
    }

    fn submit(&self, request: &str) -> Accepted {
        let how = Submit { keep: true, ..Submit::default() };
        self.service.handle().submit(request.as_bytes(), how).unwrap()
    }

    pub(crate) fn stats(&self) -> TraceStats {
        self.service.handle().trace_stats().expect("there is a tracer")
    }

    /// Ends the service, which tells of all tasks; then the exporter, which sends them.
    pub(crate) fn end(self, patience: Duration) -> TraceStats {
        self.service.stop(SOON);
        self.exporter.stop(patience)
    }
}

fn echo(contexts: Arc<Mutex<Vec<Option<String>>>>) -> impl millpond_tasks::Handler {
    function(move |call: &Call| {
        contexts.lock().unwrap().push(call.traceparent().map(str::to_owned));
        Ok(call.args().to_owned())
    })
}

/// Succeeds at the third attempt.
fn third(call: &Call) -> Result<Box<serde_json::value::RawValue>, TaskFailure> {
    if call.attempt() < 3 {
        return Err(TaskFailure::new(ErrorCode::HandlerError, format!("not at attempt {}", call.attempt())));
    }
    Ok(call.args().to_owned())
}
