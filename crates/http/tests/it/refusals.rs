//! What is wrong with a request is said with the right status, a code and words; and the door goes on.
//!
//! Strangers send everything, so every kind of mistake is sent here once.

use crate::http::Answer;
use crate::start::{Daemon, ECHO, HOLD, JSON, until};
use serde_json::json;

fn refusal(answer: &Answer, status: u16, code: &str, words: &str) {
    assert_eq!(answer.refusal(), (status, code.to_owned()), "{}", answer.text());
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(words), "{detail:?} should contain {words:?}");
}

#[test]
fn an_unknown_address_is_told_the_nearest_one() {
    let daemon = Daemon::start();
    refusal(&daemon.get("/v1/task"), 404, "route-not-found", "did you mean /v1/tasks?");
    refusal(&daemon.get("/nothing/like/this/at/all"), 404, "route-not-found", "nothing is at");
    refusal(&daemon.get(&format!("/{}", "x".repeat(8000))), 404, "route-not-found", "nothing is at");
    refusal(&daemon.get("/v1/tasks/"), 404, "route-not-found", "did you mean");
}

#[test]
fn an_unknown_method_is_told_the_known_ones() {
    let daemon = Daemon::start();
    for (line, allowed) in [
        ("PUT /v1/tasks", "POST, GET, HEAD, OPTIONS"),
        ("GET /v1/exec", "POST, OPTIONS"),
        ("BREW /healthz", "GET, HEAD, OPTIONS"),
        ("PATCH /v1/tasks/t1", "GET, DELETE, HEAD, OPTIONS"),
    ] {
        let answer = daemon.ask(line, &[], None);
        refusal(&answer, 405, "method-not-allowed", "expected one of");
        assert_eq!(answer.header("allow"), Some(allowed));
    }
    let options = daemon.ask("OPTIONS /v1/tasks", &[], None);
    assert_eq!((options.status, options.header("allow")), (204, Some("POST, GET, HEAD, OPTIONS")));
}

#[test]
fn head_is_get_without_a_body() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    for (path, status) in [("/healthz", 200), ("/v1/nothing", 404), ("/v1/tasks", 200)] {
        connection.ask(&format!("HEAD {path}"), &[], None);
        let head = connection.head();
        assert_eq!(head.status, status);
        assert!(head.header("content-length").unwrap().parse::<usize>().unwrap() > 0, "{path}");
    }
    // Had there been a body, it would be read here as an answer.
    connection.ask("GET /healthz", &[], None);
    assert_eq!(connection.answer().json(), json!({ "status": "ok" }));
}

