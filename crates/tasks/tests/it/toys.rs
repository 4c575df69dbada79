//! A service to play with: handlers that do what a test says, readers that write down what they hear.
//!
//! The handler `hold` hands its calls to the test, so the test is the handler and chooses each moment itself.
//! The handler `plug` keeps a worker busy until the test lets go, so what is queued stays queued. Nothing
//! here depends on how fast the machine is.

use millpond::{BackPressure, PoolConfig};
use millpond_journal::{Disk, RealDisk};
use millpond_tasks::config::RetrySettings;
use millpond_tasks::{
    Accepted, Call, ErrorCode, Handler, Outcome, Reader, Refused, Registry, Said, Service, ServiceConfig,
    ServiceHandle, StreamEvent, Submit, Symbols, Task, TaskFailure, TaskId, Timer, Wants, Watch, Watching,
    function,
};
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing in these tests takes so long, unless it never happens.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Longer than any test: what waits for this is not awaited.
pub(crate) const NEVER: Duration = Duration::from_secs(10 * 3600);

/// Waits for a condition; a minute without it is a failure.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: did not happen within a minute");
        thread::sleep(Duration::from_micros(200));
    }
}

/// One worker, few places, no policy but refusal, quick retries.
pub(crate) fn small() -> ServiceConfig {
    ServiceConfig {
        pool: PoolConfig {
            workers: 1,
            queue_capacity: 64,
            spin: Duration::ZERO,
            back_pressure: BackPressure::Reject,
            ..PoolConfig::default()
        },
        retry: RetrySettings { backoff_min: Duration::from_millis(1), backoff_max: Duration::from_millis(2) },
        ..ServiceConfig::default()
    }
}

/// A text that is JSON.
pub(crate) fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("the test says JSON")
}

/// The failure that a handler reports.
pub(crate) fn failure(code: ErrorCode) -> TaskFailure {
    TaskFailure::new(code, "as asked")
}

/// Waits for the end of a task.
pub(crate) fn ended(task: &Task) -> &Outcome {
    task.wait(SOON).unwrap_or_else(|| panic!("{task:?} did not end within a minute"))
}

/// Waits for the end of a task, and says why it has no result.
pub(crate) fn failed(task: &Task) -> &TaskFailure {
    ended(task).result().expect_err("it was to fail")
}

/// Panics without a word on the terminal.
pub(crate) fn panic_quietly<T>(words: &'static str) -> T {
    resume_unwind(Box::new(words))
}

/// A door that can be shut and opened.
#[derive(Default)]
struct Sluice {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Sluice {
    fn pass(&self) {
        let shut = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(shut, |open| !*open).unwrap());
    }

    fn set(&self, open: bool) {
        *self.is_open.lock().unwrap() = open;
        self.opened.notify_all();
    }
}

struct Hold(Sender<Call>);

impl Handler for Hold {
    fn start(&self, call: Call) {
        // Without a test that takes it, the call is dropped, and its task crashes.
        let _ = self.0.send(call);
    }
}

/// A service with these handlers: `echo` answers with its arguments, `hold` gives its calls to the test,
/// `plug` keeps its worker until [`unplug`](Self::unplug), `fail` fails with the code that the argument
/// `code` names, `panic` panics. Opcode 7 is `echo`.
pub(crate) struct Mill {
    pub(crate) handle: ServiceHandle,
    calls: Mutex<Receiver<Call>>,
    sluice: Arc<Sluice>,
    workers: usize,
    pub(crate) service: Option<Service>,
}

impl Mill {
    pub(crate) fn start(config: ServiceConfig) -> Self {
        Self::start_with(config, |_| ())
    }

    /// With further handlers.
    pub(crate) fn start_with(config: ServiceConfig, add: impl FnOnce(&mut Registry)) -> Self {
        Self::start_on(config, Arc::new(RealDisk), add)
    }

    /// With the journal on another disk.
    pub(crate) fn start_on(
        config: ServiceConfig,
        disk: Arc<dyn Disk>,
        add: impl FnOnce(&mut Registry),
    ) -> Self {
        let (give, calls) = mpsc::channel();
        let sluice = Arc::new(Sluice::default());
        let workers = config.pool.workers;
        let mut registry = Registry::new();
        registry.add("echo", function(|call| Ok(call.args().to_owned()))).unwrap();
        registry.add("hold", Hold(give)).unwrap();
        let of_plug = Arc::clone(&sluice);
        let plug = move |_: &Call| {
            of_plug.pass();
            Ok(json("\"unplugged\""))
        };
        registry.add("plug", function(plug)).unwrap();
        let fail = |call: &Call| {
            let args: serde_json::Value = call.read_args()?;
            let code = args["code"].as_str().and_then(ErrorCode::from_name).expect("the test names a code");
            Err(failure(code))
        };
        registry.add("fail", function(fail)).unwrap();
        registry.add("panic", function(|_| panic_quietly("it was asked to"))).unwrap();
        registry.set_opcode(NonZeroU32::new(7).unwrap(), "echo").unwrap();
        add(&mut registry);
        let timer = Timer::start().unwrap();
        let service = Service::start_on_disk(config, registry, Symbols::new(), timer, disk).unwrap();
        Self { handle: service.handle(), calls: Mutex::new(calls), sluice, workers, service: Some(service) }
    }

