//! What every scenario stands on: a service with worker processes, and handlers that misbehave when asked to.
//!
//! What goes on is seen from outside, as an operator would see it: in `/proc`, in the log, and by outcomes.

use millpond_shm::isolate::{Handlers, Zygote, service};
use millpond_tasks::config::{ConfigSources, Isolation, Settings, load};
use millpond_tasks::{Call, ErrorCode, Log, Service, ServiceHandle, Submit, Task, TaskFailure, function};
use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes here, even on a machine with much else to do.
pub(crate) const LONG: Duration = Duration::from_secs(100);

/// A service with worker processes.
pub(crate) struct Bed {
    pub(crate) service: Service,
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
}

/// Settings with so many processes.
pub(crate) fn settings(processes: usize) -> Settings {
    let mut settings = load(&ConfigSources::default()).settings().unwrap();
    settings.isolation.mode = Isolation::Process;
    settings.isolation.processes = processes;
    settings
}

impl Bed {
    pub(crate) fn new(processes: usize) -> Self {
        Self::with(&settings(processes))
    }

    pub(crate) fn with(settings: &Settings) -> Self {
        let zygote = Zygote::start(settings, || Ok(handlers())).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |level, line| kept.lock().unwrap().push(format!("{level} {line}")));
        let service = service(settings, handlers(), &log, Some(zygote)).unwrap();
        Self { service, lines }
    }

    pub(crate) fn handle(&self) -> ServiceHandle {
        self.service.handle()
    }

    /// Has `misbehave` do something.
    pub(crate) fn ask(&self, what: &str) -> Arc<Task> {
        self.submit(&json!({"handler": "misbehave", "args": {"do": what}}))
    }

    pub(crate) fn submit(&self, request: &Value) -> Arc<Task> {
        self.handle().submit(request.to_string().as_bytes(), Submit::default()).unwrap().task
    }

    /// The pid of the process that serves now.
    pub(crate) fn pid(&self) -> u64 {
        result(&self.ask("tell your pid"))["pid"].as_u64().unwrap()
    }

    pub(crate) fn has_line(&self, words: &[&str]) -> bool {
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// One of the figures that the crew shows.
    pub(crate) fn stats(&self, name: &str) -> u64 {
        let stats = self.handle().stats();
        let own = stats.handlers["misbehave"].own.as_ref().expect("it runs in processes");
        own[name].as_u64().unwrap_or_else(|| panic!("no {name} in {own}"))
    }
}

/// What a task ended with.
pub(crate) fn result(task: &Task) -> Value {
    let outcome = task.wait(LONG).expect("it ends");
    let value = outcome.result().unwrap_or_else(|failure| panic!("{} failed: {failure}", task.id()));
    serde_json::from_str(value.get()).unwrap()
}

/// What a task failed with.
pub(crate) fn failure(task: &Task) -> TaskFailure {
    task.wait(LONG).expect("it ends").result().expect_err("it fails").clone()
}

/// Waits for something that has to happen.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Processes below this one, all generations, that are not zombies.
pub(crate) fn descendants() -> BTreeSet<i32> {
    let parents = parents();
    let mut known = BTreeSet::from([getpid().as_raw_nonzero().get()]);
    while parents.iter().any(|(pid, parent)| known.contains(parent) && known.insert(*pid)) {}
    known.remove(&getpid().as_raw_nonzero().get());
    known
}

/// The worker processes of this one.
pub(crate) fn workers() -> Vec<i32> {
    let is_worker = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "millpond-worker")
    };
    descendants().into_iter().filter(is_worker).collect()
}

/// Its zygote.
pub(crate) fn zygote() -> i32 {
    let is_zygote = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "millpond-zygote")
    };
    descendants().into_iter().find(is_zygote).expect("there is a zygote")
}

/// Every process that lives, with its parent.
fn parents() -> Vec<(i32, i32)> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let alive = pids.filter(|pid| lives(*pid));
    alive.filter_map(|pid| Some((pid, stat(pid)?.1))).collect()
}

/// The letter by which the kernel says what a process does, and its parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

pub(crate) fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// Whether there is such a process, and it is no zombie.
pub(crate) fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// How many descriptors this process has.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory that is mapped and not used, as allocators have it.
static RESERVE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
const RESERVE_BYTES: usize = 400 << 20;

/// The handlers of the scenarios.
pub(crate) fn handlers() -> Handlers {
    RESERVE.lock().unwrap().reserve_exact(RESERVE_BYTES);
    vec![("misbehave".to_owned(), Box::new(function(misbehave)))]
}

fn misbehave(call: &Call) -> Result<Box<RawValue>, TaskFailure> {
    let args: Value = call.read_args()?;
    let number = || args["n"].as_u64().unwrap();
    let answer = |value: Value| Ok(to_raw_value(&value).unwrap());
    let myself = getpid();
    match args["do"].as_str().unwrap() {
        "work" => {
            let until = Instant::now() + Duration::from_micros(args["us"].as_u64().unwrap());
            while Instant::now() < until {}
            answer(json!({"n": args["n"]}))
        }
        "tell your pid" => answer(json!({"pid": std::process::id(), "attempt": call.attempt()})),
        "touch bad memory" => die(Signal::SEGV),
        "abort" => std::process::abort(),
        "be killed" => die(Signal::KILL),
        "exit" => std::process::exit(3),
        "panic" => panic!("as asked"),
        "leak" => leak(),
        "use what you have" => {
            // It was mapped at the start, so no limit of the kernel stands in the way.
            let mut reserve = RESERVE.lock().unwrap();
            let full = reserve.capacity();
            reserve.resize(full, 1);
            drop(reserve);
            thread::sleep(LONG);
            answer(json!(null))
        }
        "run for ever" => loop {
            call.progress(0.5);
            thread::sleep(Duration::from_millis(1));
        },
        "run until cancelled" => {
            call.progress(0.5);
            while !call.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            answer(json!(null))
        }
        "crash once" if call.attempt() == 1 => die(Signal::SEGV),
        "crash once" => answer(json!({"attempt": call.attempt()})),
        "leave a child behind" => {
            let mut nap = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
            call.partial(to_raw_value(&nap.id()).unwrap()).unwrap();
            // It is seen from outside before this one dies.
            while !call.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            kill_process(myself, Signal::SEGV).unwrap();
            nap.wait().unwrap();
            answer(json!(null))
        }
        "speak" => {
            for at in 0..number() {
                call.partial(
                    to_raw_value(&json!({"at": at, "text": "x".repeat((at % 900) as usize)})).unwrap(),
                )?;
                if at % 100 == 50 {
                    call.log(&format!("{at} are said"));
                }
            }
            answer(json!({"said": number()}))
        }
        "answer at length" => answer(json!("y".repeat(number() as usize))),
        other => Err(TaskFailure::new(ErrorCode::BadArguments, format!("what is {other:?}?"))),
    }
}

fn die(signal: Signal) -> ! {
    kill_process(getpid(), signal).unwrap();
    loop {
        thread::sleep(LONG);
    }
}

fn leak() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(vec![1; 1 << 20]);
        std::hint::black_box(&kept);
    }
}