#[test]
fn json_that_is_none_is_refused_with_its_place() {
    let daemon = Daemon::start();
    for path in ["/v1/tasks", "/v1/exec"] {
        let answer = daemon.post(path, "{\"handler\": \"echo\",\n \"args\": }");
        refusal(&answer, 400, "invalid-request", "expected a JSON value");
        let problem = answer.problem();
        assert_eq!(
            (&problem["line"], &problem["column"], &problem["number"]),
            (&json!(2), &json!(10), &json!(-2))
        );
        refusal(&daemon.post(path, ""), 400, "invalid-request", "expected a JSON object, got nothing");
        refusal(
            &daemon.post(path, r#"{"handler":"echo","prioity":1}"#),
            400,
            "invalid-request",
            "did you mean",
        );
        refusal(&daemon.post(path, r#"{"handler":"ehco"}"#), 422, "unknown-handler", "did you mean echo?");
        let deep = format!(r#"{{"handler":"echo","args":{}1{}}}"#, r#"{"a":"#.repeat(40), "}".repeat(40));
        refusal(&daemon.post(path, &deep), 413, "too-large", "");
    }
    let stats = daemon.service.handle().stats();
    assert_eq!(stats.refused["invalid-request"], 6, "each refusal is counted once");
    let named = daemon.post("/v1/tasks", r#"{"task_id":"mine","handler":7}"#);
    assert_eq!(named.problem()["task_id"], "mine", "whoever waits for that id hears of it");
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let daemon = Daemon::with(|web, _| web.body_bytes_max = 100);
    let mut connection = daemon.connect();
    connection.ask("POST /v1/tasks", &[JSON, "Content-Length: 101"], None);
    let answer = connection.answer();
    refusal(&answer, 413, "body-too-large", "at most 100 bytes, got 101");
    assert_eq!(answer.header("connection"), Some("close"));
    // One that does not say how long it is, is refused when it is too long.
    let mut connection = daemon.connect();
    connection.ask("POST /v1/tasks", &[JSON, "Transfer-Encoding: chunked"], None);
    connection.send(format!("60\r\n{}\r\n", "x".repeat(0x60)));
    connection.send(format!("60\r\n{}\r\n", "x".repeat(0x60)));
    let answer = connection.answer();
    refusal(&answer, 413, "body-too-large", "at most 100 bytes, got more");
    assert_eq!(answer.header("connection"), Some("close"));
    let padded = format!("{ECHO}{}", " ".repeat(100 - ECHO.len()));
    assert_eq!(daemon.post("/v1/tasks", &padded).status, 202, "exactly the limit is allowed");
}

#[test]
fn a_body_in_pieces_is_as_good_as_one_in_one_piece() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    connection.ask("POST /v1/exec", &[JSON, "Transfer-Encoding: chunked"], None);
    for byte in ECHO.bytes() {
        connection.send([b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    connection.send("0\r\n\r\n");
    let answer = connection.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, None));
    connection.ask("POST /v1/exec", &[JSON], Some(ECHO));
    assert_eq!(connection.answer().status, 200, "the connection is still of use");
}

#[test]
fn a_body_is_asked_for_only_once_its_head_is_good() {
    let daemon = Daemon::start();
    let length = format!("Content-Length: {}", ECHO.len());
    let mut connection = daemon.connect();
    connection.ask("POST /v1/exec", &[JSON, "Expect: 100-continue", &length], None);
    assert_eq!(connection.head().status, 100);
    connection.send(ECHO);
    assert_eq!(connection.answer().status, 200);
    let mut connection = daemon.connect();
    connection.ask("POST /v1/exec", &["Content-Type: text/plain", "Expect: 100-continue", &length], None);
    let answer = connection.head();
    assert_eq!((answer.status, answer.header("connection")), (415, Some("close")));
}

#[test]
fn all_bodies_together_have_a_limit() {
    let daemon = Daemon::with(|web, _| web.bodies_bytes_max = 64 << 10);
    let length = 40 << 10;
    let mut first = daemon.connect();
    first.ask("POST /v1/tasks", &[JSON, &format!("Content-Length: {length}")], None);
    let body = format!("{ECHO}{}", " ".repeat(length - ECHO.len()));
    first.send(&body[1..]);
    let refused = || daemon.post("/v1/tasks", &body).status == 503;
    until("the first body is counted", refused);
    let answer = daemon.post("/v1/tasks", &body);
    refusal(&answer, 503, "bodies-full", "web.bodies_bytes_max");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(daemon.post("/v1/tasks", ECHO).status, 202, "a small one has room");
    first.send(" ");
    assert_eq!(first.answer().status, 400, "what was sent is complete now, though it is no request");
    until("the room comes back", || !refused());
    // Who promises a lot and sends nothing keeps out nobody.
    let mut liars: Vec<_> = (0..10).map(|_| daemon.connect()).collect();
    for liar in &mut liars {
        liar.ask("POST /v1/tasks", &[JSON, &format!("Content-Length: {length}")], None);
    }
    assert_eq!(daemon.post("/v1/tasks", &body).status, 202);
}

#[test]
fn a_body_that_takes_too_long_is_given_up() {
    let daemon = Daemon::with(|web, _| web.body_timeout = std::time::Duration::from_millis(20));
    let mut connection = daemon.connect();
    connection.ask("POST /v1/tasks", &[JSON, "Content-Length: 100"], None);
    connection.send("{");
    let answer = connection.answer();
    refusal(&answer, 408, "body-timeout", "web.body_timeout");
    assert_eq!(answer.header("connection"), Some("close"));
}

#[test]
fn a_body_of_another_kind_is_refused() {
    let daemon = Daemon::start();
    for (path, header) in [
        ("/v1/tasks", "Content-Type: text/plain"),
        ("/v1/exec", "Content-Type: application/x-www-form-urlencoded"),
        ("/v1/batch", "Accept: */*"),
        ("/v1/bulk", "Content-Type: application/json"),
    ] {
        let answer = daemon.ask(&format!("POST {path}"), &[header], Some(ECHO));
        refusal(&answer, 415, "unsupported-media-type", "content-type: expected application/");
    }
    let packed = daemon.ask("POST /v1/exec", &[JSON, "Content-Encoding: gzip"], Some(ECHO));
    refusal(&packed, 415, "unsupported-media-type", "content-encoding: expected none, got \"gzip\"");
    let answer = daemon.ask("POST /v1/exec", &["Content-Type: Application/JSON; charset=utf-8"], Some(ECHO));
    assert_eq!(answer.status, 200);
}

#[test]
fn a_query_that_is_wrong_is_refused() {
    let daemon = Daemon::start();
    daemon.submit(ECHO);
    for (path, words) in [
        ("/v1/tasks?stge=queued", "unknown parameter \"stge\"; known are stage, handler"),
        ("/v1/tasks?limit=0", "limit: expected a whole number from 1 to 1000, got \"0\""),
        ("/v1/tasks?limit=1&limit=2", "limit: expected it once"),
        ("/v1/tasks?stage=done", "stage: expected one of delayed, queued"),
        ("/v1/tasks?error=none", "error: expected a name"),
        ("/v1/tasks?cursor=x", "cursor: expected the next"),
        ("/v1/tasks?q=%ff", "expected UTF-8"),
        ("/v1/tasks/t1?wait=soon", "wait: expected a time like 5s"),
        ("/v1/tasks/t1/events?from=-1", "from: expected a whole number"),
        ("/v1/events?interval=often", "interval: expected a time"),
        ("/healthz?x", "unknown parameter \"x\"; this address takes none"),
    ] {
        refusal(&daemon.get(path), 400, "bad-query", words);
    }
    assert_eq!(daemon.get("/v1/tasks?&").status, 200);
}

#[test]
fn a_header_that_is_wrong_is_refused() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let events = format!("GET {location}/events");
    for id in ["x", "-1", "+1", "1.0", "99999999999999999999"] {
        let answer = daemon.ask(&events, &[&format!("Last-Event-ID: {id}")], None);
        refusal(&answer, 400, "bad-header", "last-event-id: expected the number of an event");
    }
    let twice = daemon.ask(&events, &["Last-Event-ID: 1", "Last-Event-ID: 2"], None);
    refusal(&twice, 400, "bad-header", "expected it once");
    refusal(&daemon.ask(&events, &["Accept: text/html"], None), 406, "not-acceptable", "text/event-stream");
    daemon.end();
}

#[test]
fn an_id_of_a_request_comes_back_and_another_is_made_if_it_is_not_fit() {
    let daemon = Daemon::start();
    let answer = daemon.ask("GET /v1/nothing", &["X-Request-Id: my-id"], None);
    assert_eq!(answer.problem()["request_id"], "my-id");
    let made = daemon.ask("GET /healthz", &["X-Request-Id: my id"], None);
    let other = daemon.get("/healthz");
    assert_eq!(made.header("x-request-id").unwrap().len(), 16);
    assert_ne!(made.header("x-request-id"), other.header("x-request-id"));
}

#[test]
fn a_body_where_none_is_expected_is_passed_over() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    connection.ask("GET /healthz", &[], Some("what is this?"));
    assert_eq!(connection.answer().status, 200);
    connection.ask("GET /healthz", &[], None);
    assert_eq!(connection.answer().status, 200, "it was not taken for the next request");
    connection.ask("GET /healthz", &["Content-Length: 1000000000"], None);
    connection.send("x".repeat(100_000));
    assert_eq!(connection.answer().header("connection"), Some("close"), "so much is not passed over");
}

#[test]
fn answers_that_nobody_reads_have_a_limit_together() {
    let daemon = Daemon::with(|web, _| web.answers_bytes_max = 3 << 20);
    let text = "x".repeat(200_000);
    let task = daemon.submit(&format!(r#"{{"handler":"echo","args":{{"x":"{text}"}}}}"#));
    until("it ends", || daemon.get(&task).status == 200 && daemon.get(&task).json()["stage"] == "ended");
    // Each takes about 400 kB of the 3 MiB, most of which lies with the daemon while nobody reads.
    let deaf: Vec<_> = (0..40)
        .map(|_| {
            let mut connection = daemon.connect();
            connection.send(format!("GET {task} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(30));
            connection
        })
        .collect();
    until("there is no room", || daemon.get(&task).status == 503);
    refusal(&daemon.get(&task), 503, "answers-full", "web.answers_bytes_max");
    assert_eq!(daemon.get("/v1/tasks").status, 200, "small answers are not held up");
    drop(deaf);
    until("there is room again", || daemon.get(&task).status == 200);
}