    /// Hands in a request that is taken.
    pub(crate) fn submit(&self, text: &str) -> Arc<Task> {
        self.accept(text).task
    }

    pub(crate) fn accept(&self, text: &str) -> Accepted {
        self.handle.submit(text.as_bytes(), Submit::default()).unwrap_or_else(|no| panic!("{text}: {no}"))
    }

    /// Hands in a request that is refused.
    pub(crate) fn refuse(&self, text: &str) -> Refused {
        self.handle.submit(text.as_bytes(), Submit::default()).expect_err(text)
    }

    /// Hands in a request whose stream is read; the outcome is kept as well.
    pub(crate) fn submit_read(&self, text: &str, who: &Arc<Scribe>, tag: u64) -> (Arc<Task>, Watching) {
        let how = Submit {
            reader: Some(who.reader(tag, Wants::Stream { from: 0 })),
            keep: true,
            ..Submit::default()
        };
        let accepted = self.handle.submit(text.as_bytes(), how).unwrap();
        (accepted.task, accepted.watching.expect("a reader was named"))
    }

    /// The next call of `hold`.
    pub(crate) fn call(&self) -> Call {
        self.calls.lock().unwrap().recv_timeout(SOON).expect("no call came within a minute")
    }

    /// Whether a call of `hold` waits to be taken.
    pub(crate) fn has_call(&self) -> Option<Call> {
        self.calls.lock().unwrap().try_recv().ok()
    }

    /// Keeps every worker busy until [`unplug`](Self::unplug).
    pub(crate) fn plug(&self) -> Vec<Arc<Task>> {
        self.sluice.set(false);
        let plug = |_| {
            let plug = self.submit(r#"{"handler":"plug"}"#);
            until("a plug runs", || is_at(&plug, "running"));
            plug
        };
        (0..self.workers).map(plug).collect()
    }

    pub(crate) fn unplug(&self) {
        self.sluice.set(true);
    }

    /// Waits until nothing is under way and nothing moves, and checks that the figures add up.
    pub(crate) fn settle(&self) -> millpond_tasks::Stats {
        until("no task is under way", || self.handle.live() == 0);
        // A worker counts a task as done only after the outcome was told.
        until("the pool is idle", || {
            let metrics = self.handle.pool_metrics();
            metrics.workers.iter().all(|worker| worker.active == 0)
        });
        let stats = self.handle.stats();
        let failed: u64 = stats.failed.values().sum();
        assert_eq!(stats.accepted, stats.succeeded + failed, "accepted tasks and ends: {stats:?}");
        let by_handler =
            |count: fn(&millpond_tasks::HandlerStats) -> u64| stats.handlers.values().map(count).sum();
        let (accepted, succeeded, failed_there): (u64, u64, u64) =
            (by_handler(|of| of.accepted), by_handler(|of| of.succeeded), by_handler(|of| of.failed));
        assert_eq!((accepted, succeeded, failed_there), (stats.accepted, stats.succeeded, failed));
        let unended = stats.stages.iter().filter(|(stage, count)| **stage != "ended" && **count > 0).count();
        assert_eq!(unended, 0, "a task without an end is listed: {stats:?}");
        assert_eq!(stats.stages["ended"], stats.results.kept, "what is listed is what is kept");
        // The sweep over old outcomes is always planned. Whoever ended an earlier attempt may be about to
        // take its time limit out.
        until("no other timer is left", || self.handle.stats().timers <= 1);
        stats
    }
}

impl Drop for Mill {
    fn drop(&mut self) {
        self.unplug();
    }
}

/// Whether a task is at this stage now.
pub(crate) fn is_at(task: &Task, stage: &str) -> bool {
    task.status().stage.name() == stage
}

/// Writes down who was told, and how often.
#[derive(Default)]
pub(crate) struct Scribe {
    told: Mutex<Vec<(u64, TaskId, bool)>>,
}

impl Watch for Scribe {
    fn told(&self, tag: u64, task: &Arc<Task>) {
        self.told.lock().unwrap().push((tag, task.id().clone(), task.is_ended()));
    }
}

impl Scribe {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn reader(self: &Arc<Self>, tag: u64, wants: Wants) -> Reader {
        Reader { who: Arc::clone(self) as Arc<dyn Watch>, tag, wants }
    }

    /// How often this tag was told anything.
    pub(crate) fn count(&self, tag: u64) -> usize {
        self.told.lock().unwrap().iter().filter(|told| told.0 == tag).count()
    }

    /// How often this tag was told and found the task ended.
    pub(crate) fn ends(&self, tag: u64) -> usize {
        self.told.lock().unwrap().iter().filter(|told| told.0 == tag && told.2).count()
    }
}

/// Everything that can be read now.
pub(crate) fn read_all(watching: &mut Watching) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while watching.read(1 << 20, &mut events) {}
    events
}

/// Events as one line of JSON each.
pub(crate) fn lines(events: &[StreamEvent]) -> Vec<String> {
    let line = |event: &StreamEvent| {
        let mut out = Vec::new();
        event.write_json(&mut out);
        String::from_utf8(out).unwrap()
    };
    events.iter().map(line).collect()
}

/// The partial results among events, as text.
pub(crate) fn partials(events: &[StreamEvent]) -> Vec<String> {
    let partial = |event: &StreamEvent| match &event.what {
        Said::Partial(value) => Some(value.get().to_owned()),
        _ => None,
    };
    events.iter().filter_map(partial).collect()
}
