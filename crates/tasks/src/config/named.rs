//! The settings of what has a name of its own: handlers (`[handler.NAME]`) and memory regions
//! (`[region.NAME]`).
//!
//! There may be any number of these tables, so they have neither flags nor variables, and the specification's
//! file cannot have them.
//!
//! Not here: all other settings (`table.rs`).

use super::table::{DAY, GIB, SOME_TIME, Setting, setting};
use super::value::Kind::{
    self, Bytes, Command, Count, JsonObject, Name, OneOf, Pairs, Path, Sentence, Span, Symbol,
};
use std::time::Duration;

/// The settings of one handler that is a program or a function in a library, in its own table
/// `[handler.NAME]`. They have neither flags nor variables.
pub const HANDLER_SETTINGS: &[Setting] = &[
    setting(
        "command",
        Command,
        "",
        "handlers",
        "The program and its arguments; it is started without a shell.",
    ),
    setting(
        "library",
        Path,
        "none",
        "handlers",
        "A library with a function that does it, in place of a program.",
    )
    .or("none", "it is a program"),
    setting("symbol", Symbol, "auto", "handlers", "What the function is called in the library.")
        .or("auto", "`handler_NAME`, else `NAME`"),
    setting("concurrency", Count(1, 1024), "1", "handlers", "How many of it may run at once."),
    setting("timeout", SOME_TIME, "30s", "handlers", "How long it may take for one task.")
        .or("none", "as long as it takes"),
    setting("memory_bytes_max", Bytes(1 << 20, 1 << 44), "none", "handlers", "How much memory it may take.")
        .or("none", "as much as there is"),
    setting(
        "cpu_seconds_max",
        Count(1, 1 << 31),
        "none",
        "handlers",
        "How much processor time it may use in its life, in seconds.",
    )
    .or("none", "any"),
    setting(
        "restart_backoff_min",
        Span(Duration::from_millis(1), DAY),
        "100ms",
        "handlers",
        "How long it stays down after its first crash.",
    ),
    setting(
        "restart_backoff_max",
        Span(Duration::from_millis(1), DAY),
        "30s",
        "handlers",
        "How long it stays down at most, after crashes in a row.",
    ),
    setting(
        "stop_grace",
        Span(Duration::ZERO, Duration::from_secs(3600)),
        "2s",
        "handlers",
        "How long it may take to end by itself before it is killed.",
    ),
    setting(
        "line_bytes_max",
        Bytes(1 << 10, GIB),
        "8 MiB",
        "handlers",
        "The longest line it may answer with.",
    ),
    setting(
        "tasks_per_process_max",
        Count(1, 1 << 40),
        "none",
        "handlers",
        "After how many tasks a process is replaced by a fresh one.",
    )
    .or("none", "only when it must be"),
    setting(
        "retry_backoff_min",
        Span(Duration::from_millis(1), DAY),
        "auto",
        "tasks",
        "How long a task of this handler that failed waits before its first retry; then twice as long each time.",
    )
    .or("auto", "`retry.backoff_min`"),
    setting(
        "retry_backoff_max",
        Span(Duration::from_millis(1), DAY),
        "auto",
        "tasks",
        "How long such a task waits at most, after failures in a row.",
    )
    .or("auto", "`retry.backoff_max`"),
    setting("env", Pairs, "", "handlers", "Variables added to its environment."),
    setting("directory", Path, "none", "handlers", "Where it is started.").or("none", "where the daemon was"),
    setting("summary", Sentence, "none", "handlers", "What it does, for people who look for a handler.")
        .or("none", "nothing is said"),
    setting("example", JsonObject, "none", "handlers", "Arguments to try it with, as JSON.")
        .or("none", "none are offered"),
];

/// The settings of one memory region, in its own table `[region.NAME]`.
pub const REGION_SETTINGS: &[Setting] = &[
    setting("bytes", Bytes(1, GIB), "4 KiB", "handlers", "How large it is; it begins as zeroes."),
    setting(
        "access",
        OneOf(|| vec!["read", "write", "read-write"]),
        "read-write",
        "handlers",
        "What tasks may do with it.",
    ),
];

/// What a handler or a region may be called, in requests and in settings.
pub(super) const NAME: Kind = Name;
