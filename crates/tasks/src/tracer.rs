//! Somebody who writes down traces of tasks: asked once when a task is accepted, told once when it has ended.
//!
//! Without a tracer this costs a branch. With one, a task that is not wanted costs the question. What a
//! trace is made of (attempts, times, door, worker) the ended task says itself; nothing is collected for it
//! on the way.
//!
//! Not here: spans, identifiers and where traces go, which are the tracer's own business.

use crate::attempt::guarded;
use crate::service::{Service, ServiceHandle, Shared};
use crate::task::Task;
use serde::Serialize;
use std::sync::Arc;

/// Writes down traces. Called from any thread; must be quick and must not wait.
pub trait Tracer: Send + Sync {
    /// Whether a task that came with this W3C trace context is to be traced.
    fn wants(&self, traceparent: Option<&str>) -> bool;

    /// The trace context that the handler of a traced task is given instead of the one the task came with,
    /// so that what the handler does hangs below the task. [`Task::own_traceparent`] has it at the end.
    fn own_traceparent(&self, traceparent: Option<&str>) -> Option<String> {
        let _ = traceparent;
        None
    }

    /// A traced task has ended, and everybody who waited for it was told. A task that was refused after all
    /// is not told of.
    fn ended(&self, task: &Arc<Task>);

    /// What became of the spans so far.
    fn stats(&self) -> TraceStats {
        TraceStats::default()
    }
}

/// What became of a tracer's spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceStats {
    /// Spans that wait to be sent.
    pub queued: usize,
    /// How many may wait.
    pub queue_max: usize,
    /// Spans that were sent and taken.
    pub exported: u64,
    /// Spans that found no room.
    pub dropped: u64,
    /// Spans that were sent in vain.
    pub failed: u64,
}

/// What a traced task has along.
pub(crate) struct Traced {
    own_traceparent: Option<Box<str>>,
}

impl Service {
    /// From now on tasks are traced. False if there is a tracer already; that one stays.
    pub fn set_tracer(&self, tracer: Arc<dyn Tracer>) -> bool {
        self.shared.tracer.set(tracer).is_ok()
    }
}

impl ServiceHandle {
    /// What became of the spans of the tracer; none without one.
    pub fn trace_stats(&self) -> Option<TraceStats> {
        self.shared.tracer.get().map(|tracer| tracer.stats())
    }
}

impl Shared {
    /// Asks the tracer about a new task. A tracer that panics does not want it.
    pub(crate) fn traced(&self, traceparent: Option<&str>) -> Option<Box<Traced>> {
        let tracer = self.tracer.get()?;
        let mut traced = None;
        guarded(|| {
            if tracer.wants(traceparent) {
                let own_traceparent = tracer.own_traceparent(traceparent).map(Into::into);
                traced = Some(Box::new(Traced { own_traceparent }));
            }
        });
        traced
    }

    /// Tells the tracer of the end of a task.
    pub(crate) fn trace_end(&self, task: &Arc<Task>) {
        if task.traced.is_some()
            && let Some(tracer) = self.tracer.get()
        {
            guarded(|| tracer.ended(task));
        }
    }
}

impl Task {
    /// The trace context of its own that its [`Tracer`] gave it.
    pub fn own_traceparent(&self) -> Option<&str> {
        self.traced.as_ref()?.own_traceparent.as_deref()
    }
}
