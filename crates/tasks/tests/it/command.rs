//! Command handlers keep their promises with real programs: what one does wrong costs the task it had.
//!
//! The programs are Python scripts in `tests/programs`; `moody.py` does whatever its task tells it to. A test
//! waits for what it wants to see, with a deadline; nothing here depends on how long something took.

mod closing;
mod crashes;
mod crowd;
mod limits;
mod stopping;
mod tasks;

use millpond_tasks::config::HandlerSettings;
use millpond_tasks::handler::command::command;
use millpond_tasks::{Level, Log, Outcome, Reader, Registry, Service, ServiceConfig, ServiceHandle};
use millpond_tasks::{Submit, Symbols, Task, TaskFailure, Wants, Watch, function};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// Longer than anything takes on a machine that is not broken.
const SOON: Duration = Duration::from_secs(120);

/// A line that the log of these tests cannot bear.
const PANIC_OF_THE_LOG: &str = "panic, please";

/// Waits for a condition.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen within {SOON:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The interpreter itself, and not a script that looks for it.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let asked = asked.expect("these tests need python3");
        let path = String::from_utf8(asked.stdout).unwrap().trim().to_owned();
        assert!(Path::new(&path).is_absolute(), "python3 must know where it is, said {path:?}");
        path
    })
}

fn program(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A script of `tests/programs` with its arguments, and everything else as quick as a test wants it.
fn script(words: &[&str]) -> HandlerSettings {
    let (name, arguments) = words.split_first().unwrap();
    let mut command = vec![python().to_owned(), "-S".to_owned(), program(name)];
    command.extend(arguments.iter().map(|word| (*word).to_owned()));
    HandlerSettings {
        command,
        concurrency: 1,
        timeout: None,
        memory_bytes_max: None,
        cpu_seconds_max: None,
        restart_backoff_min: Duration::from_millis(1),
        restart_backoff_max: Duration::from_millis(10),
        stop_grace: Duration::from_secs(30),
        line_bytes_max: 8 << 20,
        tasks_per_process_max: None,
        env: Vec::new(),
        directory: None,
        summary: None,
        example: None,
    }
}

fn moody() -> HandlerSettings {
    script(&["moody.py"])
}

/// A service with one command handler, and what is said about it.
struct Rig {
    service: Option<Service>,
    handle: ServiceHandle,
    log: Arc<Mutex<Vec<(Level, String)>>>,
}

/// The handler is called `moody` and `echo` is a function.
fn rig(settings: HandlerSettings) -> Rig {
    rig_with(settings, ServiceConfig::default())
}

fn rig_with(settings: HandlerSettings, config: ServiceConfig) -> Rig {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&log);
    let keep = Log::new(move |level, line| {
        kept.lock().unwrap().push((level, line.to_owned()));
        assert!(!line.ends_with(PANIC_OF_THE_LOG));
    });
    let mut registry = Registry::new();
    registry.add("moody", command("moody", settings, keep)).unwrap();
    registry.add("echo", function(|call| Ok(call.args().to_owned()))).unwrap();
    let service = Service::start(config, registry, Symbols::new()).unwrap();
    Rig { handle: service.handle(), service: Some(service), log }
}

impl Rig {
    fn submit(&self, args: &Value) -> Arc<Task> {
        self.request(&json!({"handler": "moody", "args": args}))
    }

    fn request(&self, request: &Value) -> Arc<Task> {
        let accepted = self.handle.submit(request.to_string().as_bytes(), Submit::default());
        accepted.unwrap_or_else(|refused| panic!("{request}: {refused}")).task
    }

    /// With a reader of everything it says.
    fn stream(&self, args: &Value) -> Listener {
        let (told, heard) = mpsc::channel();
        let reader = Reader { who: Arc::new(Bell(told)), tag: 0, wants: Wants::Stream { from: 0 } };
        let how = Submit { reader: Some(reader), ..Submit::default() };
        let request = json!({"handler": "moody", "args": args}).to_string();
        let accepted = self.handle.submit(request.as_bytes(), how).unwrap();
        Listener { task: accepted.task, watching: accepted.watching.unwrap(), heard, said: Vec::new() }
    }

