//! The commands over a real NATS server: what goes into a queue comes out of it once, and whoever is refused or in the
//! wrong place learns what to do.
//!
//! Each test has a server and a daemon of its own. Commands run in the daemon's folder and so find the server in its
//! configuration; `--queue` says that they mean it.
//!
//! Not here: several daemons, and what happens when something dies (`cluster.rs`); messages of the server that
//! cannot be brought about from outside (`crates/nats`).

mod letters;
mod places;
#[path = "../../../nats/tests/server/mod.rs"]
mod server;

use crate::daemon::{Daemon, Ran, TALKER};
use serde_json::{Value, json};
use server::NatsServer;
use std::collections::BTreeSet;
use std::process::Stdio;

const HELLO: &str = r#"{"handler": "echo", "args": {"hello": "world"}}"#;
const LONG: &str = r#"{"task_id": "long", "handler": "sleep", "args": {"ms": 600000}}"#;

/// A handler in shell that fails until its file is there.
const MOODY: &str = r#"
[handler.moody]
command = ["sh", "-c", '''
while read -r line; do
    if test -e mended; then echo '{"result":"fine"}'; else echo '{"error":"not today"}'; fi
done
''']
"#;

/// A server, and a daemon that works on its queue `jobs`.
struct Ground {
    server: NatsServer,
    daemon: Daemon,
}

impl Ground {
    /// With more settings of the daemon: first of `[nats]`, then others.
    fn new(of_nats: &str, others: &str) -> Self {
        let server = NatsServer::start();
        let url = server.url();
        let nats =
            format!("[nats]\nurl = '{url}'\nqueue = 'jobs'\nlease = '2s'\npresence = '1s'\n{of_nats}\n");
        let retry = "[retry]\nbackoff_min = '1ms'\nbackoff_max = '2ms'\n";
        Self { daemon: Daemon::start(&format!("{nats}{retry}{others}")), server }
    }

    fn submit(&self, request: &str, flags: &[&str]) -> Ran {
        self.daemon.run(&[&["submit", "--queue", "jobs", request], flags].concat())
    }

    fn nats(&self, arguments: &[&str]) -> Ran {
        self.daemon.run(&[&["nats"], arguments].concat())
    }

    /// How the queue stands, once it stands so.
    fn status_when(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let ran = self
            .daemon
            .run_until(&["nats", "status", "--json"], |ran| ran.code == Some(0) && is_so(&ran.json()[0]));
        ran.json().remove(0)
    }
}

#[test]
fn a_task_goes_over_the_server_and_its_result_comes_back() {
    let ground = Ground::new("", "");
    assert_eq!(ground.submit(HELLO, &["--wait"]).quietly(), "{\"hello\": \"world\"}\n");
    let ran = ground.submit(HELLO, &["--wait", "--json"]);
    let outcome = &ran.json()[0];
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!(0), &json!({"hello": "world"})), "{ran:?}");
    let url = ground.server.url();
    let elsewhere = crate::daemon::Folder::new();
    let flags = ["--nats", url.as_str(), "--queue", "jobs"];
    let ran = elsewhere.run(&[&["submit", HELLO, "--wait"][..], &flags].concat());
    assert_eq!(ran.quietly(), "{\"hello\": \"world\"}\n", "also from where there is no configuration");
}

