//! `http_get` and `http_post` against a real server: what is sent, what is answered, and where it ends.
//!
//! A server may send anything, for any length of time. None of that may cost more than the task.

use super::server::{Answer, Server, page, says, write};
use super::{Daemon, error};
use millpond_tasks::Symbols;
use millpond_tasks::config::{AllowSettings, BuiltinSettings, StreamSettings};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

/// A service that may talk to these.
pub(super) fn daemon_for(hosts: &[String]) -> Daemon {
    Daemon::new(&settings(hosts))
}

pub(super) fn settings(hosts: &[String]) -> BuiltinSettings {
    let allow = AllowSettings { hosts: hosts.to_vec(), ..AllowSettings::default() };
    BuiltinSettings { allow, http_body_bytes_max: 1000, ..BuiltinSettings::default() }
}

fn served(answers: Vec<(&'static str, Answer)>) -> (Server, Daemon) {
    let server = Server::start(answers);
    let daemon = daemon_for(&[server.address.to_string()]);
    (server, daemon)
}

#[test]
fn an_answer_has_status_headers_and_body() {
    let (server, daemon) = served(vec![
        ("/", page("hé")),
        (
            "/teapot",
            says(
                "HTTP/1.1 418 I'm a teapot\r\nx: 1\r\nX: 2\r\nset-cookie: a=1, b\r\nset-cookie: \
                 c=2\r\n\r\nshort",
            ),
        ),
        ("/none", says("HTTP/1.1 204 No Content\r\n\r\n")),
    ]);
    assert_eq!(
        daemon.run("http_get", json!({ "url": server.url("/") })),
        json!({ "status": 200, "headers": { "content-length": "3", "content-type": "text/plain" },
            "body": "hé", "encoding": "utf8" })
    );
    assert_eq!(
        daemon.run("http_get", json!({ "url": server.url("/teapot") })),
        json!({ "status": 418, "headers": { "x": "1, 2", "set-cookie": "a=1, b\nc=2" }, "body": "short",
            "encoding": "utf8" }),
        "a status that is no success is an answer all the same"
    );
    let nothing = daemon.run("http_get", json!({ "url": server.url("/none") }));
    assert_eq!((&nothing["status"], &nothing["body"]), (&json!(204), &json!("")));
    assert_eq!(daemon.run("http_get", json!({ "url": server.url("/gone") }))["status"], 404);
}

#[test]
fn a_body_that_is_no_text_comes_in_base64() {
    let answer: Answer = Box::new(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\xFF\xFE\xFD").unwrap();
    });
    let (server, daemon) = served(vec![("/", answer)]);
    let result = daemon.run("http_get", json!({ "url": server.url("/") }));
    assert_eq!((&result["body"], &result["encoding"]), (&json!("//79"), &json!("base64")));
}

