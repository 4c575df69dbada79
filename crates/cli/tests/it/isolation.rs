//! The daemon with handlers in processes of their own, as an operator meets it: it starts, loses one, ends.
//!
//! What isolation promises in detail is tested in `crates/shm`; this is about the program, which must copy itself
//! before its first thread, and about its allocator, which maps far more memory than it uses.

use crate::daemon::{Daemon, signal};
use std::fs;
use std::time::{Duration, Instant};

const SETTINGS: &str =
    "isolation = \"process\"\nisolation_processes = 2\nisolation_memory_max = \"64 MiB\"\n";

/// Processes that live, are called so and are below this one.
fn below(ancestor: u32, name: &str) -> Vec<u32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != ancestor && is_below(*pid, ancestor) && comm(*pid) == name).collect()
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn is_below(pid: u32, ancestor: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| {
        let mut fields = rest.split(' ');
        let is_alive = fields.next()? != "Z";
        fields.next()?.parse().ok().filter(|_| is_alive)
    });
    parent.is_some_and(|parent: u32| parent == ancestor || parent > 1 && is_below(parent, ancestor))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_daemon_with_worker_processes_outlives_them_and_they_do_not_outlive_it() {
    let mut daemon = Daemon::start(SETTINGS);
    let process = daemon.process();
    let echo = ["submit", r#"{"handler": "echo", "args": {"n": 1}}"#, "--wait"];
    for _ in 0..3 {
        until("both are there", || below(process, "millpond-worker").len() == 2);
        assert_eq!(daemon.run(&echo).with_code(0).out, "{\"n\": 1}\n");
        below(process, "millpond-worker").into_iter().for_each(|worker| signal("KILL", worker));
    }
    assert_eq!(daemon.run(&echo).with_code(0).out, "{\"n\": 1}\n");
    until("both are there", || below(process, "millpond-worker").len() == 2);
    let zygotes = below(process, "millpond-zygote");
    let workers = below(process, "millpond-worker");
    assert_eq!((zygotes.len(), workers.len()), (1, 2));
    daemon.terminate();
    assert_eq!(daemon.ended(), Some(0));
    let left = zygotes.into_iter().chain(workers).filter(|pid| comm(*pid).starts_with("millpond-"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<u32>::new());
}
