//! A worker process: takes one task at a time from its channel, runs the handler, sends back what it says.
//!
//! It has a small service of its own, so that a handler is given the same kind of call here as in the daemon. The
//! handler runs on the thread that took the task: no thread has to be woken. A second thread listens to the socket,
//! by which the daemon says that a task is no longer wanted, and which is closed when the daemon is done with this
//! process or is no more.
//!
//! Not here: how words get out (`outlet.rs`), who starts this process (`zygote.rs`).

use super::fork;
use super::outlet::{Outlet, Spoken};
use super::parcel;
use super::wire::{Errand, kind, read_errand, read_order};
use super::zygote::{Spec, set_name};
use super::{NAP, linger};
use crate::channel::{Channel, Receiver};
use millpond_tasks::config::Settings;
use millpond_tasks::{
    DoorName, ErrorCode, Handler, Log, Registry, Service, ServiceHandle, Submit, TaskFailure,
};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setpgid, setrlimit,
};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long handlers get to close, once the daemon is done with this process.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// How long a process that was told to end may take before it ends in the middle of whatever it does.
const END_WAIT: Duration = Duration::from_secs(1);
/// How many threads the service of a process has that run no handlers; they only sleep.
const SPARE_WORKERS: usize = 1;

/// The life of a worker process.
pub(super) fn run(spec: &Spec, memory: OwnedFd, line: OwnedFd) -> ! {
    let living = AssertUnwindSafe(|| live(spec, memory, line));
    fork::leave(catch_unwind(living).unwrap_or(101))
}

