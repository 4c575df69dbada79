//! The one table of all settings: what each is called, what it may be, what it is by default, and who reads
//! it.
//!
//! Files, environment, flags, `docs/configuration.md` and `examples/config/millpond.toml` are all read by or made from
//! it. A setting that nobody reads must not be here; the tests of `typed.rs` look.
//!
//! Not here: the settings of single handlers and regions (`named.rs`), how a value is read (`value.rs`),
//! relations between settings (`check.rs`).

use super::durable::DURABLE_SETTINGS;
use super::isolation::ISOLATION_SETTINGS;
use super::memory_door::MEMORY_DOOR_SETTINGS;
use super::nats::NATS_SETTINGS;
use super::trace::TRACE_SETTINGS;
use super::value::Kind::{self, Bytes, Count, Fraction, Hosts, Name, OneOf, Path, Paths, Span, Switch};
use super::web::WEB_SETTINGS;
use millpond::policy::{admit, affinity, steal};
use std::time::Duration;

/// What the variables of the environment begin with.
pub(super) const VARIABLE_PREFIX: &str = "MILLPOND_";

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As it is written in `millpond.toml`, with its section: `stealing.size`.
    pub name: &'static str,
    /// What the specification's file calls it, if that knows it.
    pub specified: Option<&'static str>,
    /// What it may be.
    pub kind: Kind,
    /// A word that may stand in place of a value, and what it means.
    pub word: Option<(&'static str, &'static str)>,
    /// What it is if nobody says anything, as it would be written. Empty for lists, which are empty then, and
    /// for the command of a handler, which must be given.
    pub default: &'static str,
    /// Another setting, and what that must be for this one to count.
    pub only_with: Option<(&'static str, &'static str)>,
    /// The part that reads it.
    pub reader: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

impl Setting {
    /// The flag that sets it: `--stealing-size`.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace(['.', '_'], "-"))
    }

    /// The variable of the environment that sets it: `MILLPOND_STEALING_SIZE`.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The setting of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    const fn specified(mut self, key: &'static str) -> Self {
        self.specified = Some(key);
        self
    }

    pub(super) const fn or(mut self, word: &'static str, meaning: &'static str) -> Self {
        self.word = Some((word, meaning));
        self
    }

    pub(super) const fn only_with(mut self, other: &'static str, value: &'static str) -> Self {
        self.only_with = Some((other, value));
        self
    }
}

pub(super) const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    reader: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, specified: None, kind, word: None, default, only_with: None, reader, about }
}

const CAPACITY: Kind = Count(1, 1 << 26);
const POSITIVE: Kind = Count(1, u32::MAX as u64);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
const UP_TO_A_DAY: Kind = Span(Duration::ZERO, DAY);
pub(super) const SOME_TIME: Kind = Span(Duration::from_nanos(1), DAY);
pub(super) const GIB: u64 = 1 << 30;
const A_MILLISECOND_UP: Kind = Span(Duration::from_millis(1), DAY);

const fn scaling(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "pool", about).only_with("scaling.enabled", "true")
}

const fn stealing(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "pool", about).only_with("stealing.enabled", "true")
}

const fn control(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "control socket", about).only_with("control.enabled", "true")
}

const fn mailbox(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "mailbox", about).only_with("mailbox.enabled", "true")
}

/// Names of strategies, the default first.
fn strategies() -> Vec<&'static str> {
    millpond::Strategy::names().collect()
}

/// All settings but those of single handlers and regions, in the order in which they are shown: first those
/// without a section.
pub const SETTINGS: &[Setting] = &ALL;

const PARTS: [&[Setting]; 8] = [
    WITHOUT_SECTION,
    ISOLATION_SETTINGS,
    GENERAL,
    DURABLE_SETTINGS,
    MEMORY_DOOR_SETTINGS,
    WEB_SETTINGS,
    NATS_SETTINGS,
    TRACE_SETTINGS,
];