#[test]
fn what_is_sent_is_what_was_asked_for() {
    let (server, daemon) = served(vec![("/a", page("")), ("/b", page(""))]);
    daemon.run(
        "http_get",
        json!({ "url": server.url("/a?q=1#part"), "headers": { "X-Key": "k", "accept": "a/b" } }),
    );
    daemon.run("http_post", json!({ "url": server.url("/b"), "json": { "a": [1, "é"] } }));
    daemon.run(
        "http_post",
        json!({ "url": server.url("/b"), "body": "", "headers": { "content-type": "x/y" } }),
    );
    let [get, json, empty] = &server.asked()[..] else { panic!("{:?}", server.asked()) };
    assert_eq!(get.line, "GET /a?q=1 HTTP/1.1");
    assert_eq!(get.headers["host"], server.address.to_string());
    assert_eq!(get.headers["connection"], "close", "nobody asks twice over one connection");
    assert_eq!((&*get.headers["x-key"], &*get.headers["accept"]), ("k", "a/b"));
    assert!(get.headers["user-agent"].starts_with("millpond/"), "{get:?}");
    assert!(!get.headers.contains_key("content-length"), "{get:?}");
    assert_eq!((&*json.line, &*json.body), ("POST /b HTTP/1.1", r#"{"a":[1,"é"]}"#));
    assert_eq!(json.headers["content-type"], "application/json");
    assert_eq!((&*empty.headers["content-length"], &*empty.headers["content-type"]), ("0", "x/y"));
}

/// Sends its body in these chunks.
fn chunked(chunks: &'static [&'static [u8]]) -> Answer {
    Box::new(move |_, stream| {
        write(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for chunk in chunks {
            write(stream, &format!("{:x}\r\n", chunk.len()));
            let _ = stream.write_all(chunk);
            write(stream, "\r\n");
        }
        write(stream, "0\r\n\r\n");
    })
}

#[test]
fn a_chunked_body_comes_whole_or_as_a_stream() {
    // The second chunk ends inside a character.
    let (server, daemon) = served(vec![("/", chunked(&[b"one ", b"two \xE2", b"\x82\xAC three"]))]);
    assert_eq!(daemon.run("http_get", json!({ "url": server.url("/") }))["body"], "one two € three");
    let (partials, result) = daemon.stream("http_get", json!({ "url": server.url("/"), "stream": true }));
    let head = json!({ "status": 200, "headers": { "transfer-encoding": "chunked" } });
    assert_eq!(partials[0], head, "what is coming is told first");
    let text = |piece: &Value| {
        assert_eq!(piece["encoding"], "utf8");
        piece["body"].as_str().unwrap().to_owned()
    };
    assert_eq!(partials[1..].iter().map(text).collect::<String>(), "one two € three");
    assert_eq!(result, json!({ "status": 200, "headers": { "transfer-encoding": "chunked" }, "length": 17 }));
}

#[test]
fn a_stream_fits_into_the_partial_results_that_are_allowed() {
    let body = "\u{1}".repeat(900);
    let server = Server::start(vec![("/", page(&body))]);
    let stream = StreamSettings { chunk_bytes_max: 1024, ..StreamSettings::default() };
    let daemon = Daemon::with(&settings(&[server.address.to_string()]), Symbols::new(), stream);
    let (partials, result) = daemon.stream("http_get", json!({ "url": server.url("/"), "stream": true }));
    let text: String = partials[1..].iter().map(|piece| piece["body"].as_str().unwrap()).collect();
    assert_eq!((text, &result["length"]), (body, &json!(900)), "each of these letters takes six in JSON");
}

#[test]
fn headers_that_do_not_fit_into_the_stream_come_with_the_result() {
    let long = "y".repeat(2000);
    let server = Server::start(vec![("/", says(format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\nbody")))]);
    let stream = StreamSettings { chunk_bytes_max: 1024, ..StreamSettings::default() };
    let daemon = Daemon::with(&settings(&[server.address.to_string()]), Symbols::new(), stream);
    let (partials, result) = daemon.stream("http_get", json!({ "url": server.url("/"), "stream": true }));
    assert_eq!(partials, [json!({ "body": "body", "encoding": "utf8" })]);
    assert_eq!(result, json!({ "status": 200, "headers": { "x": long }, "length": 4 }));
}

#[test]
fn a_body_without_an_end_is_cut_at_the_limit() {
    let endless = |head: &'static str, more: &'static str| -> Answer {
        Box::new(move |_, stream| {
            write(stream, head);
            // Ends when the client has had enough and closes the socket.
            while stream.write_all(more.as_bytes()).is_ok() {}
        })
    };
    let (server, daemon) = served(vec![
        ("/plain", endless("HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
        ("/chunked", endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "3\r\nxxx\r\n")),
        ("/announced", says("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n")),
        ("/header", endless("HTTP/1.1 200 OK\r\n", "x-more: and more\r\n")),
    ]);
    for path in ["/plain", "/chunked", "/announced"] {
        for stream in [false, true] {
            let url = server.url(path);
            let message = format!(
                "args.url: \"{url}\": the body is longer, and at most 1000 are allowed; raise \
                 http.body_bytes_max"
            );
            let failed = daemon.fail("http_get", json!({ "url": url, "stream": stream }));
            assert_eq!(failed, error("too-large", message), "{path} {stream}");
        }
    }
    let (code, message) = daemon.fail("http_get", json!({ "url": server.url("/header") }));
    assert_eq!(code, "handler-error", "{message}");
}

#[test]
fn a_body_of_exactly_the_limit_is_taken() {
    let (server, daemon) = served(vec![("/", page(&"x".repeat(1000)))]);
    let body = daemon.run("http_get", json!({ "url": server.url("/") }))["body"].as_str().unwrap().len();
    assert_eq!(body, 1000);
}

#[test]
fn a_server_that_takes_too_long_costs_the_time_that_was_allowed() {
    let silent: Answer = Box::new(|_, stream| {
        // Waits for the client to give up.
        let _ = stream.read(&mut [0]);
    });
    let half: Answer = Box::new(|_, stream| {
        write(stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
        let _ = stream.read(&mut [0]);
    });
    let dripping: Answer = Box::new(|_, stream| {
        write(stream, "HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
            // The pace of a slow server; nobody waits for this.
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (server, daemon) = served(vec![("/silent", silent), ("/half", half), ("/dripping", dripping)]);
    for path in ["/silent", "/half", "/dripping"] {
        let url = server.url(path);
        let message = format!("args.url: \"{url}\": expected the whole answer within 50 ms");
        let failed = daemon.fail("http_get", json!({ "url": url, "timeout_ms": 50 }));
        assert_eq!(failed, error("timed-out", message), "{path}");
    }
}

#[test]
fn a_task_may_ask_for_less_time_than_the_configuration_allows_and_not_for_more() {
    let silent: Answer = Box::new(|_, stream| drop(stream.read(&mut [0])));
    let server = Server::start(vec![("/", silent)]);
    let settings = BuiltinSettings {
        http_timeout: Duration::from_millis(40),
        ..settings(&[server.address.to_string()])
    };
    let (code, message) =
        Daemon::new(&settings).fail("http_get", json!({ "url": server.url("/"), "timeout_ms": 60_000 }));
    assert_eq!(code, "timed-out");
    assert!(message.ends_with("expected the whole answer within 40 ms"), "{message}");
}

#[test]
fn a_server_that_breaks_off_or_speaks_nonsense_is_an_error_of_its_own() {
    let (server, daemon) = served(vec![
        ("/nothing", says("")),
        ("/nonsense", says("SSH-2.0-OpenSSH\r\n\r\n")),
        ("/half", says("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")),
        ("/chunk", says("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")),
        ("/both", says("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n")),
    ]);
    for path in ["/nothing", "/nonsense", "/half", "/chunk", "/both"] {
        let (code, message) = daemon.fail("http_get", json!({ "url": server.url(path) }));
        assert_eq!(code, "handler-error", "{path}: {message}");
        assert!(message.starts_with(&format!("args.url: \"{}\": ", server.url(path))), "{message}");
    }
}

#[test]
fn nobody_at_the_door_is_said_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let daemon = daemon_for(&[free.to_string(), "no-such-host.invalid".to_owned()]);
    let url = format!("http://{free}/");
    assert_eq!(
        daemon.fail("http_get", json!({ "url": url })),
        error("handler-error", format!("args.url: \"{url}\": connection refused"))
    );
    let (code, message) = daemon.fail("http_get", json!({ "url": "http://no-such-host.invalid/" }));
    assert_eq!(code, "handler-error");
    assert!(message.contains("the host no-such-host.invalid cannot be found"), "{message}");
}

#[test]
fn a_local_name_on_the_list_leads_to_this_machine_and_no_other_spelling_does() {
    let server = Server::start(vec![("/", page("home"))]);
    let port = server.address.port();
    let daemon = daemon_for(&[format!("localhost:{port}")]);
    let url = format!("http://localhost:{port}/");
    assert_eq!(daemon.run("http_get", json!({ "url": url }))["body"], "home");
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"] {
        let (code, message) = daemon.fail("http_get", json!({ "url": format!("http://{host}:{port}/") }));
        assert_eq!(code, "not-allowed", "{host}: {message}");
    }
    let (code, _) = daemon.fail("http_get", json!({ "url": "http://localhost/" }));
    assert_eq!(code, "not-allowed", "another port");
    assert_eq!(server.asked().len(), 1);
}
