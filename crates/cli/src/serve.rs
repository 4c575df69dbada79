//! `millpond serve`: the daemon. Settings become a service, the service gets its doors, and then it waits.
//!
//! It works with no file at all: two commands on a fresh machine show a task going in and a result coming out.
//! The first Ctrl-C (or SIGTERM) drains: doors refuse new tasks and still tell results, while a countdown shows
//! what is left. A second one stops at once.
//!
//! Not here: what the doors and handlers do.

mod countdown;
mod isolation;
mod log_lines;
mod notify;
mod signals;

use crate::failure::Failure;
use crate::nats::QueueFlags;
use crate::output;
use crate::paint::Paint;
use crate::setting_flags::SettingFlags;
use crate::{check, config_file};
use clap::Args;
use countdown::Countdown;
use log_lines::LogLines;
use millpond_http::HttpDoor;
use millpond_local::{ControlDoor, ControlSettings, MailboxDoor, MailboxDoorSettings, SOCKET_NAME};
use millpond_nats::{Closed, NatsDoor};
use millpond_otel::Exporter;
use millpond_shm::isolate::Zygote;
use millpond_shm::{MEMORY_SOCKET_NAME, MemoryDoor};
use millpond_tasks::config::Settings;
use millpond_tasks::{DrainReport, Log, RuntimeDir, Service};
use notify::Manager;
use serde_json::json;
use signals::Signals;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long handlers and doors get to end, once their tasks have.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// What `serve` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond serve                        works at once, with built-in handlers
  millpond serve --workers 8            with another setting; --help shows all of them
  millpond serve --config my.toml       with handlers of your own: docs/TUTORIAL.md
  millpond submit '{\"handler\": \"echo\", \"args\": {\"hello\": \"world\"}}' --wait   from another shell")]
pub(crate) struct ServeArguments {
    /// The file [default: MILLPOND_CONFIG, else millpond.toml or config/config here]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where HTTP is spoken and the dashboard is shown, for example 127.0.0.1:8080 or 0.0.0.0:80
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Where accepted tasks are kept, so that no crash loses one: docs/durability.md
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    #[command(flatten)]
    queue: QueueFlags,

    /// Write the log as JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    flags: SettingFlags,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let settings = settings(arguments)?;
    // Before anything starts a thread.
    let zygote = isolation::prepare(&settings)?;
    let signals = Signals::listen()?;
    let lines = LogLines::new(&settings.log_level, arguments.json);
    let log = lines.log();
    let daemon = Daemon::start(&settings, &log, zygote)?;
    daemon.say_hello(arguments.json)?;
    let manager = Manager::from_environment(&log);
    manager.ready(settings.pool.workers);
    signals.wait();
    manager.stopping(settings.drain_timeout);
    daemon.end(settings.drain_timeout, &signals, &log)
}

