//! Beginnings and ends: who may start, what a cancel does, and that nothing is left behind by any end.
//!
//! Processes are counted in `/proc` and descriptors in `/proc/self/fd`, before and after.

use crate::Scenario;
use crate::bed::{Bed, LONG, descendants, failure, handlers, lives, result, settings, until, workers};
use millpond_shm::isolate::{Handlers, IsolationError, Zygote, service};
use millpond_tasks::{ErrorCode, Log};
use rustix::process::{Signal, WaitOptions, waitpid};
use serde_json::json;
use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("a_program_with_a_second_thread_is_refused", a_program_with_a_second_thread_is_refused),
    ("a_zygote_that_is_not_used_ends_with_its_owner", a_zygote_that_is_not_used_ends_with_its_owner),
    ("processes_that_cannot_start_are_told_at_once", processes_that_cannot_start_are_told_at_once),
    (
        "a_cancelled_handler_that_listens_keeps_its_process",
        a_cancelled_handler_that_listens_keeps_its_process,
    ),
    (
        "a_cancelled_handler_that_does_not_listen_is_killed",
        a_cancelled_handler_that_does_not_listen_is_killed,
    ),
    ("a_cancelled_task_that_waits_never_runs", a_cancelled_task_that_waits_never_runs),
    ("a_stop_leaves_no_process_and_no_descriptor", a_stop_leaves_no_process_and_no_descriptor),
    ("a_killed_daemon_leaves_no_process", a_killed_daemon_leaves_no_process),
];

fn a_program_with_a_second_thread_is_refused() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let other = thread::spawn(move || wait.recv());
    let refused = Zygote::start(&settings(1), || Ok(handlers())).unwrap_err();
    assert!(matches!(refused, IsolationError::Threads(2)), "{refused}");
    drop(go);
    let _ = other.join().unwrap();
}

fn a_zygote_that_is_not_used_ends_with_its_owner() {
    let before = crate::bed::descriptors();
    let zygote = Zygote::start(&settings(1), || Ok(handlers())).unwrap();
    let pids: Vec<_> = descendants().into_iter().collect();
    assert_eq!(pids.len(), 1);
    // Whoever stops it does not stop its owner.
    crate::bed::kill(pids[0], Signal::STOP);
    drop(zygote);
    assert_eq!((descendants(), crate::bed::descriptors()), (BTreeSet::new(), before));
    assert_eq!(waitpid(None, WaitOptions::NOHANG).err(), Some(rustix::io::Errno::CHILD));
}

fn processes_that_cannot_start_are_told_at_once() {
    type Build = fn() -> Result<Handlers, String>;
    let builds: [(Build, &str); 3] = [
        (|| Err("the library is not there".to_owned()), "the library is not there"),
        (|| panic!("in build"), "exited with status 101"),
        (|| Ok(handlers().into_iter().chain(handlers()).collect()), "there is one of this name already"),
    ];
    for (build, words) in builds {
        let zygote = Zygote::start(&settings(2), build).unwrap();
        let refused = service(&settings(2), handlers(), &Log::silent(), Some(zygote)).err().unwrap();
        assert!(refused.to_string().contains(words), "{refused}");
        assert!(descendants().is_empty());
    }
}

fn a_cancelled_handler_that_listens_keeps_its_process() {
    let bed = Bed::new(1);
    let pid = bed.pid();
    for _ in 0..5 {
        let task = bed.ask("run until cancelled");
        until("it runs", || task.detail().status.progress.is_some());
        bed.handle().cancel(task.id()).unwrap();
        assert_eq!(failure(&task).code, ErrorCode::Cancelled);
    }
    assert_eq!(bed.pid(), pid);
    assert_eq!((bed.stats("crashes"), bed.stats("stops")), (0, 0));
}

fn a_cancelled_handler_that_does_not_listen_is_killed() {
    let bed = Bed::new(2);
    let (stuck, other) = (bed.ask("run for ever"), bed.ask("run until cancelled"));
    until("both run", || bed.stats("busy") == 2);
    bed.handle().cancel(stuck.id()).unwrap();
    assert_eq!(failure(&stuck).code, ErrorCode::Cancelled);
    until("its process was killed", || bed.stats("stops") == 1);
    assert!(!other.is_ended(), "the other one is left alone");
    assert_eq!(bed.stats("crashes"), 0);
}

fn a_cancelled_task_that_waits_never_runs() {
    let bed = Bed::new(1);
    let first = bed.ask("run until cancelled");
    until("it runs", || bed.stats("busy") == 1);
    let second = bed.ask("exit");
    until("it waits", || bed.stats("waiting") == 1);
    assert!(second.why().contains("it waits for a worker process: 1 of 1 are busy; 0 came before"));
    bed.handle().cancel(second.id()).unwrap();
    bed.handle().cancel(first.id()).unwrap();
    bed.pid();
    assert_eq!(bed.stats("crashes"), 0);
}

fn a_stop_leaves_no_process_and_no_descriptor() {
    let before = crate::bed::descriptors();
    for busy in [0, 1, 2] {
        let bed = Bed::new(2);
        let tasks: Vec<_> = (0..busy).map(|_| bed.ask("run for ever")).collect();
        drop(result(&bed.submit(&json!({"handler": "sleep", "args": {"ms": 0}}))));
        until("they run", || (bed.stats("busy"), bed.stats("processes")) == (busy, 2));
        let Bed { service, lines } = bed;
        service.stop(LONG);
        assert!(tasks.iter().all(|task| task.is_ended()));
        assert_eq!(descendants(), BTreeSet::new());
        // Not even as zombies.
        let children = waitpid(None, WaitOptions::NOHANG);
        assert_eq!(children.err(), Some(rustix::io::Errno::CHILD));
        let clean =
            lines.lock().unwrap().iter().filter(|line| line.ends_with("exited with status 0")).count();
        assert_eq!(clean as u64, 2 - busy, "a process without a task ends by itself");
        drop(tasks);
        assert_eq!(crate::bed::descriptors(), before);
    }
}

fn a_killed_daemon_leaves_no_process() {
    const ROLE: &str = "MILLPOND_TEST_DAEMON";
    if env::var_os(ROLE).is_some() {
        return be_the_daemon();
    }
    for _ in 0..10 {
        let mut daemon = Command::new(env::current_exe().unwrap())
            .args([crate::ONE, "a_killed_daemon_leaves_no_process"])
            .env(ROLE, "yes")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pids: Vec<i32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!((pids.len(), pids.iter().all(|pid| lives(*pid))), (4, true), "{line}");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        until("all of them are gone", || !pids.iter().any(|pid| lives(*pid)));
        assert_eq!(descendants(), BTreeSet::new());
    }
}

/// A zygote and three processes, of which two are stuck. Says which they are, and waits to be killed.
fn be_the_daemon() {
    let bed = Bed::new(3);
    let _stuck = [bed.ask("run for ever"), bed.ask("run for ever")];
    until("all are there", || workers().len() == 3 && bed.stats("busy") == 2);
    let pids: Vec<String> = descendants().iter().map(|pid| pid.to_string()).collect();
    println!("{}", pids.join(" "));
    thread::sleep(LONG);
}
