//! Ours: `millpond serve` on the queue, with two workers and the built-in `echo`.
//!
//! Everything else is as it comes: every task is parsed, checked, timed, counted and fenced, and its lease renewed.
//!
//! Not here: the queue and the clock (`mod.rs`).

use super::{LANE, QUEUE, STREAM, Server, told};
use crate::daemon::{Daemon, PrivateFolder};
use crate::peers::tasks::WORKERS;
use crate::peers::tasks::millpond_daemon::programs;
use millpond_local::Client;
use serde_json::Value;
use std::io;
use std::process::Command;

/// Lets a daemon make what belongs to a queue, and ends it.
pub(super) fn lay_out(server: &Server) -> Result<(), String> {
    let mut daemon = start(server, "all")?;
    let consumer = format!("CONSUMER.INFO.{STREAM}.{LANE}");
    let is_there = || server.runtime.block_on(server.ask(&consumer, &Value::Null)).map_err(io::Error::other);
    daemon.connect(is_there).map(drop)
}

/// A daemon that keeps all results, or none.
pub(crate) fn start(server: &Server, results: &str) -> Result<Daemon, String> {
    let folder = PrivateFolder::new()?;
    let config = folder.path().join("millpond.toml");
    let text = format!(
        "workers = {WORKERS}\nmailbox.enabled = false\nmemory_door.enabled = false\nweb.enabled = false\n\
         nats.url = \"nats://{}\"\nnats.queue = \"{QUEUE}\"\nnats.results = \"{results}\"\n",
        server.address
    );
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let runtime = folder.path().join("run");
    let mut command = Command::new(programs()?.daemon);
    command.arg("serve").arg("--config").arg(&config).arg("--runtime-dir").arg(&runtime);
    let mut daemon = Daemon::start(command, folder)?;
    daemon.connect(|| Client::connect(&runtime.join("control.sock")))?;
    Ok(daemon)
}

/// The daemon must have acknowledged every task, and have run each once.
pub(crate) fn check(daemon: &Daemon, tasks: u64) -> Result<(), String> {
    let failed = |error: io::Error| format!("millpond stats: {error}");
    let mut command = Command::new(programs()?.daemon);
    command.args(["stats", "--json", "--runtime-dir"]).arg(daemon.folder().join("run"));
    let output = command.output().map_err(failed)?;
    let stats: Value = serde_json::from_slice(&output.stdout).map_err(told)?;
    let [acked, ran] = [&stats["nats"]["acked"], &stats["nats"]["fetched"]].map(Value::as_u64);
    if (acked, ran) == (Some(tasks), Some(tasks)) {
        return Ok(());
    }
    Err(format!("expected {tasks} tasks fetched once and acknowledged, the daemon says {}", stats["nats"]))
}
