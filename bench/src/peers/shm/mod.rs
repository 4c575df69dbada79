//! What the groups about shared memory ask of a peer: carry a small task to another process and its answer back.
//!
//! The other process is `shm_echo`, which sends back what came, or our daemon, which runs `echo`. It is started for
//! each round. Every peer spins rather than sleeps, as programs do that are busy; what it is to wake a sleeper,
//! `groups/tasks` shows.
//!
//! Not here: how many are under way, and whether what comes back is right (`groups/shm/`).

pub(crate) mod iceoryx2;
mod map;
pub(crate) mod millpond;
pub(crate) mod raw;
mod raw_ring;
mod service;
mod terms;
pub(crate) mod wpol;

pub(crate) use terms::BATCH;

use crate::daemon::PrivateFolder;
use crate::debian::target_folder;
use map::Map;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::env;
use std::hint::spin_loop;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use terms::Flag;

/// Carries tasks, and brings their answers back. Tasks are numbered from 0, in the order in which they are sent.
pub(crate) trait Line {
    /// Sends one task at once; waits for room.
    fn send(&mut self, task: &[u8]) -> Result<(), String>;

    /// Sends as many tasks by one call, if the peer knows such a call.
    fn send_batch(&mut self, tasks: &[&[u8]]) -> Result<(), String> {
        tasks.iter().try_for_each(|task| self.send(task))
    }

    /// Waits until an answer is there, and hands on what there is, each with its task's number.
    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String>;
}

/// What becomes of an answer: it is told the task's number and the answer.
pub(crate) type Landed<'a> = dyn FnMut(u64, &[u8]) -> Result<(), String> + 'a;

/// Nothing takes this long.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// The process at the other end, and the memory that is shared with it.
pub(crate) struct Echo {
    child: Child,
    map: Arc<Map>,
    folder: PrivateFolder,
}

impl Echo {
    /// Starts the process. What is in the memory must have been laid out by `lay_out` before it looks.
    fn start(kind: &str, lay_out: impl FnOnce(&Arc<Map>) -> Result<(), String>) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("shm_echo: cannot be started: {error}");
        let file = memfd_create("millpond-bench", MemfdFlags::CLOEXEC).map_err(|error| failed(&error))?;
        ftruncate(&file, terms::BYTES as u64).map_err(|error| failed(&error))?;
        let map = Arc::new(Map::new(&file, terms::BYTES).map_err(|error| failed(&error))?);
        lay_out(&map)?;
        let folder = PrivateFolder::new()?;
        let mut command = Command::new(program()?);
        command.arg(kind).current_dir(folder.path()).stdin(Stdio::from(file)).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| failed(&error))?;
        let mut echo = Self { child, map, folder };
        let mut patience = Patience::new();
        while !Flag::Ready.is_set(&echo.map) {
            thread::yield_now();
            if let Ok(Some(status)) = echo.child.try_wait() {
                return Err(format!("shm_echo {kind}: ended with {status}; its message stands above"));
            }
            patience.ask(kind)?;
        }
        Ok(echo)
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        Flag::Stop.set(&self.map);
        let started = Instant::now();
        // Let go in good order: iceoryx2 would leave files behind otherwise.
        while started.elapsed() < SILENCE_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::yield_now();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spins, but not for ever: a task that is lost must not hold the bench up.
struct Patience {
    looks: u32,
    since: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { looks: 0, since: Instant::now() }
    }

    /// After each fruitless look. The clock is asked now and then only.
    fn ask(&mut self, who: &str) -> Result<(), String> {
        spin_loop();
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(1 << 16) && self.since.elapsed() > SILENCE_LIMIT {
            return Err(format!("{who}: nothing for {} s: a task was lost", SILENCE_LIMIT.as_secs()));
        }
        Ok(())
    }
}

/// The program at the other end, built from the sources that this bench was built from.
pub(crate) fn program() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(build).clone()
}

fn build() -> Result<PathBuf, String> {
    let target = target_folder()?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "millpond-bench", "--bin", "shm_echo"]);
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
        return Err(format!("cargo build of shm_echo: {status}; its message stands above"));
    }
    Ok(target.join(profile).join("shm_echo"))
}