fn settings(arguments: &ServeArguments) -> Result<Settings, Failure> {
    let mut flags = arguments.flags.clone();
    flags.given.extend(arguments.listen.iter().map(|address| ("--web-listen".to_owned(), address.clone())));
    if let Some(directory) = &arguments.journal {
        let path = std::path::absolute(directory)
            .map_err(|error| Failure::Usage(format!("--journal {}: {error}", directory.display())))?;
        flags.given.push(("--journal-dir".to_owned(), path.display().to_string()));
    }
    flags.given.extend(arguments.queue.as_settings());
    let configuration = config_file::load(arguments.config.as_deref(), &flags)?;
    for finding in configuration.loaded.findings() {
        let text = check::told(finding, &configuration, Paint::for_errors());
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
    configuration.loaded.settings().map_err(|_| {
        Failure::Usage("nothing was started; mend the configuration, `millpond check` helps".to_owned())
    })
}

/// The running parts, in the order in which they were started.
struct Daemon {
    service: Service,
    control: Option<ControlDoor>,
    mailbox: Option<MailboxDoor>,
    memory: Option<MemoryDoor>,
    web: Option<HttpDoor>,
    nats: Option<NatsDoor>,
    traces: Option<Exporter>,
    directory: PathBuf,
    /// In how many processes functions run, if not on threads of this one.
    processes: Option<usize>,
}

impl Daemon {
    fn start(settings: &Settings, log: &Log, zygote: Option<Zygote>) -> Result<Self, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Failure::Failed(format!("{what}: {error}"));
        let directory = settings.runtime_path();
        let processes = zygote.is_some().then_some(settings.isolation.processes);
        let service = isolation::start(settings, log, zygote)?;
        let traces =
            Exporter::start(&settings.trace, log.clone()).map_err(|error| failed("traces", &error))?;
        if let Some(traces) = &traces {
            service.set_tracer(traces.tracer());
        }
        let control = settings.control.enabled.then(|| {
            let door = ControlSettings {
                path: directory.join(SOCKET_NAME),
                connections_max: settings.control.connections_max,
                in_flight_max: settings.control.in_flight_max,
                outbox_bytes_max: settings.control.outbox_bytes_max,
            };
            ControlDoor::open(door, service.handle(), log.clone())
        });
        let control = control.transpose().map_err(|error| failed("control socket", &error))?;
        let mailbox = settings.mailbox.enabled.then(|| {
            let door = MailboxDoorSettings {
                directory: directory.clone(),
                workers: settings.pool.workers,
                files: settings.mailbox.clone(),
                ..MailboxDoorSettings::default()
            };
            MailboxDoor::open(door, service.handle(), log.clone())
        });
        let mailbox = mailbox.transpose().map_err(|error| failed("file mailboxes", &error))?;
        let memory = settings.memory_door.enabled.then(|| {
            let path = directory.join(MEMORY_SOCKET_NAME);
            MemoryDoor::open(&path, settings.memory_door.clone(), service.handle(), log.clone())
        });
        let memory = memory.transpose().map_err(|error| failed("shared memory", &error))?;
        let web =
            settings.web.enabled.then(|| HttpDoor::open(settings.web.clone(), service.handle(), log.clone()));
        let web = web.transpose().map_err(|error| failed("HTTP", &error))?;
        let nats = settings.nats.clone().map(|nats| NatsDoor::open(nats, service.handle(), log.clone()));
        let nats = nats.transpose().map_err(|error| failed("NATS", &error))?;
        Ok(Self { service, control, mailbox, memory, web, nats, traces, directory, processes })
    }

    /// Says where it listens, and what to try.
    fn say_hello(&self, json: bool) -> Result<(), Failure> {
        let handle = self.service.handle();
        let workers = handle.config().pool.workers;
        let version = env!("CARGO_PKG_VERSION");
        let control = self.control.as_ref().map(|door| door.path().display().to_string());
        let mailbox =
            self.mailbox.as_ref().map(|_| self.directory.join("mailbox-1.json").display().to_string());
        let memory = self.memory.as_ref().map(|door| door.path().display().to_string());
        let web = self.web.as_ref().and_then(HttpDoor::address).map(|address| format!("http://{address}"));
        if json {
            return output::print_json(&json!({
                "listening": true,
                "version": version,
                "pid": std::process::id(),
                "workers": workers,
                "control": control,
                "mailbox": mailbox,
                "memory": memory,
                "isolated_processes": self.processes,
                "journal": handle.journal_health(),
                "web": web,
                "nats": self.nats.as_ref().map(|door| json!({
                    "server": door.server(), "queue": door.queue(), "daemon": door.daemon(),
                })),
                "handlers": handle.handlers(),
            }));
        }
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(text, "millpond {version} is running: {workers} workers, pid {}", std::process::id());
        if let Some(path) = &control {
            let _ = writeln!(text, "  control socket  {path}");
        }
        if let Some(path) = &mailbox {
            let to = if workers > 1 { format!(" to mailbox-{workers}.json") } else { String::new() };
            let _ = writeln!(text, "  file mailboxes  {path}{to}");
        }
        if let Some(path) = &memory {
            let _ = writeln!(text, "  shared memory   {path}");
        }
        if let Some(url) = &web {
            let _ = writeln!(text, "  HTTP, dashboard {url}/");
        }
        if let Some(door) = &self.nats {
            let _ = writeln!(text, "  NATS            {}, queue {}", door.server(), door.queue());
        }
        if let Some(journal) = handle.journal_health() {
            let _ = writeln!(
                text,
                "  journal         {} ({} tasks came back)",
                journal.directory, journal.restored
            );
        }
        if let Some(processes) = self.processes {
            let _ = writeln!(text, "  isolation       functions run in {processes} processes of their own");
        }
        let _ = writeln!(text, "  handlers        {}", handle.handlers().join(", "));
        if control.is_some() {
            let program = std::env::args().next().unwrap_or_else(|| "millpond".to_owned());
            let _ = writeln!(text, "Try it from another shell; Ctrl-C here ends it:");
            let _ = writeln!(
                text,
                "  {program} submit '{{\"handler\": \"echo\", \"args\": {{\"hello\": \"world\"}}}}' --wait{}",
                self.directory_flag()
            );
        }
        output::print(text.as_bytes())
    }

    /// What a client must be told if the directory is not the one it would look in.
    fn directory_flag(&self) -> String {
        if self.directory == RuntimeDir::default_path() {
            return String::new();
        }
        format!(" --runtime-dir {}", self.directory.display())
    }

    /// Drains with a countdown, then ends everything.
    fn end(self, within: Duration, signals: &Signals, log: &Log) -> Result<(), Failure> {
        let Self { service, control, mailbox, memory, web, nats, traces, .. } = self;
        // What others can do as well is theirs from now on.
        if let Some(door) = &nats {
            door.drain();
        }
        // What programs have put into their memory was accepted: it is handed in while the service still takes it.
        if let Some(door) = &memory {
            door.drain(CLOSE_TIME.min(within));
        }
        if let Some(door) = &web {
            door.drain();
        }
        if let Some(door) = &mailbox {
            door.stop_reading();
        }
        let ended = drain(&service, within, signals, log);
        // Nobody may ask for a task that is being forgotten; whoever waits for one still hears of its end.
        if let Some(door) = &web {
            door.stop_accepting(CLOSE_TIME);
        }
        // What has not ended by now goes to other daemons, and is not cancelled.
        let given_before = nats.as_ref().map_or(0, |door| door.stats().nacked);
        if let Some(door) = &nats {
            door.give_back();
        }
        let DrainReport { left, postponed, .. } = service.stop(CLOSE_TIME);
        let Closed { given_back, unsent } = nats.map(|door| door.close(CLOSE_TIME)).unwrap_or_default();
        if unsent > 0 {
            log.warn(&format!(
                "nats: the server has not heard of {unsent} tasks; they come again after their lease"
            ));
        }
        let given_back = usize::try_from(given_back.saturating_sub(given_before))
            .unwrap_or(usize::MAX)
            .min(left - postponed);
        let cut = web.map_or(0, |door| door.close(CLOSE_TIME).cut);
        if cut > 0 {
            log.warn(&format!("http: {cut} connections were cut"));
        }
        if let Some(door) = mailbox {
            door.close(CLOSE_TIME);
        }
        let unread = memory.map_or(0, |door| door.close(CLOSE_TIME));
        if unread > 0 {
            log.warn(&format!("memory: {unread} answers were not read by the programs that asked"));
        }
        if let Some(door) = control {
            door.close(CLOSE_TIME);
        }
        if let Some(traces) = traces {
            traces.stop(CLOSE_TIME);
        }
        let mut others = String::new();
        let cancelled = left - postponed - given_back;
        for (count, what) in [
            (given_back, "given back to the queue on NATS"),
            (postponed, "kept for after the restart"),
            (cancelled, "cancelled"),
        ] {
            if count > 0 {
                // Writing to a `String` cannot fail.
                let _ = write!(others, "; {what}: {count}");
            }
        }
        let others = if left == 0 { ", none is lost" } else { &others };
        log.info(&format!("stopped; {ended} tasks ended while draining{others}"));
        if left > 0 && signals.count() > 1 { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// Lets tasks end, with a countdown; says how many did.
fn drain(service: &Service, within: Duration, signals: &Signals, log: &Log) -> u64 {
    let until = Instant::now() + within;
    let mut countdown = Countdown::new(log);
    let mut ended = 0;
    loop {
        let step = until.saturating_duration_since(Instant::now()).min(Duration::from_millis(200));
        let report = service.drain(step);
        ended += report.ended;
        let left = until.saturating_duration_since(Instant::now());
        if report.left == report.postponed || left.is_zero() || signals.count() > 1 {
            break;
        }
        countdown.show(report.left, left);
    }
    countdown.clear();
    ended
}
