//! The built-in handlers as a task meets them: through a running service, with real files and real sockets.
//!
//! What they refuse matters as much as what they do: anybody who can hand in a task chooses the arguments.

mod files;
mod files_swapped;
mod http;
mod http_cancelled;
mod http_redirects;
mod memory;
mod server;
mod sleep;

use millpond::PoolConfig;
use millpond_tasks::config::{AllowSettings, BuiltinSettings, StreamSettings};
use millpond_tasks::handler::builtin::{BUILTIN_NAMES, builtins};
use millpond_tasks::{
    Reader, Registry, Said, Service, ServiceConfig, Submit, Symbols, Task, Timer, Wants, Watch, function,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any of these takes. Whoever waits so long has found a mistake.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service with the built-in handlers, and one more: `hold` keeps a worker until it is let go.
struct Daemon {
    service: Service,
    timer: Timer,
    /// Each message lets one `hold` go.
    let_go: mpsc::Sender<()>,
    /// Each message is a `hold` that has begun.
    held: mpsc::Receiver<()>,
}

impl Daemon {
    fn new(settings: &BuiltinSettings) -> Self {
        Self::with(settings, Symbols::new(), StreamSettings::default())
    }

    /// Files below these directories are allowed.
    fn with_files(files: &[PathBuf]) -> Self {
        let allow = AllowSettings { files: files.to_vec(), ..AllowSettings::default() };
        Self::new(&BuiltinSettings { allow, ..BuiltinSettings::default() })
    }

    fn with(settings: &BuiltinSettings, symbols: Symbols, stream: StreamSettings) -> Self {
        let timer = Timer::start().unwrap();
        let mut registry = Registry::new();
        for (name, handler) in builtins(settings, &timer) {
            registry.add_boxed(name, handler).unwrap();
        }
        let (let_go, waits) = mpsc::channel::<()>();
        let (begins, held) = mpsc::channel();
        let (waits, begins) = (Mutex::new(waits), Mutex::new(begins));
        let hold = function(move |call| {
            begins.lock().unwrap().send(()).unwrap();
            waits.lock().unwrap().recv().unwrap();
            Ok(call.args().to_owned())
        });
        registry.add("hold", hold).unwrap();
        // One worker: whatever keeps it shows.
        let pool = PoolConfig { workers: 1, ..PoolConfig::default() };
        let config = ServiceConfig { pool, stream, ..ServiceConfig::default() };
        let service = Service::start_with_timer(config, registry, symbols, timer.clone()).unwrap();
        Self { service, timer, let_go, held }
    }

    fn submit(&self, request: &Value) -> Arc<Task> {
        self.service.handle().submit(request.to_string().as_bytes(), Submit::default()).unwrap().task
    }

    /// The whole outcome of one task.
    fn outcome(&self, handler: &str, args: Value) -> Value {
        outcome(&self.submit(&json!({ "handler": handler, "args": args })))
    }

    /// The result of a task that must succeed.
    fn run(&self, handler: &str, args: Value) -> Value {
        let mut outcome = self.outcome(handler, args);
        assert_eq!(outcome["status"], 0, "{outcome}");
        outcome["result"].take()
    }

    /// Name and message of the error with which a task must fail.
    fn fail(&self, handler: &str, args: Value) -> (String, String) {
        let outcome = self.outcome(handler, args);
        assert_ne!(outcome["status"], 0, "{outcome}");
        let text = |name: &str| outcome[name].as_str().unwrap().to_owned();
        (text("error"), text("message"))
    }

    /// Partial results and result of a task that must succeed, read as they come.
    fn stream(&self, handler: &str, args: Value) -> (Vec<Value>, Value) {
        let (bell, rings) = mpsc::channel();
        let reader =
            Reader { who: Arc::new(Bell(Mutex::new(bell))), tag: 0, wants: Wants::Stream { from: 0 } };
        let request = json!({ "handler": handler, "args": args }).to_string();
        let how = Submit { reader: Some(reader), ..Submit::default() };
        let accepted = self.service.handle().submit(request.as_bytes(), how).unwrap();
        let mut watching = accepted.watching.unwrap();
        let mut events = Vec::new();
        while !accepted.task.is_ended() {
            rings.recv_timeout(PATIENCE).unwrap();
            while watching.read(64 << 10, &mut events) {}
        }
        while watching.read(64 << 10, &mut events) {}
        let partials = events.iter().map(|event| match &event.what {
            Said::Partial(value) => serde_json::from_str(value.get()).unwrap(),
            other => panic!("{other:?}"),
        });
        let mut outcome = outcome(&accepted.task);
        assert_eq!(outcome["status"], 0, "{outcome}");
        (partials.collect(), outcome["result"].take())
    }
}

struct Bell(Mutex<mpsc::Sender<()>>);

impl Watch for Bell {
    fn told(&self, _: u64, _: &Arc<Task>) {
        // The test may have read everything and gone.
        let _ = self.0.lock().unwrap().send(());
    }
}

fn outcome(task: &Task) -> Value {
    task.wait(PATIENCE).expect("the task ends");
    let mut json = Vec::new();
    task.write_outcome(&mut json);
    serde_json::from_slice(&json).unwrap()
}

fn error(name: &str, message: impl Into<String>) -> (String, String) {
    (name.to_owned(), message.into())
}

#[test]
fn every_name_has_its_handler() {
    let timer = Timer::start().unwrap();
    let names: Vec<_> =
        builtins(&BuiltinSettings::default(), &timer).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, BUILTIN_NAMES);
}

