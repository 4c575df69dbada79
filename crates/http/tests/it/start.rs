//! A daemon to play with: a service whose handlers do what a test says, behind a door of its own.
//!
//! The handler `hold` hands its calls to the test, so the test chooses when each one ends and what it says
//! before. Nothing here depends on how fast the machine is.

use crate::http::{Answer, Connection, Event, Events, SOON};
use millpond_http::{HttpDoor, OpenError};
use millpond_tasks::config::{ConfigSources, WebSettings, load};
use millpond_tasks::{
    Call, ErrorCode, Handler, Log, Registry, Service, ServiceConfig, Symbols, TaskFailure, function,
};
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// The media type of requests.
pub(crate) const JSON: &str = "Content-Type: application/json";
/// A request that is answered at once.
pub(crate) const ECHO: &str = r#"{"handler":"echo","args":{"x":[1]}}"#;
/// A request that the test answers.
pub(crate) const HOLD: &str = r#"{"handler":"hold"}"#;

/// A service and its door.
pub(crate) struct Daemon {
    /// Before the service: whoever waits for a task is let go first.
    pub(crate) door: HttpDoor,
    pub(crate) service: Service,
    calls: Receiver<Call>,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::with(|_, _| {})
    }

    /// With other settings.
    pub(crate) fn with(change: impl FnOnce(&mut WebSettings, &mut ServiceConfig)) -> Self {
        Self::open(change).expect("the door opens")
    }

    /// Why it does not start with these settings.
    pub(crate) fn refused(change: impl FnOnce(&mut WebSettings, &mut ServiceConfig)) -> String {
        Self::open(change).err().expect("the door does not open").to_string()
    }

    fn open(change: impl FnOnce(&mut WebSettings, &mut ServiceConfig)) -> Result<Self, OpenError> {
        let settings = load(&ConfigSources::default()).settings().expect("the defaults are right");
        let mut config = ServiceConfig::from(&settings);
        config.pool.workers = 1;
        let mut web = settings.web;
        web.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut web, &mut config);
        let (give, calls) = mpsc::channel();
        let mut registry = Registry::new();
        registry.add("echo", function(|call| Ok(call.args().to_owned()))).unwrap();
        registry.add("fail", function(|call| Err(failure(call)))).unwrap();
        registry.add("hold", Hold(Mutex::new(give))).unwrap();
        let service = Service::start(config, registry, Symbols::new()).unwrap();
        let door = HttpDoor::open(web, service.handle(), Log::new(|_, _| {}))?;
        Ok(Self { door, service, calls })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door.address().expect("it listens")
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, line: &str, headers: &[&str], body: Option<&str>) -> Answer {
        let mut connection = self.connect();
        connection.ask(line, headers, body);
        connection.answer()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(&format!("POST {path}"), &[JSON], Some(body))
    }

    /// Hands in a task and says where it is.
    pub(crate) fn submit(&self, body: &str) -> String {
        let answer = self.post("/v1/tasks", body);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.header("location").expect("it is somewhere").to_owned()
    }

    /// The next call of the handler `hold`.
    pub(crate) fn call(&self) -> Call {
        self.calls.recv_timeout(SOON).expect("the handler is called")
    }

    /// The next call of the handler `hold`, if there is one already.
    pub(crate) fn try_call(&self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Follows a stream whose head says that there is one.
    pub(crate) fn follow(&self, path: &str, headers: &[&str]) -> Events {
        let mut connection = self.connect();
        connection.ask(&format!("GET {path}"), headers, None);
        let head = connection.head();
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Events::of(connection)
    }

    /// Ends the door, and then the service.
    pub(crate) fn end(self) {
        self.door.close(SOON);
        self.service.stop(SOON);
    }
}

/// Fails with the error and the message that its arguments name.
fn failure(call: &Call) -> TaskFailure {
    let args: Value = serde_json::from_str(call.args().get()).unwrap();
    let code = args["error"].as_str().and_then(ErrorCode::from_name).unwrap_or(ErrorCode::HandlerError);
    TaskFailure::new(code, args["message"].as_str().unwrap_or("it failed"))
}

/// Hands its calls to the test.
struct Hold(Mutex<Sender<Call>>);

impl Handler for Hold {
    fn start(&self, call: Call) {
        // A test that ended wants no more calls; the call then ends as one whose handler left.
        let _ = self.0.lock().unwrap().send(call);
    }
}

/// A value as a handler answers it.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// The names of events.
pub(crate) fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Waits for a condition; a minute without it is a failure.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + SOON;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}: did not happen within a minute");
        std::thread::sleep(Duration::from_micros(500));
    }
}
