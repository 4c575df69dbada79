//! What the service asks and tells: whether a task is traced, who it is in its trace, and that it has ended.
//!
//! All of it runs on the threads of the service, so none of it waits. A task belongs to its caller's trace,
//! and then the caller decides whether that is recorded; a task without one may begin a trace of its own.

use crate::context::Context;
use crate::ids::Ids;
use crate::record::Record;
use millpond_queue::Ring;
use millpond_tasks::config::TraceSettings;
use millpond_tasks::{Task, TraceStats, Tracer};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// What the service and the exporter's thread share.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) settings: TraceSettings,
    pub(crate) ids: Ids,
    /// Filled by whoever ends a task, emptied by the thread.
    pub(crate) waiting: Ring<Record>,
    /// The thread that sends. Set once, when it has been started.
    pub(crate) thread: OnceLock<Thread>,
    /// Set once, by whoever ends the exporter.
    pub(crate) is_ending: AtomicBool,
    /// Spans that were sent and taken. Counted by the thread.
    pub(crate) exported: AtomicU64,
    /// Spans that were sent in vain. Counted by the thread.
    pub(crate) failed: AtomicU64,
    /// Spans that found no room, or came too late. Counted by anybody.
    pub(crate) dropped: AtomicU64,
}

impl Tracer for Traces {
    fn wants(&self, traceparent: Option<&str>) -> bool {
        match traceparent.and_then(Context::parse) {
            Some(caller) => caller.is_sampled,
            None => self.ids.chance(self.settings.sample),
        }
    }

    fn own_traceparent(&self, traceparent: Option<&str>) -> Option<String> {
        let caller = traceparent.and_then(Context::parse);
        let trace = caller.map_or_else(|| self.ids.trace(), |caller| caller.trace);
        Some(Context { trace, span: self.ids.span(), is_sampled: true }.to_string())
    }

    fn ended(&self, task: &Arc<Task>) {
        let Some(record) = Record::of(task) else { return };
        if self.is_ending.load(Acquire) {
            return self.drop_record(&record);
        }
        if let Err(record) = self.waiting.push(record) {
            return self.drop_record(&record);
        }
        if self.waiting.len() >= self.settings.batch_max
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn stats(&self) -> TraceStats {
        TraceStats {
            queued: self.waiting.len(),
            queue_max: self.waiting.capacity(),
            exported: self.exported.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

impl Traces {
    /// A record that will not be sent.
    pub(crate) fn drop_record(&self, record: &Record) {
        self.dropped.fetch_add(record.span_count(), Relaxed);
    }
}
