//! Handlers in processes of their own: every way to die costs the task it happens to, and nothing else.
//!
//! Real processes, real signals. Each scenario is run in a process of its own, because the zygote has to be copied
//! before there is a second thread, and the usual test harness has many. `cargo test --test isolation NAME` runs those
//! whose names contain NAME. The random one prints its seed and takes it back by `MILLPOND_SEED`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "isolation/bed.rs"]
mod bed;
#[path = "isolation/crashes.rs"]
mod crashes;
#[path = "isolation/ends.rs"]
mod ends;
#[path = "isolation/kills.rs"]
mod kills;
#[path = "isolation/words.rs"]
mod words;

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A promise, and how it is tried.
type Scenario = (&'static str, fn());

const SCENARIOS: &[&[Scenario]] = &[crashes::SCENARIOS, words::SCENARIOS, ends::SCENARIOS, kills::SCENARIOS];

/// How long one may take. They take seconds; one that hangs must not hang whoever waits for it.
const PATIENCE: Duration = Duration::from_secs(180);
/// What comes before the name of the one scenario that this process is to run.
const ONE: &str = "--one-scenario";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let all = || SCENARIOS.iter().copied().flatten();
    if let [one, name] = &arguments[..]
        && one == ONE
    {
        let (_, scenario) = all().find(|(known, _)| known == name).expect("the parent knows the names");
        scenario();
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, _) in all().filter(|(name, _)| is_wanted(name)) {
        let is_ok = run_alone(name);
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        *if is_ok { &mut passed } else { &mut failed } += 1;
    }
    println!("\ntest result: {passed} passed; {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the scenario of this name went well, in a process of its own.
fn run_alone(name: &str) -> bool {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([ONE, name])
        .stdin(Stdio::null())
        .spawn()
        .expect("this program can be started again");
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if Instant::now() > until {
            println!("{name} has not ended after {PATIENCE:?}");
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