#[test]
fn without_waiting_the_id_is_printed_and_can_be_used() {
    let ground = Ground::new("", "");
    let id = ground.submit(HELLO, &[]).quietly();
    assert_eq!(ground.nats(&["get", id.trim(), "--wait"]).quietly(), "{\"hello\": \"world\"}\n");
    assert_eq!(
        ground.nats(&["get", id.trim()]).quietly(),
        "{\"hello\": \"world\"}\n",
        "also later, without waiting"
    );
    let accepted = ground.submit(r#"{"task_id": 17, "handler": "echo"}"#, &["--json"]).json();
    assert_eq!((&accepted[0]["task_id"], &accepted[0]["duplicate"]), (&json!(17), &json!(false)));
    assert_eq!(ground.nats(&["get", "17", "--wait", "--json"]).json()[0]["task_id"], 17);
}

#[test]
fn of_a_file_of_tasks_each_comes_back_once_and_a_bad_line_costs_itself_alone() {
    let ground = Ground::new("", "");
    let count = 3000;
    let lines: String = (0..count)
        .map(|n| format!("{{\"task_id\": {n}, \"handler\": \"echo\", \"args\": {{\"n\": {n}}}}}\n"))
        .collect();
    let arguments = ["submit", "--queue", "jobs", "-", "--wait", "--json"];
    let ran = ground.daemon.folder().run_with(&arguments, &format!("{lines}no\n")).with_code(1);
    let (good, bad): (Vec<_>, Vec<_>) = ran.json().into_iter().partition(|line| line["status"] == 0);
    let numbers: BTreeSet<u64> = good.iter().filter_map(|line| line["result"]["n"].as_u64()).collect();
    assert_eq!((good.len(), numbers.len()), (count, count));
    assert_eq!(
        (bad.len(), &bad[0]["error"], &bad[0]["line"]),
        (1, &json!("invalid-request"), &json!(count + 1))
    );
    assert!(ran.err.ends_with(": 3 000 done, 1 failed: 1 invalid-request\n"), "{}", ran.err);
    let status = ground.status_when(|status| status["messages"] == 0);
    // One entry more is what the daemons remember of the server.
    assert!(status["results"]["kept"].as_u64().unwrap() >= count as u64, "{status}");
}

#[test]
fn a_request_that_is_none_is_shown_with_the_place_before_anybody_has_it() {
    let ground = Ground::new("", "");
    let ran = ground.submit(r#"{"handler": "echo", "agrs": {}}"#, &["--wait"]).with_code(1);
    assert_eq!(
        ran.err,
        "error: invalid-request (-2): unknown field \"agrs\"; did you mean \"args\"? (column 21)\n  \
         1 | {\"handler\": \"echo\", \"agrs\": {}}\n    |                     ^\n"
    );
    assert_eq!(ground.status_when(|_| true)["messages"], 0);
}

#[test]
fn what_a_task_says_is_heard_while_it_runs_and_then_its_result() {
    let ground = Ground::new("", TALKER);
    let ran = ground.submit(r#"{"task_id": "t-1", "handler": "talk"}"#, &["--stream"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "1\n\"two\"\n\"end\"\n"), "{ran:?}");
    assert!(ran.err.contains("log: begin"), "{ran:?}");
    let said = ground.submit(r#"{"task_id": "t-2", "handler": "talk"}"#, &["--stream", "--json"]).json();
    assert_eq!(said.iter().filter(|line| line.get("partial").is_some()).count(), 2, "{said:?}");
    assert!(said.iter().all(|line| line["task_id"] == "t-2"), "{said:?}");
    assert_eq!(said.last().unwrap()["result"], "end", "{said:?}");
}

#[test]
fn a_failed_attempt_is_told_and_another_one_follows() {
    let ground = Ground::new("", MOODY);
    let ran =
        ground.submit(r#"{"task_id": "m", "handler": "moody", "retries": 2}"#, &["--wait"]).with_code(1);
    assert!(
        ran.err.contains("note: attempt 1 failed and another one follows: handler-error (-109): "),
        "{ran:?}"
    );
    assert!(ran.err.contains("error: task m: "), "{ran:?}");
    let got = ground.nats(&["get", "m", "--json"]).with_code(1).json();
    assert!(got[0]["status"].as_i64().is_some_and(|status| status < 0), "{got:?}");
}

#[test]
fn a_task_that_must_wait_is_held_by_the_queue_and_then_runs() {
    let ground = Ground::new("", "");
    let request = r#"{"task_id": "later", "handler": "echo", "delay_ms": 3000, "args": {"a": 1}}"#;
    ground.submit(request, &[]).quietly();
    let status = ground.status_when(|_| true);
    assert_eq!(status["messages"], 1, "{status}");
    assert_eq!(ground.nats(&["get", "later", "--wait"]).quietly(), "{\"a\": 1}\n");
}

#[test]
fn the_same_task_sent_twice_is_one_task() {
    let ground = Ground::new("", "");
    let request = r#"{"task_id": "twice", "handler": "echo", "args": {"a": 1}}"#;
    assert_eq!(ground.submit(request, &["--wait"]).quietly(), "{\"a\": 1}\n");
    let again = ground.submit(request, &["--wait"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "{\"a\": 1}\n"), "{again:?}");
    assert_eq!(again.err, "note: the queue had this task already\n");
    let by_key = r#"{"handler": "echo", "idempotency_key": "order 7"}"#;
    let ids: Vec<_> = (0..2).map(|_| ground.submit(by_key, &["--json"]).json().remove(0)).collect();
    assert_eq!((&ids[0]["task_id"], &ids[1]["task_id"]), (&json!("key-order 7"), &json!("key-order 7")));
    assert_eq!((&ids[0]["duplicate"], &ids[1]["duplicate"]), (&json!(false), &json!(true)));
}

#[test]
fn a_task_that_runs_and_one_that_waits_are_cancelled_from_anywhere() {
    let ground = Ground::new("", "");
    ground.submit(LONG, &[]).quietly();
    ground.status_when(|status| status["daemons"][0]["in_flight"] == 1);
    let delayed = r#"{"task_id": "waits", "handler": "echo", "delay_ms": 3600000}"#;
    ground.submit(delayed, &[]).quietly();
    assert_eq!(ground.nats(&["cancel", "long", "waits"]).quietly(), "cancelled long\ncancelled waits\n");
    let ran = ground.nats(&["get", "long", "--wait"]).with_code(1);
    assert!(ran.err.starts_with("error: task long: cancelled (-101)"), "{ran:?}");
    ground.status_when(|status| status["daemons"][0]["in_flight"] == 0);
    let ran = ground.nats(&["cancel", "long"]).with_code(1);
    assert!(
        ran.err.starts_with("error: task long: already-ended (-113): it has ended and is cancelled; "),
        "{ran:?}"
    );
    let told = ground.nats(&["cancel", "waits", "--json"]).with_code(1).json();
    assert_eq!(told[0]["error"], "already-ended");
}

#[test]
fn an_id_that_is_used_again_has_its_own_result_and_can_be_cancelled() {
    let ground = Ground::new("", "");
    // Another key is another message for the server, within the window too.
    let request =
        |key: u32, rest: &str| format!(r#"{{"task_id": "again", "idempotency_key": "{key}", {rest}}}"#);
    for n in [1, 2] {
        let ran =
            ground.submit(&request(n, &format!(r#""handler": "echo", "args": {{"n": {n}}}"#)), &["--wait"]);
        assert_eq!(ran.quietly(), format!("{{\"n\": {n}}}\n"));
    }
    let long = request(3, r#""handler": "sleep", "args": {"ms": 600000}"#);
    let mut waiting = ground.daemon.folder().millpond(&["submit", "--queue", "jobs", &long, "--wait"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ground.status_when(|status| status["daemons"][0]["in_flight"] == 1);
    let ran = ground.nats(&["cancel", "again"]).with_code(1);
    assert!(
        ran.err.ends_with("it has ended and is done; one of the same id that came since is cancelled\n"),
        "{ran:?}"
    );
    let ran = Ran::from(waiting.wait_with_output().unwrap()).with_code(1);
    assert!(ran.err.starts_with("error: task again: cancelled (-101)"), "{ran:?}");
}

#[test]
fn whoever_waits_hears_that_somebody_else_cancelled() {
    let ground = Ground::new("", "");
    let mut waiting = ground.daemon.folder().millpond(&["submit", "--queue", "jobs", LONG, "--wait"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ground.status_when(|status| status["daemons"][0]["in_flight"] == 1);
    assert_eq!(ground.nats(&["cancel", "long"]).quietly(), "cancelled long\n");
    let ran = Ran::from(waiting.wait_with_output().unwrap()).with_code(1);
    assert!(ran.err.starts_with("error: task long: cancelled (-101)"), "{ran:?}");
}

#[test]
fn an_idempotency_key_of_another_task_is_told_and_not_waited_for() {
    let ground = Ground::new("", "");
    let request = |id: &str| format!(r#"{{"task_id": "{id}", "idempotency_key": "k", "handler": "echo"}}"#);
    assert_eq!(ground.submit(&request("one"), &["--wait"]).quietly(), "{}\n");
    let same = ground.submit(&request("one"), &["--wait"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "{}\n"), "{same:?}");
    let other = ground.submit(&request("two"), &["--wait"]).with_code(1);
    assert!(other.err.starts_with("error: task two: key-reused (-114): idempotency_key: "), "{other:?}");
}

#[test]
fn whoever_waits_no_longer_learns_how_to_go_on() {
    let ground = Ground::new("", "");
    let ran = ground.submit(LONG, &["--wait", "--timeout", "3s"]).with_code(5);
    assert!(ran.err.contains("task long goes on: \"millpond nats get long --wait --queue jobs\""), "{ran:?}");
    let ran = ground.nats(&["get", "long", "--wait", "--timeout", "100ms"]).with_code(5);
    assert!(ran.err.contains("the time to wait is over"), "{ran:?}");
    let ran = ground.nats(&["get", "long"]).with_code(1);
    assert!(
        ran.err.starts_with("error: task long: not-found (-112): queue jobs has no result of it"),
        "{ran:?}"
    );
}

#[test]
fn whoever_waits_hears_of_the_end_also_over_a_restart_of_the_server() {
    let mut ground = Ground::new("", "");
    let request = r#"{"task_id": "over", "handler": "sleep", "args": {"ms": 4000}}"#;
    let mut waiting = ground.daemon.folder().millpond(&["submit", "--queue", "jobs", request, "--wait"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ground.status_when(|status| status["daemons"][0]["in_flight"] == 1);
    ground.server.stop();
    ground.server.start_again();
    let ran = Ran::from(waiting.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"ms\":4000}\n"), "{ran:?}");
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let mut ground = Ground::new("messages_max = 5", "");
    ground.daemon.terminate();
    assert_eq!(ground.daemon.ended(), Some(0));
    let lines: String = (0..8).map(|n| format!("{{\"task_id\": {n}, \"handler\": \"echo\"}}\n")).collect();
    let arguments = ["submit", "--queue", "jobs", "-", "--no-retry", "--json"];
    let ran = ground.daemon.folder().run_with(&arguments, &lines).with_code(4);
    let refused: Vec<_> = ran.json().into_iter().filter(|line| line["error"] == "queue-full").collect();
    assert_eq!(refused.len(), 3, "{ran:?}");
    assert!(refused[0]["message"].as_str().unwrap().contains("raise nats.messages_max"), "{ran:?}");
    let ran = ground.submit(r#"{"handler": "echo"}"#, &["--timeout", "3s"]).with_code(4);
    assert!(ran.err.contains("note: task ") && ran.err.contains("waiting for room"), "{ran:?}");
    assert!(ran.err.contains("the queue is still full, and 1 task was not taken"), "{ran:?}");
}

#[test]
fn the_status_shows_lanes_and_daemons_to_people_and_programs() {
    let ground = Ground::new("name = 'here'", "");
    ground.submit(LONG, &[]).quietly();
    let status = ground.status_when(|status| status["daemons"][0]["in_flight"] == 1);
    assert_eq!((&status["queue"], &status["messages"]), (&json!("jobs"), &json!(1)), "{status}");
    let daemon = &status["daemons"][0];
    assert_eq!((&daemon["name"], &daemon["workers"]), (&json!("here"), &json!(2)), "{status}");
    assert!(daemon["handlers"].as_array().unwrap().contains(&json!("echo")), "{status}");
    let lanes: Vec<_> = status["lanes"].as_array().unwrap().iter().map(|lane| &lane["lane"]).collect();
    assert_eq!(lanes, ["high", "normal", "low", "later"]);
    let page = ground.nats(&["status"]).quietly();
    let normal = page.lines().find(|line| line.starts_with("normal")).unwrap();
    assert_eq!(normal.split_whitespace().nth(2), Some("1"), "held by a daemon: {page}");
    assert!(page.contains("here") && page.contains(&ground.server.url()), "{page}");
}

/// The example as its page says to run it, but with a server and a port of the test's own.
#[test]
fn the_example_asks_without_any_library() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/nats");
    let settings = std::fs::read_to_string(examples.join("millpond.toml")).unwrap();
    let server = NatsServer::start();
    let port = server.port();
    let _daemon = Daemon::start(&settings.replace("4222", &port.to_string()));
    let ask = |arguments: &[&str], queue: &str| {
        let mut python = std::process::Command::new("python3");
        python.arg(examples.join("ask.py")).args(arguments);
        python.env("NATS", format!("127.0.0.1:{port}")).env("QUEUE", queue);
        Ran::from(python.output().unwrap())
    };
    assert_eq!(ask(&["one", "two three"], "demo").quietly(), "{\"words\": 3}\n");
    let ran = ask(&[], "nobodys").with_code(1);
    assert_eq!(ran.err, "nobody has opened the queue nobodys: start a daemon first\n");
}