const COUNT: usize = {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

static ALL: [Setting; COUNT] = {
    let mut all = [WITHOUT_SECTION[0]; COUNT];
    let (mut index, mut part, mut place) = (0, 0, 0);
    while index < all.len() {
        if place == PARTS[part].len() {
            (part, place) = (part + 1, 0);
        }
        all[index] = PARTS[part][place];
        (index, place) = (index + 1, place + 1);
    }
    all
};

/// Those that stand in no section.
const WITHOUT_SECTION: &[Setting] = &[
    setting("workers", Count(1, 4096), "auto", "pool", "How many workers run tasks.")
        .specified("thread_count")
        .or("auto", "one for each processor, `workers_max` at most"),
    setting(
        "workers_max",
        Count(1, 4096),
        "auto",
        "pool",
        "The most workers, with those that stand in for workers that wait.",
    )
    .or("auto", "64 more than `workers`"),
    // The library says 1024. A daemon has submitters it does not know, and a burst should not be refused
    // early.
    setting("queue_capacity", CAPACITY, "16384", "pool", "How many tasks may wait in each lane of priority.")
        .specified("initial_task_capacity"),
    setting(
        "local_capacity",
        CAPACITY,
        "1024",
        "pool",
        "How many tasks submitted by tasks may wait at each worker.",
    ),
    setting(
        "inbox_capacity",
        CAPACITY,
        "64",
        "pool",
        "How many tasks with an affinity key may wait for one worker.",
    ),
    setting(
        "tasks_max",
        CAPACITY,
        "65536",
        "tasks",
        "How many tasks may wait or run at once, with delayed ones and those that wait for a retry.",
    ),
    setting(
        "keys_max",
        CAPACITY,
        "65536",
        "tasks",
        "How many idempotency keys are remembered; beyond that the oldest goes.",
    ),
    setting(
        "keys_age_max",
        Span(Duration::from_millis(1), YEAR),
        "1h",
        "tasks",
        "How long an idempotency key is remembered.",
    ),
    setting("futures_max", Count(1, 1 << 28), "65536", "pool", "How many async tasks may live at once."),
    setting(
        "spin",
        Span(Duration::ZERO, Duration::from_secs(1)),
        "20us",
        "pool",
        "How long a worker without work looks around before it sleeps.",
    ),
    setting("pin", Switch, "false", "pool", "Whether each worker stays on one processor."),
    setting("stack_bytes", Bytes(64 << 10, GIB), "auto", "pool", "The size of each worker's stack.")
        .or("auto", "what Rust gives a thread"),
    setting("strategy", OneOf(strategies), "shared", "pool", "Which worker a task from outside is given to."),
    setting("name", Name, "millpond", "daemon", "What the daemon is called, by programs that look for it."),
    setting("runtime_dir", Path, "auto", "daemon", "The private directory of sockets and mailboxes.")
        .or("auto", "the one of this user for `name`, made when the daemon starts"),
    setting(
        "drain_timeout",
        UP_TO_A_DAY,
        "30s",
        "daemon",
        "How long tasks may go on once the daemon was told to end.",
    ),
];

/// Those of the sections that have no file of their own.
const GENERAL: &[Setting] = &[
    setting(
        "back_pressure.policy",
        OneOf(|| admit::Policy::NAMES.to_vec()),
        "block",
        "pool",
        "What a full queue means.",
    ),
    setting("back_pressure.timeout", SOME_TIME, "none", "pool", "How long a submitter waits for room.")
        .or("none", "as long as it takes")
        .only_with("back_pressure.policy", "block"),
    setting("stealing.enabled", Switch, "true", "pool", "Whether idle workers take tasks from others."),
    stealing(
        "stealing.size",
        OneOf(|| steal::StealSize::NAMES.to_vec()),
        "half",
        "How much of what the victim has more is taken.",
    ),
    stealing("stealing.tasks_max", POSITIVE, "256", "The most tasks taken at once."),
    stealing(
        "stealing.threshold",
        POSITIVE,
        "2",
        "From how many tasks more on a batch is taken instead of one.",
    ),
    stealing(
        "stealing.cooldown",
        UP_TO_A_DAY,
        "0",
        "For how long after a batch the same victim is only robbed of single tasks.",
    ),
    setting("scaling.enabled", Switch, "false", "pool", "Whether the number of workers follows the load."),
    scaling("scaling.workers_min", Count(1, 4096), "1", "The fewest workers."),
    scaling("scaling.workers_max", Count(1, 4096), "8", "The most workers, `workers_max` at most."),
    scaling(
        "scaling.scale_up_threshold",
        Fraction(0.001, 1_000_000.0),
        "2",
        "Tasks for each worker from which on there should be more.",
    ),
    scaling(
        "scaling.scale_down_threshold",
        Fraction(0.001, 1_000_000.0),
        "0.5",
        "Tasks for each worker up to which there may be fewer.",
    ),
    scaling(
        "scaling.scale_down_idle",
        UP_TO_A_DAY,
        "30s",
        "How long a worker must have had nothing to do before it may go.",
    ),
    scaling("scaling.step_up", Count(1, 4096), "1", "How many workers are added at once."),
    scaling("scaling.step_down", Count(1, 4096), "1", "How many workers go at once."),
    scaling("scaling.cooldown", UP_TO_A_DAY, "5s", "How long the number stays after a change."),
    scaling("scaling.samples", POSITIVE, "2", "How many samples in a row must ask for more."),
    scaling(
        "scaling.wait_max",
        UP_TO_A_DAY,
        "none",
        "How long a task may wait before there should be more workers.",
    )
    .or("none", "waiting alone asks for no workers"),
    scaling("scaling.interval", Span(Duration::from_millis(1), DAY), "1s", "How often a sample is taken."),
    scaling(
        "scaling.predict_horizon",
        SOME_TIME,
        "none",
        "How far ahead to plan, from the trend of arrivals.",
    )
    .or("none", "only the present counts"),
    scaling(
        "scaling.predict_half_life",
        SOME_TIME,
        "3s",
        "After how long a past rate of arrivals counts half.",
    ),
    scaling(
        "scaling.predict_utilisation",
        Fraction(0.01, 1.0),
        "0.8",
        "Which share of their time workers should be busy, in that plan.",
    ),
    setting(
        "affinity.method",
        OneOf(|| affinity::Method::NAMES.to_vec()),
        "rendezvous",
        "pool",
        "How a key finds its worker.",
    ),
    setting("affinity.virtual_nodes", Count(1, 10_000), "150", "pool", "Points of each worker on the ring.")
        .only_with("affinity.method", "ring"),
    setting(
        "affinity.probes",
        Count(1, 16),
        "3",
        "pool",
        "Places on the ring at which a key looks for the nearest point.",
    )
    .only_with("affinity.method", "ring"),
    setting(
        "affinity.sticky_for",
        SOME_TIME,
        "none",
        "pool",
        "How long a key stays with the worker that had it last.",
    )
    .or("none", "a key moves to its owner at once"),
    setting(
        "affinity.sticky_keys_max",
        Count(1, 1 << 24),
        "4096",
        "pool",
        "For how many keys that is remembered.",
    ),
    setting(
        "affinity.steal_after",
        UP_TO_A_DAY,
        "10ms",
        "pool",
        "After which wait anybody may take a task with a key.",
    ),
    setting(
        "metrics.sample_every",
        Count(0, u32::MAX as u64),
        "128",
        "pool",
        "One task in so many is timed; 0 times none.",
    ),
    setting(
        "control.enabled",
        Switch,
        "true",
        "control socket",
        "Whether tasks are taken from the socket `control.sock`.",
    ),
    control("control.connections_max", Count(1, 65_536), "256", "How many clients may be connected."),
    control(
        "control.in_flight_max",
        Count(1, 1 << 20),
        "4096",
        "How many tasks of one client may be under way before no more are read from it.",
    ),
    control(
        "control.outbox_bytes_max",
        Bytes(4 << 10, GIB),
        "8 MiB",
        "How many bytes may wait for one client before no more is read from it.",
    ),
    setting(
        "mailbox.enabled",
        Switch,
        "true",
        "mailbox",
        "Whether tasks are read from the files `mailbox-N.json`.",
    ),
    mailbox(
        "mailbox.lines_max",
        Count(1, 1 << 20),
        "1024",
        "How many lines of one file may wait for the queue before no more are read.",
    ),
    mailbox(
        "mailbox.bytes_max",
        Bytes(64, GIB),
        "4 MiB",
        "How much memory those may take; it grows with `request.bytes_max`.",
    ),
    mailbox("mailbox.updaters_max", Count(1, 256), "4", "How many threads hand lines on, at most."),
    mailbox(
        "mailbox.poll_interval",
        A_MILLISECOND_UP,
        "500ms",
        "How often the files are looked at where the system cannot tell of changes.",
    ),
    mailbox(
        "mailbox.results_bytes_max",
        Bytes(4 << 10, 1 << 40),
        "64 MiB",
        "The largest file of results; then it is put aside and a new one begun.",
    ),
    setting("request.bytes_max", Bytes(64, 64 << 20), "1 MiB", "requests", "The largest request."),
    setting(
        "request.depth_max",
        Count(2, 100),
        "32",
        "requests",
        "How deep lists and objects of a request may be nested.",
    ),
    setting(
        "request.string_bytes_max",
        Bytes(1, 64 << 20),
        "256 KiB",
        "requests",
        "The longest text in a request.",
    ),
    setting(
        "request.args_bytes_max",
        Bytes(2, 64 << 20),
        "1 MiB",
        "requests",
        "The largest `args` of a request.",
    ),
    setting(
        "request.timeout_max",
        Span(Duration::from_millis(1), YEAR),
        "1d",
        "requests",
        "The longest time limit a request may ask for.",
    ),
    setting(
        "request.delay_max",
        Span(Duration::ZERO, YEAR),
        "30d",
        "requests",
        "The longest delay a request may ask for, and how far away its `run_at` may be.",
    ),
    setting(
        "request.expires_max",
        Span(Duration::from_millis(1), YEAR),
        "30d",
        "requests",
        "The longest `expires_ms` a request may ask for.",
    ),
    setting(
        "request.retries_max",
        Count(0, 1000),
        "100",
        "requests",
        "The most retries a request may ask for.",
    ),
    setting(
        "request.batch_lines_max",
        Count(1, 1 << 40),
        "1000000",
        "requests",
        "The most requests in one batch.",
    ),
    setting(
        "retry.backoff_min",
        A_MILLISECOND_UP,
        "100ms",
        "tasks",
        "How long a failed task waits before its first retry.",
    ),
    setting(
        "retry.backoff_max",
        A_MILLISECOND_UP,
        "30s",
        "tasks",
        "How long it waits at most, after failures in a row.",
    ),
    setting(
        "results.max",
        Count(1, 1 << 26),
        "65536",
        "results",
        "How many results are kept until they are fetched.",
    )
    .specified("result_queue_capacity"),
    setting(
        "results.bytes_max",
        Bytes(64 << 10, 1 << 40),
        "256 MiB",
        "results",
        "How much memory they may take together.",
    ),
    setting(
        "results.result_bytes_max",
        Bytes(64, GIB),
        "16 MiB",
        "results",
        "The largest result of one task.",
    ),
    setting(
        "results.checkpoint_bytes_max",
        Bytes(64, 16 << 20),
        "64 KiB",
        "results",
        "The largest checkpoint that an attempt may leave for the next one.",
    ),
    setting(
        "results.age_max",
        Span(Duration::from_millis(1), YEAR),
        "1h",
        "results",
        "How long a result is kept.",
    )
    .or("none", "until there is no room"),
    setting(
        "results.full",
        OneOf(|| vec!["block", "drop-oldest", "refuse"]),
        "drop-oldest",
        "results",
        "What a full store does to new tasks, or to the oldest result.",
    ),
    setting(
        "stream.chunk_bytes_max",
        Bytes(1 << 10, GIB),
        "64 KiB",
        "streams",
        "The largest partial result.",
    ),
    setting(
        "stream.chunks_max",
        Count(1, 1 << 20),
        "256",
        "streams",
        "How many partial results of one task are held for its reader.",
    ),
    setting("stream.bytes_max", Bytes(1 << 10, GIB), "4 MiB", "streams", "How much memory those may take."),
    setting(
        "stream.reader_wait",
        UP_TO_A_DAY,
        "5s",
        "streams",
        "How long a handler waits for a reader that does not read, before the oldest partial results go.",
    ),
    setting(
        "stream.readers_max",
        Count(1, 65_536),
        "16",
        "streams",
        "How many may read along with one task.",
    ),
    setting(
        "allow.files",
        Paths,
        "",
        "handlers",
        "Directories in which files may be read and written, with all below.",
    ),
    setting(
        "allow.hosts",
        Hosts,
        "",
        "handlers",
        "Hosts that may be talked to, each with or without a port; `*.` before a name means all that end so.",
    ),
    setting(
        "http.timeout",
        A_MILLISECOND_UP,
        "30s",
        "handlers",
        "How long `http_get` and `http_post` may take, with redirects and body.",
    ),
    setting("http.body_bytes_max", Bytes(1, GIB), "16 MiB", "handlers", "The largest body they take."),
    setting("http.redirects_max", Count(0, 32), "5", "handlers", "How many redirects they follow."),
    setting(
        "files.bytes_max",
        Bytes(1, GIB),
        "16 MiB",
        "handlers",
        "The most that `file_read` and `file_write` read or write at once.",
    ),
    setting(
        "log.level",
        OneOf(|| vec!["error", "warn", "info", "debug", "trace"]),
        "info",
        "log",
        "What is worth a line in the log.",
    ),
];
