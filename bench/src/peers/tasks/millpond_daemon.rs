//! Ours: the program `millpond serve` as people run it, spoken to over its control socket.
//!
//! It runs `echo` itself, on two workers of its pool. The other servers hand their tasks out to a process; so
//! does `start_outside`, where it is a command, and the daemon feeds two processes line by line. The daemon
//! finds no configuration but what it is given here. It is built before the rounds, so that no stale one is
//! measured.
//!
//! Not here: the same tasks without a socket (`millpond_service.rs`).

use super::{Crew, Producer, Started, WORKERS, unexpected};
use crate::daemon::{Daemon, PrivateFolder};
use crate::debian::target_folder;
use crate::wire::SILENCE_LIMIT;
use millpond_local::{Client, Flags, Frame, Kind};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Submits tasks, each by one frame, and wants their results.
pub(crate) struct Submitter {
    client: Client,
    handler: &'static str,
    request: Vec<u8>,
}

/// The built-in handler, and the command that does the same.
pub(super) const ECHO: &str = "echo";
const ECHO_OUTSIDE: &str = "echo_outside";

/// Our programs, built from the sources that this bench was built from.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) daemon: PathBuf,
    /// Does what `echo` does, as a command.
    answer_lines: PathBuf,
    /// hyper and nothing around it.
    pub(crate) plain_hyper: PathBuf,
}

pub(crate) fn programs() -> Result<Programs, String> {
    static PROGRAMS: OnceLock<Result<Programs, String>> = OnceLock::new();
    PROGRAMS.get_or_init(build).clone()
}

fn build() -> Result<Programs, String> {
    let target = target_folder()?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "millpond-cli", "--package", "millpond-bench"]);
    cargo.args(["--bin", "millpond", "--bin", "answer_lines", "--bin", "plain_hyper"]);
    cargo.arg("--target-dir").arg(&target);
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        cargo.arg("--release");
        "release"
    };
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    let status = cargo.status().map_err(|error| format!("cargo: cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build of millpond: {status}; its message stands above"));
    }
    let folder = target.join(profile);
    let [daemon, answer_lines, plain_hyper] =
        ["millpond", "answer_lines", "plain_hyper"].map(|name| folder.join(name));
    Ok(Programs { daemon, answer_lines, plain_hyper })
}

/// `echo` runs on the daemon's workers.
pub(crate) fn start() -> Result<Started<Submitter>, String> {
    let folder = PrivateFolder::new()?;
    serve(folder, None, ECHO)
}

/// `echo` runs in two processes beside the daemon.
pub(crate) fn start_outside() -> Result<Started<Submitter>, String> {
    let folder = PrivateFolder::new()?;
    let program = programs()?.answer_lines.display().to_string();
    let config = folder.path().join("millpond.toml");
    let text = format!("[handler.{ECHO_OUTSIDE}]\ncommand = [{program:?}]\nconcurrency = {WORKERS}\n");
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    serve(folder, Some(&config), ECHO_OUTSIDE)
}

fn serve(
    folder: PrivateFolder,
    config: Option<&Path>,
    handler: &'static str,
) -> Result<Started<Submitter>, String> {
    let runtime = folder.path().join("run");
    let mut command = Command::new(programs()?.daemon);
    command.arg("serve").arg(format!("--workers={WORKERS}")).arg("--runtime-dir").arg(&runtime);
    command.env_remove("MILLPOND_CONFIG");
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let socket = runtime.join("control.sock");
    let mut daemon = Daemon::start(command, folder)?;
    let client = daemon.connect(|| Client::connect(&socket))?;
    let producer = Submitter { client, handler, request: Vec::new() };
    Ok(Started { producer, crew: Crew::new(Some(daemon)) })
}

impl Producer for Submitter {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        write_request(&mut self.request, self.handler, task);
        self.client.send(Kind::Submit, Flags::RESULT, 0, &self.request)
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let first = self.client.receive_timeout(SILENCE_LIMIT)?;
        landed(result(&first.ok_or(io::ErrorKind::TimedOut)?)?)?;
        while let Some(frame) = self.client.receive_buffered() {
            landed(result(&frame)?)?;
        }
        Ok(())
    }
}

/// The request for a task whose arguments these are.
pub(super) fn write_request(request: &mut Vec<u8>, handler: &str, task: &[u8]) {
    request.clear();
    request.extend_from_slice(b"{\"handler\":\"");
    request.extend_from_slice(handler.as_bytes());
    request.extend_from_slice(b"\",\"args\":");
    request.extend_from_slice(task);
    request.push(b'}');
}

/// What the handler answered: the object between `"result":` and the fields after it.
fn result<'a>(frame: &Frame<'a>) -> io::Result<&'a [u8]> {
    const BEFORE: &[u8] = b"\"status\":0,\"result\":";
    const AFTER: &[u8] = b",\"attempts\":";
    let payload = frame.payload;
    let found = (frame.kind == Kind::Result).then(|| {
        let begin = position(payload, BEFORE)? + BEFORE.len();
        let end = begin + position(&payload[begin..], AFTER)?;
        Some(&payload[begin..end])
    });
    found.flatten().ok_or_else(|| unexpected("a result", payload))
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_cut_out_of_its_frame_and_an_error_is_none() {
        let frame = |kind, payload: &'static [u8]| Frame { kind, flags: Flags::NONE, tag: 0, payload };
        let good = b"{\"task_id\":\"t1\",\"status\":0,\"result\":{\"a\":1},\"attempts\":1,\"ran_us\":2}";
        assert_eq!(result(&frame(Kind::Result, good)).unwrap(), b"{\"a\":1}");
        assert!(result(&frame(Kind::Error, good)).is_err());
        let failed = b"{\"task_id\":\"t1\",\"status\":-5,\"error\":\"handler-crashed\",\"attempts\":1}";
        let message = result(&frame(Kind::Result, failed)).unwrap_err().to_string();
        assert!(
            message.starts_with("expected a result, got") && message.contains("handler-crashed"),
            "{message}"
        );
    }
}
