//! `millpond get`, `cancel`, `ls`, `stats`, `bench`: looking at tasks from outside, ending them, counting
//! them.
//!
//! Tasks that must not end by themselves sleep for ten minutes, which no test waits for.

use crate::daemon::{Daemon, TALKER};
use serde_json::{Value, json};

const LONG: &str = r#"{"task_id": "long", "handler": "sleep", "args": {"ms": 600000}}"#;
const LATER: &str = r#"{"task_id": 7, "handler": "echo", "delay_ms": 600000}"#;

#[test]
fn a_task_that_runs_is_shown_with_its_stage() {
    let daemon = Daemon::start("");
    daemon.run(&["submit", LONG]).quietly();
    let text = daemon.run_until(&["get", "long"], |ran| ran.out.contains("running")).quietly();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[..3],
        [vec!["task", "long"], vec!["handler", "sleep"], vec!["stage", "running"]],
        "{text}"
    );
    let status = daemon.run(&["get", "long", "--json"]).json();
    assert_eq!(
        (&status[0]["task_id"], &status[0]["stage"]),
        (&json!("long"), &json!("running")),
        "{status:?}"
    );
}

#[test]
fn a_result_can_be_waited_for_or_asked_for_later() {
    let daemon = Daemon::start("");
    daemon.run(&["submit", r#"{"task_id": 1, "handler": "sleep", "args": {"ms": 50}}"#]).quietly();
    let waited = daemon.run(&["get", "1", "--wait", "--json"]).with_code(0).json();
    assert_eq!(waited[0]["status"], 0, "{waited:?}");
    let ran = daemon.run(&["get", "7"]).with_code(1);
    assert!(ran.err.starts_with("error: task 7: not-found (-112): "), "{ran:?}");
    let ran = daemon.run(&["get", "\"1\""]).with_code(1);
    assert!(ran.err.starts_with("error: task \"1\": not-found"), "a text is no number: {ran:?}");
}

#[test]
fn a_stream_can_be_read_again_from_anywhere() {
    let daemon = Daemon::start(TALKER);
    daemon.run(&["submit", r#"{"task_id": "a", "handler": "talk"}"#]).quietly();
    daemon.run_until(&["get", "a", "--json"], |ran| ran.json()[0]["status"] == 0);
    let whole = daemon.run(&["get", "a", "--stream", "--json"]).with_code(0).json();
    let offsets =
        |lines: &[Value]| lines.iter().filter_map(|line| line["offset"].as_u64()).collect::<Vec<_>>();
    assert_eq!(offsets(&whole), [0, 1, 2, 3], "{whole:?}");
    let rest = daemon.run(&["get", "a", "--stream", "--json", "--from", "3"]).with_code(0).json();
    assert_eq!(offsets(&rest), [3], "{rest:?}");
    assert_eq!(rest.last(), whole.last(), "the outcome comes last");
}

#[test]
fn waiting_for_a_task_has_an_end() {
    let daemon = Daemon::start("");
    daemon.run(&["submit", LONG]).quietly();
    let ran = daemon.run(&["get", "long", "--wait", "--timeout", "20ms"]).with_code(5);
    assert!(ran.err.contains("task long goes on"), "{ran:?}");
}

#[test]
fn tasks_are_cancelled_one_by_one() {
    let daemon = Daemon::start("");
    daemon.run(&["submit", LONG]).quietly();
    daemon.run(&["submit", LATER]).quietly();
    let ran = daemon.run(&["cancel", "long", "none", "7"]).with_code(1);
    assert_eq!(ran.out, "cancelled long\ncancelled 7\n");
    assert!(
        ran.err.starts_with("error: task none: not-found (-112): ") && ran.err.lines().count() == 1,
        "{ran:?}"
    );
    let ran = daemon.run(&["cancel", "7", "--json"]).with_code(1);
    assert_eq!(ran.json()[0]["error"], "already-ended", "{ran:?}");
    let ran = daemon.run(&["get", "7", "--json"]).with_code(1);
    assert_eq!(ran.json()[0]["error"], "cancelled", "{ran:?}");
}

#[test]
fn tasks_are_listed_the_newest_first() {
    let daemon = Daemon::start("");
    let nothing = daemon.run(&["ls"]).with_code(0);
    assert_eq!((&*nothing.out, &*nothing.err), ("", "note: there is no such task\n"));
    daemon.run(&["submit", LONG]).quietly();
    daemon.run(&["submit", LATER]).quietly();
    daemon.run_until(&["get", "long"], |ran| ran.out.contains("running"));
    let table = daemon.run(&["ls"]).quietly();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["task", "handler", "stage", "attempts", "progress", "age", "ran", "error"]);
    assert_eq!(rows[2][..3], ["7", "echo", "delayed"], "{table}");
    assert_eq!(rows[3][..3], ["long", "sleep", "running"], "{table}");
    let ids = |arguments: &[&str]| {
        let tasks = daemon.run(&[&["ls", "--json"], arguments].concat()).json();
        tasks.iter().map(|task| task["task_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [json!(7), json!("long")]);
    assert_eq!(ids(&["--stage", "running"]), [json!("long")]);
    assert_eq!(ids(&["--handler", "echo"]), [json!(7)]);
    assert_eq!(ids(&["--max", "1"]), [json!(7)]);
    let many: String = (0..50).map(|_| "{\"handler\": \"echo\", \"delay_ms\": 600000}\n").collect();
    daemon.folder().run_with(&["submit", "-"], &many).with_code(0);
    let ran = daemon.run(&["ls"]).with_code(0);
    assert_eq!(
        (ran.out.lines().count(), &*ran.err),
        (52, "note: these are the newest 50; --max shows more\n")
    );
    assert_eq!(daemon.run(&["ls", "--max", "100"]).quietly().lines().count(), 54);
    let ran = daemon.run(&["ls", "--stage", "runing"]).with_code(2);
    assert!(ran.err.contains("a similar value exists: 'running'"), "{ran:?}");
}

#[test]
fn figures_add_up() {
    let daemon = Daemon::start("");
    for request in [r#"{"handler": "echo"}"#, r#"{"handler": "echo"}"#, r#"{"handler": "file_read"}"#] {
        let ran = daemon.run(&["submit", request, "--wait"]);
        assert!(ran.code == Some(0) || ran.code == Some(1), "{ran:?}");
    }
    let stats = &daemon.run(&["stats", "--json"]).json()[0];
    assert_eq!((&stats["accepted"], &stats["succeeded"]), (&json!(3), &json!(2)), "{stats}");
    let page = daemon.run(&["stats"]).quietly();
    assert!(page.starts_with(&format!("millpond {}, pid ", env!("CARGO_PKG_VERSION"))), "{page}");
    assert!(page.contains("accepted   3, 2 done, 1 failed: 1 "), "{page}");
    for part in ["\nWorkers (shared)\n", "\nHandlers\n", "\necho "] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    assert!(!page.contains("http_get"), "who was never called is left out: {page}");
    assert!(!page.contains("Programs"), "there is none: {page}");
    assert!(page.contains("\nclients    1 of 256\n"), "it is us: {page}");
}

#[test]
fn figures_tell_of_programs_that_crash() {
    let settings =
        "[handler.bad]\ncommand = ['sh', '-c', 'read line; exit 3']\nrestart_backoff_min = '1ms'\n";
    let daemon = Daemon::start(settings);
    let ran = daemon.run(&["submit", r#"{"handler": "bad"}"#, "--wait"]).with_code(1);
    assert!(ran.err.starts_with("error: task t1: handler-crashed (-5): "), "{ran:?}");
    let page = daemon.run(&["stats"]).quietly();
    let (_, programs) = page.split_once("\nPrograms\n").unwrap_or_else(|| panic!("{page}"));
    let row: Vec<_> = programs.lines().nth(2).unwrap_or_default().split_whitespace().collect();
    assert_eq!((row[0], row[2], row[3], row[6]), ("bad", "of", "1", "1"), "one crash: {page}");
}

#[test]
fn a_bench_counts_every_task_it_sent() {
    let daemon = Daemon::start("");
    let line = ["bench", "--tasks", "3000", "--connections", "3", "--in-flight", "20", "--json"];
    let measured = &daemon.run(&line).with_code(0).json()[0];
    assert_eq!((&measured["tasks"], &measured["failed"]), (&json!(3000), &json!({})), "{measured}");
    let times: Vec<_> =
        ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| measured[name].as_u64()).to_vec();
    assert!(times.is_sorted() && times[0] > Some(0), "{measured}");
    assert_eq!(daemon.run(&["stats", "--json"]).json()[0]["succeeded"], 3000);
    let ran = daemon.run(&["bench", "--tasks", "10", "--handler", "nosuch"]).with_code(1);
    assert!(ran.out.ends_with("\n10 failed: unknown-handler\n"), "{ran:?}");
    let ran = daemon.run(&["bench", "--seconds", "0.05"]).with_code(0);
    assert!(ran.out.contains("tasks of echo in ") && ran.out.contains("\n  rate  "), "{ran:?}");
    let ran = daemon.run(&["bench", "--args", "[1]"]).with_code(2);
    assert!(ran.err.contains("expected a JSON object"), "{ran:?}");
}

#[test]
fn a_bench_waits_for_a_full_daemon_too() {
    let daemon = Daemon::start("tasks_max = 2\n");
    let measured =
        &daemon.run(&["bench", "--tasks", "200", "--in-flight", "10", "--json"]).with_code(0).json()[0];
    assert_eq!((&measured["tasks"], &measured["failed"]), (&json!(200), &json!({})), "{measured}");
}
