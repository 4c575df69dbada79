//! The thread that sends spans: gathers what waits, sends it in batches, and tries again when the collector
//! says "not now".
//!
//! ```text
//!  workers ──► Ring<Record> ──► thread: a batch is full, or `interval` is over ──► post ──► taken
//!     │ full                                                        ▲ not now │
//!     ▼                                                             └─ pause ─┤ too often, or refused
//!  dropped                                                                    ▼ failed
//! ```
//!
//! Everything that is lost is counted, and the log is told when losing begins and when it ends.

use crate::ids::Ids;
use crate::post::{Post, Posted};
use crate::record::Record;
use crate::spans;
use crate::tracer::Traces;
use millpond_queue::Ring;
use millpond_tasks::config::TraceSettings;
use millpond_tasks::{Log, TraceStats, Tracer};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How often a batch is sent before it is given up.
const TRIES_MAX: u32 = 5;
/// The pause after the first try; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// Sends spans until it is stopped or dropped.
#[derive(Debug)]
pub struct Exporter {
    traces: Arc<Traces>,
    /// Says nothing; its other end goes when the thread does.
    ended: Receiver<()>,
    log: Log,
}

impl Exporter {
    /// Starts the thread that sends; none if the settings do not say where to.
    pub fn start(settings: &TraceSettings, log: Log) -> io::Result<Option<Self>> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        let waiting = Ring::with_capacity(settings.queue_max).map_err(io::Error::other)?;
        let traces = Arc::new(Traces {
            // A batch that the queue cannot hold would never be full.
            settings: TraceSettings {
                batch_max: settings.batch_max.min(settings.queue_max.div_ceil(2)),
                ..settings.clone()
            },
            ids: Ids::default(),
            waiting,
            thread: OnceLock::new(),
            is_ending: AtomicBool::new(false),
            exported: 0.into(),
            failed: 0.into(),
            dropped: 0.into(),
        });
        let (alive, ended) = mpsc::channel();
        let sender = Courier {
            post: Post::new(endpoint, settings.timeout),
            resource: spans::resource(&traces.ids),
            traces: Arc::clone(&traces),
            log: log.clone(),
            is_failing: false,
            _alive: alive,
        };
        let thread = thread::Builder::new().name("millpond-traces".to_owned()).spawn(move || sender.run())?;
        traces.thread.get_or_init(|| thread.thread().clone());
        Ok(Some(Self { traces, ended, log }))
    }

    /// Who is to be told of tasks: for [`set_tracer`](millpond_tasks::Service::set_tracer).
    pub fn tracer(&self) -> Arc<dyn Tracer> {
        Arc::clone(&self.traces) as Arc<dyn Tracer>
    }

    /// Sends what waits, for so long at most, and says what became of all spans.
    pub fn stop(self, patience: Duration) -> TraceStats {
        self.traces.end();
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let waiting = self.traces.stats().queued;
            self.log.warn(&format!("traces: not all was sent within {patience:?}; {waiting} tasks wait"));
        } else {
            // Whoever ended a task at that very moment may have put it in after the thread's last look.
            while let Some(record) = self.traces.waiting.pop() {
                self.traces.drop_record(&record);
            }
        }
        self.traces.stats()
    }
}

/// The thread ends by itself once it has sent what waits.
impl Drop for Exporter {
    fn drop(&mut self) {
        self.traces.end();
    }
}

impl Traces {
    fn end(&self) {
        self.is_ending.store(true, Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The thread's own things.
struct Courier {
    traces: Arc<Traces>,
    post: Post,
    resource: Resource,
    log: Log,
    /// Whether the last batch was lost.
    is_failing: bool,
    _alive: Sender<()>,
}

impl Courier {
    fn run(mut self) {
        let traces = Arc::clone(&self.traces);
        let mut batch = Vec::with_capacity(traces.settings.batch_max.min(traces.waiting.capacity()));
        loop {
            // Looked at first: what was put in before the end was asked for is then seen below.
            let is_ending = traces.is_ending.load(Acquire);
            if !is_ending && traces.waiting.len() < traces.settings.batch_max {
                self.pause(traces.settings.interval);
            }
            traces.waiting.pop_batch(&mut batch, traces.settings.batch_max);
            if batch.is_empty() && is_ending {
                return;
            }
            if !batch.is_empty() {
                self.deliver(&batch);
                batch.clear();
            }
        }
    }

    /// Waits until a batch is full, the time is over, or the end is asked for.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let is_awaited = || {
            self.traces.waiting.len() < self.traces.settings.batch_max && !self.traces.is_ending.load(Acquire)
        };
        while is_awaited() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Waits for so long, unless the end is asked for.
    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.traces.is_ending.load(Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Sends the spans of these tasks, more than once if need be.
    fn deliver(&mut self, batch: &[Record]) {
        let count: u64 = batch.iter().map(Record::span_count).sum();
        let resource_spans = vec![spans::of_all(batch, &self.resource, &self.traces.ids)];
        let request = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        for attempt in 0..TRIES_MAX {
            let is_last = attempt + 1 == TRIES_MAX;
            match self.post.send(&request) {
                Posted::Taken { rejected, words } => {
                    return self.count(count.saturating_sub(rejected), rejected.min(count), &words);
                }
                Posted::Refused { words } => return self.count(0, count, &words),
                Posted::NotNow { words, .. } if is_last || self.traces.is_ending.load(Acquire) => {
                    return self.count(0, count, &words);
                }
                Posted::NotNow { pause, .. } => self.rest(pause.unwrap_or(PAUSE_MIN * 2_u32.pow(attempt))),
            }
        }
    }

    /// Counts spans, and tells the log when losing begins and ends.
    fn count(&mut self, exported: u64, failed: u64, words: &str) {
        self.traces.exported.fetch_add(exported, Relaxed);
        let lost = self.traces.failed.fetch_add(failed, Relaxed) + failed;
        match (self.is_failing, failed > 0) {
            (false, true) => self.log.warn(&format!("traces: {failed} spans were not delivered: {words}")),
            (true, false) => self.log.info(&format!("traces: spans are delivered again; {lost} were lost")),
            _ => {}
        }
        self.is_failing = failed > 0;
    }
}