    fn stats(&self) -> Value {
        let stats = serde_json::to_value(self.handle.stats()).unwrap();
        let found = find(&stats["handlers"]["moody"], "processes");
        found.unwrap_or_else(|| panic!("no figures of the processes in {stats}")).clone()
    }

    fn count(&self, name: &str) -> u64 {
        self.stats()[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.stats()))
    }

    fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    /// Every process that was ever started.
    fn pids(&self) -> BTreeSet<u32> {
        let pid = |line: &String| {
            let rest = line.strip_prefix("handler moody: started ")?;
            rest.rsplit_once("(pid ")?.1.strip_suffix(')')?.parse().ok()
        };
        self.lines().iter().filter_map(pid).collect()
    }

    /// Ends everything, and sees that nothing is left.
    fn stop(mut self) {
        let service = self.service.take().unwrap();
        service.stop(Duration::from_secs(20));
        let left: Vec<_> = self.pids().into_iter().filter(|pid| is_ours(*pid)).collect();
        assert!(left.is_empty(), "processes {left:?} are left; {:#?}", self.lines());
    }
}

/// The innermost object that has this key.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    if object.contains_key(key) { Some(value) } else { object.values().find_map(|inner| find(inner, key)) }
}

/// Whether a process of this number is a child of this one, alive or not yet waited for.
fn is_ours(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(1) == Some(&process::id().to_string())
}

/// Whether a process of this number runs. One that ended and was left by its parent does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The outcome of a task that must end.
fn outcome(task: &Task) -> &Outcome {
    task.wait(SOON).unwrap_or_else(|| panic!("task {} did not end within {SOON:?}", task.id()))
}

fn result(task: &Task) -> Value {
    let result = outcome(task).result().unwrap_or_else(|failure| panic!("task {}: {failure}", task.id()));
    serde_json::from_str(result.get()).unwrap()
}

fn failure(task: &Task) -> TaskFailure {
    match outcome(task).result() {
        Ok(result) => panic!("task {} must fail, and answered {result}", task.id()),
        Err(failure) => failure.clone(),
    }
}

fn pid_in(result: &Value) -> u32 {
    result["pid"].as_u64().unwrap_or_else(|| panic!("no pid in {result}")) as u32
}

struct Bell(mpsc::Sender<()>);

impl Watch for Bell {
    fn told(&self, _tag: u64, _task: &Arc<Task>) {
        // The test may have heard enough.
        let _ = self.0.send(());
    }
}

/// Reads what a task says.
struct Listener {
    task: Arc<Task>,
    watching: millpond_tasks::Watching,
    heard: mpsc::Receiver<()>,
    said: Vec<Value>,
}

impl Listener {
    fn read(&mut self) {
        let mut events = Vec::new();
        while self.watching.read(usize::MAX, &mut events) {}
        for event in events {
            let mut json = Vec::new();
            event.write_json(&mut json);
            self.said.push(serde_json::from_slice(&json).unwrap());
        }
    }

    /// The first partial result.
    fn first_partial(&mut self) -> Value {
        loop {
            self.read();
            if let Some(event) = self.said.iter().find(|event| event.get("partial").is_some()) {
                return event["partial"].clone();
            }
            assert!(!self.task.is_ended(), "it ended: {:?}", self.task.outcome());
            self.heard.recv_timeout(SOON).expect("it says something");
        }
    }

    /// Everything until the end.
    fn all(mut self) -> (Arc<Task>, Vec<Value>) {
        loop {
            let is_ended = self.task.is_ended();
            self.read();
            if is_ended {
                return (self.task, self.said);
            }
            self.heard.recv_timeout(SOON).expect("it ends");
        }
    }
}

/// A folder of this test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("millpond-command-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    fn make(&self, name: &str) {
        fs::write(self.file(name), "").unwrap();
    }

    fn names(&self) -> BTreeSet<String> {
        fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
