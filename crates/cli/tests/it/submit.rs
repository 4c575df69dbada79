//! `millpond submit`: what goes in comes out, once, and whoever is refused, too slow or interrupted learns
//! what to do.
//!
//! Each test has a daemon of its own, so that what one sends is not in the figures of another.

use crate::daemon::{Daemon, Folder, TALKER, signal};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;

const HELLO: &str = r#"{"handler": "echo", "args": {"hello": "world"}}"#;
const LONG: &str = r#"{"handler": "sleep", "args": {"ms": 600000}}"#;

fn echoes(count: u32) -> String {
    (0..count)
        .map(|n| format!("{{\"task_id\": {n}, \"handler\": \"echo\", \"args\": {{\"n\": {n}}}}}\n"))
        .collect()
}

#[test]
fn a_task_is_answered_with_its_result() {
    let daemon = Daemon::start("");
    assert_eq!(daemon.run(&["submit", HELLO, "--wait"]).quietly(), "{\"hello\": \"world\"}\n");
    let ran = daemon.run(&["submit", HELLO, "--wait", "--json"]);
    let outcome = &ran.json()[0];
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!(0), &json!({"hello": "world"})), "{ran:?}");
}

#[test]
fn without_waiting_the_id_is_printed_and_can_be_used() {
    let daemon = Daemon::start("");
    let id = daemon.run(&["submit", HELLO]).quietly();
    assert_eq!(daemon.run(&["get", id.trim(), "--wait"]).quietly(), "{\"hello\": \"world\"}\n");
    let accepted = daemon.run(&["submit", r#"{"task_id": 17, "handler": "echo"}"#, "--json"]).json();
    assert_eq!(accepted, [json!({"task_id": 17})]);
}

#[test]
fn a_task_that_fails_says_why() {
    let daemon = Daemon::start("");
    let request = r#"{"task_id": "a", "handler": "file_read", "args": {"path": "/etc/hostname"}}"#;
    let ran = daemon.run(&["submit", request, "--wait"]).with_code(1);
    assert!(ran.out.is_empty() && ran.err.starts_with("error: task a: not-allowed (-107): "), "{ran:?}");
    let ran = daemon.run(&["submit", &request.replace("\"a\"", "\"b\""), "--wait", "--json"]).with_code(1);
    assert_eq!(ran.json()[0]["error"], "not-allowed", "{ran:?}");
    assert_eq!(ran.err, "");
}

#[test]
fn a_request_that_is_none_is_shown_with_the_place() {
    let daemon = Daemon::start("");
    let ran = daemon.run(&["submit", r#"{"handler": "echo", "agrs": {}}"#, "--wait"]).with_code(1);
    assert_eq!(
        ran.err,
        "error: invalid-request (-2): unknown field \"agrs\"; did you mean \"args\"? (column 21)\n  \
         1 | {\"handler\": \"echo\", \"agrs\": {}}\n    |                     ^\n"
    );
}

#[test]
fn every_line_of_a_file_is_a_task_and_a_bad_one_costs_itself_alone() {
    let daemon = Daemon::start("");
    daemon
        .folder()
        .write("tasks.ndjson", "{\"handler\":\"echo\",\"args\":{\"n\":1}}\n\nno\n{\"handler\":\"echo\"}\n");
    let ran = daemon.run(&["submit", "tasks.ndjson", "--wait", "--json"]).with_code(1);
    let (good, bad): (Vec<_>, Vec<_>) = ran.json().into_iter().partition(|line| line["status"] == 0);
    assert_eq!(good.len(), 2, "{ran:?}");
    assert_eq!(
        (bad.len(), &bad[0]["error"], &bad[0]["line"]),
        (1, &json!("invalid-request"), &json!(3)),
        "{ran:?}"
    );
    assert!(ran.err.starts_with("3 tasks in "), "{ran:?}");
    assert!(ran.err.ends_with(": 2 done, 1 failed: 1 invalid-request\n"), "{ran:?}");
    let ran = daemon.run(&["submit", "tasks.ndjson"]).with_code(1);
    assert_eq!(ran.out.lines().count(), 2, "the ids of the good ones: {ran:?}");
    assert!(ran.err.starts_with("error: line 3: invalid-request (-2): "), "{ran:?}");
}

#[test]
fn a_file_with_one_request_over_several_lines_is_one_task() {
    let daemon = Daemon::start("");
    daemon.folder().write("task.json", "{\n  \"handler\": \"echo\",\n  \"args\": {}\n}\n");
    let ran = daemon.run(&["submit", "task.json", "--wait", "--json"]).with_code(0);
    assert_eq!((ran.json().len(), &ran.json()[0]["result"]), (1, &json!({})), "{ran:?}");
}

#[test]
fn of_many_lines_each_is_answered_once() {
    let daemon = Daemon::start("");
    let ran = daemon.folder().run_with(&["submit", "-", "--wait", "--json"], &echoes(5000)).with_code(0);
    let answers = ran.json();
    let ids: BTreeSet<u64> = answers.iter().filter_map(|answer| answer["task_id"].as_u64()).collect();
    assert_eq!((answers.len(), ids.len()), (5000, 5000));
    assert!(answers.iter().all(|answer| answer["result"]["n"] == answer["task_id"]));
    assert!(ran.err.ends_with(": 5 000 done\n"), "{}", ran.err);
}

#[test]
fn a_full_daemon_is_waited_for() {
    let daemon = Daemon::start("tasks_max = 3\n");
    let tasks: String = (0..100).map(|_| "{\"handler\": \"sleep\", \"args\": {\"ms\": 1}}\n").collect();
    let ran = daemon.folder().run_with(&["submit", "-", "--wait", "--in-flight", "50"], &tasks).with_code(0);
    assert!(ran.err.ends_with(": 100 done\n"), "{ran:?}");
    let stats = daemon.run(&["stats", "--json"]).json();
    assert!(stats[0]["refused"]["queue-full"].as_u64() > Some(0), "it was full: {}", stats[0]);
}

#[test]
fn whoever_does_not_want_to_wait_for_a_full_daemon_is_refused() {
    let daemon = Daemon::start("tasks_max = 1\n");
    daemon.run(&["submit", LONG]).quietly();
    let ran = daemon.run(&["submit", HELLO, "--no-retry"]).with_code(4);
    assert!(ran.err.starts_with("error: queue-full (-102): ") && ran.err.lines().count() == 1, "{ran:?}");
    let ran = daemon.run(&["submit", HELLO, "--timeout", "100ms"]).with_code(4);
    let expected = "error: the time to wait is over; the queue is still full, and 1 task was not taken\n";
    assert_eq!((&*ran.out, &*ran.err), ("", expected));
}

#[test]
fn a_daemon_that_shuts_down_refuses() {
    let daemon = Daemon::start("");
    daemon.run(&["submit", LONG]).quietly();
    daemon.terminate();
    daemon.run_until(&["stats", "--json"], |ran| ran.json()[0]["is_draining"] == true);
    let ran = daemon.folder().run_with(&["submit", "-", "--wait"], &echoes(1000)).with_code(4);
    assert!(ran.err.contains("draining (-103)"), "{ran:?}");
    assert!(!ran.err.contains("1 000"), "it did not go on with all of them: {ran:?}");
}

#[test]
fn what_takes_too_long_goes_on_and_can_be_cancelled() {
    let daemon = Daemon::start("");
    let ran = daemon.run(&["submit", LONG, "--wait", "--timeout", "50ms"]).with_code(5);
    let go_on = "task t1 goes on: \"millpond get t1 --wait\", or \"millpond cancel t1\"";
    let expected = format!("error: the time to wait is over; {go_on}\n");
    assert_eq!((&*ran.out, &*ran.err), ("", &*expected));
    assert_eq!(daemon.run(&["cancel", "t1"]).quietly(), "cancelled t1\n");
    let ran = daemon.run(&["get", "t1"]).with_code(1);
    assert!(ran.err.starts_with("error: task t1: cancelled (-101)"), "{ran:?}");
}

#[test]
fn an_interrupted_wait_says_what_goes_on() {
    let daemon = Daemon::start("");
    let mut command = daemon.folder().millpond(&["submit", LONG, "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    daemon.run_until(&["ls", "--json", "--stage", "running"], |ran| !ran.out.is_empty());
    signal("INT", child.id());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("note: task t1 goes on: ") && said.ends_with("error: interrupted\n"), "{said}");
    assert_eq!(daemon.run(&["ls", "--json", "--stage", "running"]).json().len(), 1, "it still runs");
}

#[test]
fn what_a_task_says_is_shown_in_its_order() {
    let daemon = Daemon::start(TALKER);
    let ran = daemon.run(&["submit", r#"{"handler": "talk"}"#, "--stream"]).with_code(0);
    assert_eq!((&*ran.out, &*ran.err), ("1\n\"two\"\n\"end\"\n", "log: begin\n"));
    let ran = daemon.run(&["submit", r#"{"handler": "talk"}"#, "--stream", "--json"]).with_code(0);
    let lines = ran.json();
    let (outcome, events) = lines.split_last().expect("there is an outcome");
    let offsets: Vec<_> = events.iter().filter_map(|event| event["offset"].as_u64()).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
    let partials: Vec<&Value> = events.iter().filter_map(|event| event.get("partial")).collect();
    assert_eq!(partials, [&json!(1), &json!("two")]);
    assert!(lines.iter().all(|line| line["task_id"] == outcome["task_id"]), "{ran:?}");
    assert_eq!(outcome["result"], "end");
}

#[test]
fn an_input_that_cannot_be_is_refused_before_anything_is_sent() {
    let daemon = Daemon::start("");
    let ran = daemon.run(&["submit", "nosuch.ndjson"]).with_code(2);
    assert!(
        ran.err.starts_with("error: \"nosuch.ndjson\": expected a request that begins with {, a file"),
        "{ran:?}"
    );
    let ran = daemon.run(&["submit", "."]).with_code(2);
    assert_eq!(ran.err, "error: \".\": expected a file, got a directory\n");
}

#[test]
fn results_that_nobody_reads_are_no_reason_to_complain() {
    let daemon = Daemon::start("");
    daemon.folder().write("tasks.ndjson", &echoes(2000));
    let mut command = daemon.folder().millpond(&["submit", "tasks.ndjson", "--wait"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
}

#[test]
fn without_a_daemon_every_command_says_how_to_start_one() {
    let folder = Folder::new();
    let commands: [&[&str]; 6] = [
        &["submit", HELLO],
        &["get", "t1"],
        &["cancel", "t1"],
        &["ls"],
        &["stats"],
        &["bench", "--tasks", "1"],
    ];
    for command in commands {
        let ran = folder.run(command).with_code(3);
        let socket = folder.path().join("millpond/control.sock");
        let expected = format!(
            "error: no millpond answers at {}: start one with \"millpond serve\", or say which with --name \
             or --runtime-dir\n",
            socket.display()
        );
        assert_eq!((&*ran.out, &*ran.err), ("", &*expected), "{command:?}");
    }
    // What a daemon leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("control.sock")).unwrap());
    let directory = folder.path().to_str().unwrap();
    let ran = folder.run(&["stats", "--runtime-dir", directory]).with_code(3);
    assert!(ran.err.contains("start one with"), "{ran:?}");
}

#[test]
fn a_daemon_is_found_by_file_variable_and_flag() {
    let elsewhere = Folder::new();
    let directory = elsewhere.path().join("here");
    let directory = directory.to_str().unwrap();
    let daemon = Daemon::start(&format!("runtime_dir = {directory:?}\n"));
    assert_eq!(
        daemon.run(&["submit", HELLO, "--wait"]).quietly(),
        "{\"hello\": \"world\"}\n",
        "by millpond.toml"
    );
    let nowhere = Folder::new();
    nowhere.run(&["stats"]).with_code(3);
    nowhere.run(&["stats", "--runtime-dir", directory]).with_code(0);
    let file = daemon.folder().path().join("millpond.toml");
    nowhere.run(&["stats", "--config", file.to_str().unwrap()]).with_code(0);
    let output = nowhere.millpond(&["stats"]).env("MILLPOND_RUNTIME_DIR", directory).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_daemon_is_found_by_its_name() {
    let place = Folder::new();
    // Where the name leads, as the directory of this user is the folder of the test.
    let directory = place.path().join("millpond-orders");
    let file = format!("runtime_dir = {:?}\n", directory.to_str().unwrap());
    let _daemon = Daemon::start(&file);
    place.run(&["stats"]).with_code(3);
    assert_eq!(
        place.run(&["submit", HELLO, "--wait", "--name", "orders"]).quietly(),
        "{\"hello\": \"world\"}\n"
    );
    let output = place.millpond(&["stats"]).env("MILLPOND_NAME", "orders").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "by the variable");
    let path = directory.to_str().unwrap();
    place.run(&["stats", "--name", path]).with_code(0);
    let ran = place.run(&["stats", "--name", "Orders"]).with_code(2);
    assert!(ran.err.contains("name: expected 1 to 64 characters out of a-z"), "{ran:?}");
    // What is said on the spot counts more than what a file says.
    place.write("millpond.toml", "runtime_dir = \"/nowhere\"\n");
    place.run(&["stats"]).with_code(3);
    place.run(&["stats", "--name", "orders"]).with_code(0);
    place.run(&["stats", "--name", "orders", "--runtime-dir", path]).with_code(2);
}
