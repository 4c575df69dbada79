//! When a handler closes its processes end: politely, then less so, and in any case in time.
//!
//! Nothing is left behind: no process, no thread, no file descriptor.

use super::*;
use millpond_tasks::ErrorCode;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn idle_processes_see_the_end_of_their_input_and_leave() {
    let folder = Folder::new();
    let company = Folder::new();
    let env = vec![("BYE".to_owned(), folder.path().to_owned())];
    let rig = rig(HandlerSettings { concurrency: 3, env, ..moody() });
    let args = json!({"do": "company", "folder": company.path(), "count": 3});
    let tasks: Vec<_> = (0..3).map(|_| rig.submit(&args)).collect();
    let pids: BTreeSet<_> = tasks.iter().map(|task| pid_in(&result(task)).to_string()).collect();
    rig.stop();
    assert_eq!(folder.names(), pids);
}

#[test]
fn stubborn_processes_are_killed_in_time() {
    let mut rig = rig(script(&["stubborn.py"]));
    let pid = pid_in(&result(&rig.submit(&json!({}))));
    assert!(is_ours(pid));
    rig.service.take().unwrap().stop(Duration::from_millis(200));
    assert!(!is_ours(pid));
}

#[test]
fn a_process_that_does_not_read_its_input_is_ended_by_a_signal() {
    let mut rig = rig(script(&["deaf.py"]));
    let task = rig.submit(&json!({}));
    until("it has the task", || rig.count("busy") == 1);
    let pids = rig.pids();
    rig.service.take().unwrap().stop(Duration::from_secs(20));
    assert_eq!(failure(&task).code, ErrorCode::Cancelled);
    assert!(!pids.is_empty() && pids.iter().all(|pid| !is_ours(*pid)));
}

#[test]
fn a_drain_lets_tasks_finish() {
    let folder = Folder::new();
    let rig = rig(moody());
    let first = rig.submit(&json!({"do": "wait", "for": folder.file("go"), "n": 1}));
    let rest: Vec<_> = (0..10).map(|n| rig.submit(&json!({"n": n}))).collect();
    thread::scope(|scope| {
        let service = rig.service.as_ref().unwrap();
        let drain = scope.spawn(|| service.drain(SOON));
        until("it drains", || rig.handle.is_draining());
        folder.make("go");
        assert_eq!(drain.join().unwrap().left, 0);
    });
    assert!(outcome(&first).status() == 0 && rest.iter().all(|task| outcome(task).status() == 0));
    rig.stop();
}

/// What a daemon that is killed leaves to its processes: the end of their input.
#[test]
fn a_killed_daemon_takes_its_processes_with_it() {
    let inner = "command::closing::killed_from_outside";
    let mut daemon = Command::new(env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored", "--nocapture", "--test-threads=1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    let pid = lines.find_map(|line| line.unwrap().strip_prefix("pid ")?.parse().ok()).unwrap();
    assert!(runs(pid));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    until("the process has seen the end of its input", || !runs(pid));
}

#[test]
#[ignore = "waits to be killed; run by a_killed_daemon_takes_its_processes_with_it"]
fn killed_from_outside() {
    let rig = rig(moody());
    let pid = pid_in(&result(&rig.submit(&json!({}))));
    println!("\npid {pid}");
    thread::sleep(SOON);
    rig.stop();
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Threads that ended stay visible for a moment.
fn threads_and_files() -> (usize, usize) {
    (entries("/proc/self/task"), entries("/proc/self/fd"))
}

/// Other tests come and go in this process, so the counting is done in a process of its own.
#[test]
fn no_thread_and_no_file_is_left_behind() {
    let inner = "command::closing::counted_in_a_process_of_its_own";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complained}");
}

#[test]
#[ignore = "counts threads and files of the whole process; run by no_thread_and_no_file_is_left_behind"]
fn counted_in_a_process_of_its_own() {
    let round = || {
        let settings = HandlerSettings { concurrency: 3, stop_grace: Duration::from_millis(10), ..moody() };
        let rig = rig(settings);
        let moods = ["echo", "segfault", "exit", "garbage", "twice", "hang", "close_stdout", "echo"];
        let tasks: Vec<_> = moods
            .iter()
            .map(|mood| {
                let args = json!({"do": mood, "ignore_term": true});
                rig.request(&json!({"handler": "moody", "args": args, "timeout_ms": 1000}))
            })
            .collect();
        for task in &tasks {
            outcome(task);
        }
        rig.stop();
    };
    round();
    let before = threads_and_files();
    for _ in 0..3 {
        round();
    }
    let mut after = threads_and_files();
    until("all is as before", || {
        after = threads_and_files();
        after.0 <= before.0 && after.1 <= before.1
    });
    assert_eq!(fs::read_to_string("/proc/thread-self/children").unwrap_or_default(), "", "no child is left");
}