fn live(spec: &Spec, memory: OwnedFd, line: OwnedFd) -> i32 {
    settle();
    let Ok(Channel { sender, receiver }) = Channel::open(memory, &spec.plan, u64::MAX) else { return 102 };
    let outlet = Arc::new(Outlet::new(sender));
    let service = match start_service(spec, &outlet) {
        Ok(service) => service,
        Err(words) => {
            outlet.say(kind::FAILED, 0, 0, words.as_bytes());
            return 1;
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let listener = Listener {
        line,
        outlet: Arc::clone(&outlet),
        handle: service.handle(),
        is_over: Arc::clone(&is_over),
        requests: receiver.region(),
    };
    if let Err(error) = thread::Builder::new().name("millpond-listen".to_owned()).spawn(|| listener.listen())
    {
        outlet.say(kind::FAILED, 0, 0, format!("a thread could not be started: {error}").as_bytes());
        return 1;
    }
    limit_memory(spec.settings.isolation.memory_bytes_max);
    set_name("millpond-worker");
    outlet.say(kind::READY, 0, 0, &[]);
    work(receiver, &outlet, &service.handle(), &is_over);
    service.stop(CLOSE_TIME);
    fork::flush();
    0
}

/// Makes the copy of the zygote a process of its own.
fn settle() {
    let zygote = getppid();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // If it ended before that, nobody will tell.
    if getppid() != zygote {
        fork::leave(0);
    }
    let _ = setpgid(None, None);
    fork::default_signals();
    set_name("millpond-start");
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if let Ok(nothing) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(nothing);
    }
}

/// From now on the kernel refuses more than so much beyond what was mapped at the start. Allocators map much that they
/// may never use, so this cannot count from zero; how much is really used is watched by the keeper.
fn limit_memory(bytes: Option<u64>) {
    if let (Some(bytes), Some(mapped)) = (bytes, mapped_bytes()) {
        let most = getrlimit(Resource::Data).maximum.unwrap_or(u64::MAX);
        let limit = Some(bytes.saturating_add(mapped).min(most));
        let _ = setrlimit(Resource::Data, Rlimit { current: limit, maximum: limit });
    }
}

/// How much writable memory of its own this process has mapped.
fn mapped_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The handlers of the program, and the built-in ones. Commands are the daemon's, and so are regions and opcodes.
fn start_service(spec: &Spec, outlet: &Arc<Outlet>) -> Result<Service, String> {
    let mut settings: Settings = spec.settings.clone();
    settings.pool.workers = SPARE_WORKERS;
    settings.pool.workers_max = 0;
    settings.pool.scaling = None;
    settings.pool.worker_weights = Vec::new();
    settings.handlers.clear();
    settings.libraries.clear();
    settings.regions.clear();
    settings.schedules.clear();
    settings.handler_retries.clear();
    settings.journal = None;
    settings.dead_letters.enabled = Some(false);
    settings.opcodes.clear();
    let to_daemon = Arc::clone(outlet);
    let log = Log::new(move |level, line| to_daemon.log(level, line));
    let mut registry = Registry::new();
    for (name, handler) in (spec.build)()? {
        let spoken = Spoken::new(handler, Arc::clone(outlet));
        registry.add_boxed(&name, Box::new(spoken)).map_err(|error| error.to_string())?;
    }
    let wrap = |_: &str, handler: Box<dyn Handler>| -> Box<dyn Handler> {
        Box::new(Spoken::new(handler, Arc::clone(outlet)))
    };
    let service = Service::from_settings_with(&settings, registry, &log, &wrap);
    let service = service.map_err(|error| error.to_string())?;
    outlet.set_handle(service.handle());
    Ok(service)
}

/// Runs what comes, until the daemon is done with this process.
fn work(mut receiver: Receiver, outlet: &Outlet, handle: &ServiceHandle, is_over: &AtomicBool) {
    let mut busy_at = Instant::now();
    while !is_over.load(Relaxed) {
        let mut errand = None;
        let taken = receiver.receive(1, |message| {
            if message.kind == kind::TASK {
                errand = Some((message.number, read_errand(message.body)));
            }
        });
        match (taken, errand) {
            // Only this process could have written what it cannot read.
            (Err(_), _) | (Ok(_), Some((_, None))) => fork::leave(103),
            (Ok(_), Some((number, Some(errand)))) => {
                run_errand(number, errand, outlet, handle);
                busy_at = Instant::now();
            }
            // Where one task came from, another may be on its way, and waking a process takes longer than most.
            (Ok(_), None) if linger(busy_at) => {}
            (Ok(_), None) => receiver.wait(NAP),
        }
    }
}

fn run_errand(number: u64, errand: Errand, outlet: &Outlet, handle: &ServiceHandle) {
    let Errand { request, here } = errand;
    let Some(id) = request.id.clone() else { return };
    outlet.begin(number, id);
    let how = Submit { reader: None, keep: false, door: DoorName::Library, earlier: None };
    let running = AssertUnwindSafe(|| handle.run_here(request, here, how));
    let task = match catch_unwind(running) {
        Ok(Ok(accepted)) => accepted.task,
        Ok(Err(refused)) => return outlet.end(number, Err(&refused.failure)),
        // Whatever it left half done is its own; a handler that wants to be careful catches its panics.
        Err(_) => {
            let failure = TaskFailure::new(ErrorCode::HandlerCrashed, "the handler panicked");
            return outlet.end(number, Err(&failure));
        }
    };
    let outcome = loop {
        // A handler may have moved the call to a thread of its own.
        if let Some(outcome) = task.wait(Duration::from_secs(60)) {
            break outcome;
        }
    };
    outlet.end(number, outcome.result());
}

/// Hears what the daemon says while the handler runs.
struct Listener {
    line: OwnedFd,
    outlet: Arc<Outlet>,
    handle: ServiceHandle,
    is_over: Arc<AtomicBool>,
    requests: millpond_queue::wpol::v2::Region,
}

impl Listener {
    fn listen(self) {
        while let Ok(Some(parcel)) = parcel::receive(&self.line) {
            if let Some(id) = self.outlet.task_of(read_order(&parcel.bytes)) {
                // It may have ended meanwhile.
                let _ = self.handle.cancel(&id);
            }
        }
        self.is_over.store(true, Relaxed);
        self.requests.close();
        // The other thread ends the process, unless a handler keeps it. Nobody waits for that handler any more.
        thread::sleep(END_WAIT);
        fork::leave(0);
    }
}
