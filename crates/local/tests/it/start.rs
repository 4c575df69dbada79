//! What every test begins with: a directory of its own, a service, a door, and clients.
//!
//! Handlers are functions: `echo` answers with its arguments, the others do what a theme needs. `Gate` holds
//! tasks back until a test lets them go, so that no test has to sleep.

use millpond_local::{Client, ControlDoor, ControlSettings, Flags, Kind};
use millpond_tasks::{
    Call, ErrorCode, Log, Registry, Service, ServiceConfig, Symbols, TaskFailure, function,
};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Long enough for anything that comes at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory under the system's place for such, removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("millpond-local-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Holds tasks back until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Doorway>, Condvar)>);

#[derive(Default)]
struct Doorway {
    is_open: bool,
    arrived: usize,
}

impl Gate {
    /// A task has come to the gate; it stays until that opens.
    pub(crate) fn pass(&self) {
        let (doorway, changed) = &*self.0;
        let mut doorway = doorway.lock().unwrap();
        doorway.arrived += 1;
        changed.notify_all();
        let open = |doorway: &mut Doorway| !doorway.is_open;
        let waited = millpond::blocking(|| changed.wait_timeout_while(doorway, PATIENCE, open)).unwrap();
        assert!(!waited.1.timed_out(), "the gate was never opened");
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }

    pub(crate) fn arrived(&self) -> usize {
        self.0.0.lock().unwrap().arrived
    }

    /// Waits until so many tasks have come to the gate.
    pub(crate) fn wait_for(&self, arrived: usize) {
        let (doorway, changed) = &*self.0;
        let waited =
            changed.wait_timeout_while(doorway.lock().unwrap(), PATIENCE, |it| it.arrived < arrived).unwrap();
        assert!(!waited.1.timed_out(), "expected {arrived} tasks at the gate, got {}", waited.0.arrived);
    }
}

/// A service with a control door, and the gate of its handler `gated`.
pub(crate) struct Daemon {
    pub(crate) service: Service,
    pub(crate) door: Option<ControlDoor>,
    pub(crate) gate: Gate,
    /// Outlives both.
    _directory: Directory,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut ControlSettings)) -> Self {
        Self::with_config(change, |_| ())
    }

    pub(crate) fn with_config(
        change: impl FnOnce(&mut ControlSettings),
        change_service: impl FnOnce(&mut ServiceConfig),
    ) -> Self {
        let directory = Directory::new();
        let path = directory.path().join("run").join(millpond_local::SOCKET_NAME);
        let mut settings = ControlSettings { path, ..ControlSettings::default() };
        change(&mut settings);
        let mut config = ServiceConfig::default();
        config.pool.workers = 2;
        config.pool.queue_capacity = 1 << 14;
        change_service(&mut config);
        let gate = Gate::default();
        let service = Service::start(config, handlers(&gate), Symbols::new()).unwrap();
        let log = Log::new(|level, line| println!("{level}: {line}"));
        let door = ControlDoor::open(settings, service.handle(), log).unwrap();
        Self { service, door: Some(door), gate, _directory: directory }
    }

    /// A door in the place of one that was closed.
    pub(crate) fn open_again(&mut self, path: &Path) {
        let settings = ControlSettings { path: path.to_owned(), ..ControlSettings::default() };
        self.door = Some(ControlDoor::open(settings, self.service.handle(), Log::silent()).unwrap());
    }

    pub(crate) fn door(&self) -> &ControlDoor {
        self.door.as_ref().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.door().path()).unwrap()
    }
}

/// `echo`; `gated`, which passes the gate; `count`, which says the numbers below `n` as partial results;
/// `count_gated`, which does both; `large`, whose result has `n` bytes.
fn handlers(gate: &Gate) -> Registry {
    let mut registry = Registry::new();
    registry.add("echo", function(|call| Ok(call.args().to_owned()))).unwrap();
    registry.add("large", function(|call| Ok(raw(&"x".repeat(n(call)? as usize))))).unwrap();
    registry.add("count", function(count)).unwrap();
    let own = gate.clone();
    let gated = function(move |call| {
        own.pass();
        Ok(call.args().to_owned())
    });
    registry.add("gated", gated).unwrap();
    let own = gate.clone();
    let count_gated = function(move |call| {
        let counted = count(call);
        own.pass();
        counted
    });
    registry.add("count_gated", count_gated).unwrap();
    registry
}

fn count(call: &Call) -> Result<Box<RawValue>, TaskFailure> {
    let n = n(call)?;
    for number in 0..n {
        call.partial(raw(&number))?;
    }
    Ok(raw(&n))
}

fn n(call: &Call) -> Result<u64, TaskFailure> {
    let args: Value = call.read_args()?;
    let n = args["n"].as_u64().filter(|n| *n <= 10_000_000);
    n.ok_or_else(|| TaskFailure::new(ErrorCode::BadArguments, "args.n: expected a number up to 10000000"))
}

pub(crate) fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// An answer that outlives the client's buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    pub(crate) tag: u64,
    pub(crate) value: Value,
}

/// Receives one answer.
pub(crate) fn receive(client: &mut Client) -> Answer {
    let frame = client.receive_timeout(PATIENCE).unwrap().expect("an answer comes");
    Answer {
        kind: frame.kind,
        tag: frame.tag,
        value: serde_json::from_slice(frame.payload).expect("payloads are JSON"),
    }
}

/// Sends one frame and receives one answer.
pub(crate) fn ask(client: &mut Client, kind: Kind, flags: Flags, tag: u64, payload: &str) -> Answer {
    client.send(kind, flags, tag, payload.as_bytes()).unwrap();
    receive(client)
}

/// Looks again and again until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not so after {PATIENCE:?}");
        std::thread::yield_now();
    }
}
