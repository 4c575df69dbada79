//! A cancelled request lets go of its server at once, wherever it stands.
//!
//! The server notices that its client is gone, which is the only proof that the socket was closed and not
//! merely forgotten until its time was over.

use super::http::settings;
use super::server::{Answer, Server, write};
use super::{Daemon, PATIENCE, outcome};
use millpond_tasks::config::BuiltinSettings;
use serde_json::json;
use std::io::Read as _;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// A path that sends `text`, and tells when it has and when its client is gone.
fn until_gone(text: &'static str) -> (Answer, mpsc::Receiver<&'static str>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let answer: Answer = Box::new(move |_, stream| {
        write(stream, text);
        tell.lock().unwrap().send("begun").unwrap();
        while stream.read(&mut [0]).is_ok_and(|count| count > 0) {}
        tell.lock().unwrap().send("gone").unwrap();
    });
    (answer, told)
}

#[test]
fn a_cancelled_request_closes_its_socket() {
    for (text, stream) in [
        ("", false),
        ("HTTP/1.1 200 OK\r\n", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", false),
        ("HTTP/1.1 200 OK\r\n\r\nno length", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", true),
    ] {
        let (answer, told) = until_gone(text);
        let server = Server::start(vec![("/", answer)]);
        // Nothing but the cancel can end it while the test lasts.
        let hour = Duration::from_secs(3600);
        let settings = BuiltinSettings { http_timeout: hour, ..settings(&[server.address.to_string()]) };
        let daemon = Daemon::new(&settings);
        let args = json!({ "url": server.url("/"), "stream": stream });
        let task = daemon.submit(&json!({ "handler": "http_get", "args": args }));
        assert_eq!(told.recv_timeout(PATIENCE), Ok("begun"));
        daemon.service.handle().cancel(task.id()).unwrap();
        assert_eq!(outcome(&task)["error"], "cancelled", "{text:?}");
        assert_eq!(told.recv_timeout(PATIENCE), Ok("gone"), "{text:?}");
    }
}

#[test]
fn the_time_limit_of_the_task_closes_the_socket_too() {
    let (answer, told) = until_gone("");
    let server = Server::start(vec![("/", answer)]);
    let hour = Duration::from_secs(3600);
    let settings = BuiltinSettings { http_timeout: hour, ..settings(&[server.address.to_string()]) };
    let daemon = Daemon::new(&settings);
    let args = json!({ "url": server.url("/") });
    // On a busy machine the time may be over before the server is asked.
    for timeout_ms in (1..).map(|round| 50 * round) {
        let task = daemon.submit(&json!({ "handler": "http_get", "args": args, "timeout_ms": timeout_ms }));
        assert_eq!(outcome(&task)["status"], -6);
        if told.try_recv().is_ok() {
            break;
        }
    }
    while told.recv_timeout(PATIENCE).expect("the server notices") != "gone" {}
}

#[test]
fn a_request_that_waits_leaves_the_worker_to_others() {
    let (answer, told) = until_gone("");
    let server = Server::start(vec![("/", answer)]);
    let daemon = Daemon::new(&settings(&[server.address.to_string()]));
    let task = daemon.submit(&json!({ "handler": "http_get", "args": { "url": server.url("/") } }));
    assert_eq!(told.recv_timeout(PATIENCE), Ok("begun"));
    assert_eq!(daemon.run("echo", json!({ "n": 1 })), json!({ "n": 1 }), "with one worker");
    daemon.service.handle().cancel(task.id()).unwrap();
}