#[test]
fn echo_answers_with_its_arguments_to_the_letter() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    let args = r#"{ "b": 1.50,"a":[null, "ü\u00fc"],  "big":123456789012345678901234567890 }"#;
    let request = format!(r#"{{"handler":"echo","args":{args}}}"#);
    let task = daemon.service.handle().submit(request.as_bytes(), Submit::default()).unwrap().task;
    assert_eq!(task.wait(PATIENCE).unwrap().result().unwrap().get(), args);
}

#[test]
fn without_configuration_neither_files_nor_network_can_be_reached() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    assert_eq!(
        daemon.fail("file_read", json!({ "path": "/etc/passwd" })),
        error(
            "not-allowed",
            r#"args.path: "/etc/passwd" is not allowed: no directory is allowed; add one to allow.files"#
        )
    );
    let (code, _) = daemon.fail("file_write", json!({ "path": "/tmp/x", "data": "" }));
    assert_eq!(code, "not-allowed");
    assert_eq!(
        daemon.fail("http_get", json!({ "url": "http://127.0.0.1:1/" })),
        error(
            "not-allowed",
            "args.url: \"http://127.0.0.1:1/\": not allowed: the host 127.0.0.1 is not in allow.hosts; add \
             \"127.0.0.1\""
        )
    );
    let (code, _) = daemon.fail("http_post", json!({ "url": "https://example.org", "body": "" }));
    assert_eq!(code, "not-allowed");
}

#[test]
fn arguments_are_read_strictly_by_every_handler() {
    let daemon = Daemon::with_files(&[PathBuf::from("/nowhere")]);
    for (handler, args, message) in [
        ("sleep", json!({}), "args.ms: expected a whole number from 0 to 86400000, got nothing"),
        (
            "sleep",
            json!({ "ms": -1 }),
            "args.ms: expected a whole number from 0 to 86400000, got the number -1",
        ),
        ("sleep", json!({ "ns": 1 }), "args: sleep has no argument \"ns\"; expected are ms"),
        ("file_read", json!({ "path": 3 }), "args.path: expected a string, got the number 3"),
        (
            "file_read",
            json!({ "file": "x" }),
            "args: file_read has no argument \"file\"; expected are path, offset, length, encoding, stream",
        ),
        (
            "file_read",
            json!({ "path": "a", "encoding": "utf16" }),
            "args.encoding: expected \"utf8\" or \"base64\", got the string \"utf16\"",
        ),
        ("file_write", json!({ "path": "a" }), "args.data: expected a string, got nothing"),
        (
            "file_write",
            json!({ "path": "a", "data": "*", "encoding": "base64" }),
            "args.data: expected base64 with padding, got the string \"*\", wrong at offset 0",
        ),
        (
            "file_write",
            json!({ "path": "a", "data": "", "mode": "overwrite" }),
            "args.mode: expected \"create\", \"append\" or \"replace\", got the string \"overwrite\"",
        ),
        ("http_get", json!({ "url": 3 }), "args.url: expected a string, got the number 3"),
        (
            "http_get",
            json!({ "url": "a", "body": "" }),
            "args: http_get has no argument \"body\"; expected are url, headers, timeout_ms, stream",
        ),
        (
            "http_get",
            json!({ "url": "/a" }),
            "args.url: expected a URL that begins with http:// or https://, got \"/a\"",
        ),
        ("http_post", json!({ "url": "http://a/" }), "args: expected either body or json, got neither"),
    ] {
        assert_eq!(daemon.fail(handler, args.clone()), error("bad-arguments", message), "{handler} {args}");
    }
}
