//! Many tasks at once: in a batch, which is read whole, and in a bulk, which is not.
//!
//! What matters is that each is answered, in order, and that a full daemon holds a bulk back.

use crate::http::Connection;
use crate::start::{Daemon, ECHO, HOLD, JSON, raw, until};
use serde_json::{Value, json};

const LINES: &str = "Content-Type: application/x-ndjson";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"))).collect()
}

fn bulk(daemon: &Daemon, query: &str, body: &str) -> Vec<Value> {
    let answer = daemon.ask(&format!("POST /v1/bulk{query}"), &[LINES], Some(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    lines(answer.text())
}

/// Sends one chunk.
fn send(connection: &mut Connection, text: &str) {
    connection.send(format!("{:x}\r\n{text}\r\n", text.len()));
}

fn next_line(connection: &mut Connection) -> Value {
    let chunk = connection.chunk().expect("there is more");
    serde_json::from_slice(&chunk).unwrap()
}

#[test]
fn each_of_a_batch_is_accepted_or_refused_for_itself() {
    let daemon = Daemon::start();
    let (first, second) = (r#"{"handler":"echo","task_id":1}"#, r#"{"handler":"none","task_id":2}"#);
    let batch = &format!("[{first}, {second}, 3, {first}]");
    let answer = daemon.post("/v1/batch", batch);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let tasks = answer.json()["tasks"].as_array().unwrap().clone();
    let statuses: Vec<_> = tasks.iter().map(|task| task["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses[..3], [202, 422, 400]);
    assert_eq!((&tasks[0]["task"]["task_id"], &tasks[1]["problem"]["task_id"]), (&json!(1), &json!(2)));
    assert_eq!(tasks[1]["problem"]["code"], "unknown-handler");
    assert_eq!(tasks[3]["problem"]["code"], "duplicate-id");
}

#[test]
fn a_batch_has_a_limit_and_must_be_an_array() {
    let daemon = Daemon::with(|web, _| web.batch_max = 2);
    for body in ["[]", "[{},{},{}]", "{}", "[{}", ""] {
        assert_eq!(daemon.post("/v1/batch", body).refusal(), (400, "invalid-request".to_owned()), "{body}");
    }
}

#[test]
fn every_line_of_a_bulk_is_answered_in_order() {
    let daemon = Daemon::start();
    let (plain, named) = (r#"{"handler":"echo"}"#, r#"{"handler":"echo","task_id":"mine"}"#);
    let body = &format!("{plain}\n\n{named}\nnonsense\n{{\"handler\":\"none\"}}");
    let answers = bulk(&daemon, "", body);
    assert_eq!(answers[0], json!({ "line": 1, "task_id": "t1" }));
    assert_eq!(answers[1], json!({ "line": 3, "task_id": "mine" }));
    assert_eq!(
        (&answers[2]["line"], &answers[2]["error"], &answers[2]["status"]),
        (&json!(4), &json!("invalid-request"), &json!(-2))
    );
    assert_eq!((&answers[3]["line"], &answers[3]["error"]), (&json!(5), &json!("unknown-handler")));
    assert_eq!(answers.len(), 4);
    assert_eq!(daemon.get("/v1/tasks/mine?wait=60s").json()["status"], 0, "its outcome is kept");
}

#[test]
fn a_bulk_that_waits_for_the_ends_tells_them_in_order() {
    let daemon = Daemon::start();
    let body: String =
        (0..3000).map(|number| format!("{{\"handler\":\"echo\",\"args\":{{\"n\":{number}}}}}\n")).collect();
    let answers = bulk(&daemon, "?until=ended", &(body + "nonsense\n"));
    assert_eq!(answers.len(), 3001);
    for (at, answer) in answers[..3000].iter().enumerate() {
        assert_eq!((&answer["line"], &answer["result"]["n"]), (&json!(at + 1), &json!(at)));
    }
    assert_eq!((&answers[3000]["line"], &answers[3000]["error"]), (&json!(3001), &json!("invalid-request")));
}

#[test]
fn a_bulk_is_answered_while_it_is_sent() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    connection.ask("POST /v1/bulk?until=ended", &[LINES, "Transfer-Encoding: chunked"], None);
    assert_eq!(connection.head().status, 200);
    for number in 0..3 {
        send(&mut connection, &format!("{{\"handler\":\"echo\",\"args\":{{\"n\":{number}}}}}\n"));
        assert_eq!(next_line(&mut connection)["result"]["n"], number, "the next line is sent after this");
    }
    connection.send("0\r\n\r\n");
    assert_eq!(connection.chunk(), None);
    connection.ask("GET /healthz", &[], None);
    assert_eq!(connection.answer().status, 200, "the connection is still of use");
}

#[test]
fn a_full_daemon_makes_a_bulk_wait_instead_of_refusing() {
    let daemon = Daemon::with(|_, service| service.tasks_max = 1);
    let mut connection = daemon.connect();
    connection.ask("POST /v1/bulk", &[LINES, "Transfer-Encoding: chunked"], None);
    assert_eq!(connection.head().status, 200);
    send(&mut connection, &format!("{HOLD}\n{{\"handler\":\"echo\",\"task_id\":\"second\"}}\n"));
    assert_eq!(next_line(&mut connection), json!({ "line": 1, "task_id": "t1" }));
    let call = daemon.call();
    until("the second has been tried", || {
        daemon.service.handle().stats().refused.get("queue-full").is_some_and(|count| *count > 0)
    });
    call.finish(Ok(raw(&json!(1))));
    assert_eq!(next_line(&mut connection), json!({ "line": 2, "task_id": "second" }));
    connection.send("0\r\n\r\n");
    assert_eq!(connection.chunk(), None);
}

#[test]
fn lines_of_a_bulk_are_limited_in_length_and_number() {
    let daemon = Daemon::with(|_, service| {
        service.request.request_bytes_max = 64;
        service.request.batch_lines_max = 3;
    });
    let body = format!(
        "{{\"task_id\":7,\"x\":\"{}\"}}\n{{\"handler\":\"echo\"}}\n{{}}\n{{}}\n{{}}\n",
        "x".repeat(100)
    );
    let answers = bulk(&daemon, "", &body);
    assert_eq!(
        (&answers[0]["line"], &answers[0]["error"], &answers[0]["task_id"]),
        (&json!(1), &json!("too-large"), &json!(7))
    );
    assert_eq!(answers[1], json!({ "line": 2, "task_id": "t1" }));
    assert_eq!((&answers[3]["line"], &answers[3]["error"]), (&json!(4), &json!("too-large")));
    assert_eq!(answers.len(), 4, "the rest was not read");
}

#[test]
fn a_bulk_that_breaks_off_says_so() {
    let daemon = Daemon::with(|web, _| web.body_timeout = std::time::Duration::from_millis(20));
    let mut connection = daemon.connect();
    connection.ask("POST /v1/bulk", &[LINES, "Transfer-Encoding: chunked"], None);
    assert_eq!(connection.head().status, 200);
    send(&mut connection, "{\"handler\":\"echo\"}\n{\"han");
    assert_eq!(next_line(&mut connection), json!({ "line": 1, "task_id": "t1" }));
    assert_eq!(next_line(&mut connection)["problem"]["code"], "body-timeout");
    assert_eq!(connection.chunk(), None);
}

#[test]
fn a_bulk_wants_to_know_what_to_wait_for() {
    let daemon = Daemon::start();
    let answer = daemon.ask("POST /v1/bulk?until=later", &[LINES], Some("{}"));
    assert_eq!(answer.refusal(), (400, "bad-query".to_owned()));
    let batch = daemon.ask("POST /v1/batch?until=ended", &[JSON], Some("[{}]"));
    assert_eq!(batch.refusal(), (400, "bad-query".to_owned()));
}

#[test]
fn a_bulk_that_waits_is_told_that_the_daemon_goes_and_loses_nothing() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    connection.ask("POST /v1/bulk?until=ended", &[LINES, "Transfer-Encoding: chunked"], None);
    assert_eq!(connection.head().status, 200);
    send(&mut connection, &format!("{HOLD}\nnonsense\n"));
    let call = daemon.call();
    let service = daemon.service.handle();
    until("the second line has been looked at", || !service.stats().refused.is_empty());
    let closing = std::thread::spawn(move || daemon.door.close(crate::http::SOON));
    let rest: Vec<u8> = std::iter::from_fn(|| connection.chunk()).flatten().collect();
    let answers = lines(std::str::from_utf8(&rest).unwrap());
    assert_eq!(answers[0], json!({ "line": 1, "task_id": "t1" }), "it goes on, and can be asked for");
    assert_eq!((&answers[1]["line"], &answers[1]["error"]), (&json!(2), &json!("invalid-request")));
    assert_eq!(answers.len(), 2);
    call.finish(Ok(raw(&json!("late"))));
    let task = service.get(&millpond_tasks::TaskId::Assigned(1)).expect("its outcome is kept");
    assert_eq!(task.wait(crate::http::SOON).unwrap().result().unwrap().get(), "\"late\"");
    closing.join().unwrap();
}

#[test]
fn a_bulk_that_waits_keeps_what_a_key_may_ask_for_again() {
    let daemon = Daemon::start();
    let line = r#"{"handler":"echo","args":{"n":1},"idempotency_key":"bulk-1"}"#;
    for _ in 0..2 {
        let answer =
            daemon.ask("POST /v1/bulk?until=ended", &["Content-Type: application/x-ndjson"], Some(line));
        assert!(answer.text().contains(r#""result":{"n":1}"#), "{}", answer.text());
    }
}

#[test]
fn a_bulk_that_waits_keeps_nothing_once_it_is_told() {
    let daemon = Daemon::start();
    let lines = format!("{ECHO}\n").repeat(100);
    let answer =
        daemon.ask("POST /v1/bulk?until=ended", &["Content-Type: application/x-ndjson"], Some(&lines));
    assert_eq!(answer.text().lines().count(), 100);
    until("nothing is kept", || daemon.service.handle().stats().results.kept == 0);
}
