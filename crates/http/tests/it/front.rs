//! The front holds: places, the line before them, refusals that can be read, and patience that ends.
//!
//! These are the promises people rely on when everybody comes at once. Nothing here is measured: a handler
//! ends when the test says so, and limits are set so that only the order of events matters.

use crate::http::{Connection, SOON};
use crate::start::{Daemon, ECHO, HOLD, JSON, raw, until};
use millpond_http::{HttpDoor, OpenError};
use millpond_tasks::config::WebSettings;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// So long that nothing in a test waits for it.
const LONG: Duration = Duration::from_secs(3600);

/// So many places, and so many who may wait.
fn narrow(places: usize, line: usize) -> Daemon {
    Daemon::with(|web, _| {
        web.in_flight_max = places;
        web.queue_capacity = line;
        web.queue_timeout = LONG;
        web.request_timeout = LONG;
    })
}

/// Somebody who asks for a task and waits for its end.
fn caller(daemon: &Daemon, body: &str) -> Connection {
    let mut connection = daemon.connect();
    connection.ask("POST /v1/exec", &[JSON], Some(body));
    connection
}

/// Waits until so many wait in the line.
fn wait_for_line(daemon: &Daemon, count: u64) {
    until("the line", || {
        daemon.get("/metrics").text().contains(&format!("millpond_connection_queue_depth {count}\n"))
    });
}

#[test]
fn places_then_the_line_then_a_refusal_that_says_when_to_come_again() {
    let daemon = narrow(1, 2);
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    let mut second = caller(&daemon, ECHO);
    let mut third = caller(&daemon, ECHO);
    wait_for_line(&daemon, 2);
    let refused = daemon.post("/v1/exec", ECHO);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(refused.json()["code"], "connection-queue-full");
    held.finish(Ok(raw(&json!(1))));
    for waiting in [&mut first, &mut second, &mut third] {
        assert_eq!(waiting.answer().status, 200, "whoever was let in is served");
    }
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 200, "the place is free again");
}

#[test]
fn a_request_on_an_open_connection_waits_in_the_same_line_and_is_refused_by_the_same_limit() {
    let daemon = narrow(1, 1);
    let mut open = daemon.connect();
    open.ask("POST /v1/exec", &[JSON], Some(ECHO));
    assert_eq!(open.answer().status, 200);
    let mut other = daemon.connect();
    other.ask("POST /v1/exec", &[JSON], Some(ECHO));
    assert_eq!(other.answer().status, 200);
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    open.ask("POST /v1/exec", &[JSON], Some(ECHO));
    wait_for_line(&daemon, 1);
    other.ask("POST /v1/exec", &[JSON], Some(ECHO));
    let refused = other.answer();
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert!(other.is_closed());
    held.finish(Ok(raw(&json!(1))));
    assert_eq!((first.answer().status, open.answer().status), (200, 200));
}

#[test]
fn whoever_waits_in_the_line_for_too_long_is_refused_although_no_place_is_given_back() {
    let daemon = Daemon::with(|web, _| {
        web.in_flight_max = 1;
        web.queue_timeout = Duration::from_millis(1);
        web.request_timeout = LONG;
    });
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    assert_eq!(caller(&daemon, ECHO).answer().status, 503);
    held.finish(Ok(raw(&json!(1))));
    assert_eq!(first.answer().status, 200, "whoever has the place keeps it");
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 200, "and it is free again");
}

#[test]
fn health_checks_are_answered_although_there_is_no_place() {
    let daemon = narrow(1, 1);
    let _first = caller(&daemon, HOLD);
    let _held = daemon.call();
    let _second = caller(&daemon, ECHO);
    wait_for_line(&daemon, 1);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(daemon.get(path).status, 200, "{path}");
    }
    assert_eq!(daemon.get("/v1/tasks").status, 503);
    let mut open = daemon.connect();
    for _ in 0..3 {
        open.ask("GET /healthz", &[], None);
        assert_eq!(open.answer().status, 200, "also on a connection that is kept open");
    }
}

#[test]
fn half_sent_heads_hold_no_place_and_are_ended_with_408() {
    let daemon = Daemon::with(|web, _| {
        web.in_flight_max = 1;
        web.queue_capacity = 1;
        web.head_timeout = Duration::from_secs(2);
    });
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut connection = daemon.connect();
        connection.send("GET /healthz HTT");
        slow.push(connection);
        // One that was accepted and not yet looked at may be in the way for a moment.
        until("an ordinary client is served", || daemon.get("/v1/handlers").status == 200);
    }
    for connection in &mut slow {
        assert_eq!(connection.answer().status, 408);
        assert!(connection.is_closed());
    }
}

#[test]
fn a_silent_connection_is_closed_and_a_connection_in_use_is_not() {
    let daemon = Daemon::with(|web, _| web.idle_timeout = Duration::from_millis(100));
    let mut silent = daemon.connect();
    let mut waiting = caller(&daemon, HOLD);
    let held = daemon.call();
    assert!(silent.is_closed());
    held.finish(Ok(raw(&json!(1))));
    assert_eq!(waiting.answer().status, 200, "it waited longer than the silent one");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let daemon = narrow(2, 10);
    let mut connection = daemon.connect();
    let request = |n: u32| {
        let body = format!(r#"{{"handler":"echo","args":{{"n":{n}}}}}"#);
        format!(
            "POST /v1/exec HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    connection.send((1..=10).map(request).collect::<String>());
    for n in 1..=10 {
        assert_eq!(connection.answer().json()["result"], json!({"n": n}));
    }
}

#[test]
fn a_refused_upload_can_read_why() {
    let daemon = narrow(1, 1);
    let _first = caller(&daemon, HOLD);
    let _held = daemon.call();
    let _second = caller(&daemon, ECHO);
    wait_for_line(&daemon, 1);
    let size = 2 << 20;
    let mut client = TcpStream::connect(daemon.address()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client.set_write_timeout(Some(SOON)).unwrap();
    let head = format!("POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&vec![b' '; size]).expect("the front reads it and throws it away");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("no reset");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn a_body_that_is_too_large_is_refused_so_that_the_client_can_read_it() {
    let daemon = Daemon::with(|web, _| web.body_bytes_max = 1000);
    let size = 4 << 20;
    let mut client = TcpStream::connect(daemon.address()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let head =
        format!("POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {size}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&vec![b' '; size]).expect("the front reads it and throws it away");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("no reset");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn the_longest_idle_makes_room_for_whoever_comes() {
    let daemon = Daemon::with(|web, _| web.connections_max = 3);
    let mut idle: Vec<_> = (0..3)
        .map(|_| {
            let mut connection = daemon.connect();
            connection.ask("GET /healthz", &[], None);
            assert_eq!(connection.answer().status, 200);
            connection
        })
        .collect();
    assert_eq!(daemon.get("/healthz").status, 200, "one had to go");
    assert!(idle[0].is_closed(), "the one that had been idle for longest");
}

#[test]
fn when_all_are_busy_one_too_many_is_refused() {
    let daemon = Daemon::with(|web, _| web.connections_max = 1);
    let mut busy = caller(&daemon, HOLD);
    let held = daemon.call();
    let refused = daemon.get("/healthz");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("too-many-connections")));
    held.finish(Ok(raw(&json!(1))));
    assert_eq!(busy.answer().status, 200);
}

#[test]
fn a_connection_ends_after_so_many_requests() {
    let daemon = Daemon::with(|web, _| web.requests_per_connection_max = 2);
    let mut connection = daemon.connect();
    connection.ask("GET /healthz", &[], None);
    assert_eq!(connection.answer().header("connection"), None);
    connection.ask("GET /healthz", &[], None);
    assert_eq!(connection.answer().header("connection"), Some("close"));
    assert!(connection.is_closed());
}

#[test]
fn what_is_no_http_is_answered_and_closed_and_the_door_lives() {
    let daemon = Daemon::with(|web, _| web.headers_max = 8);
    let many = "X: y\r\n".repeat(9);
    let cases = [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned() + "\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n".to_owned(), 400),
        (format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), 431),
    ];
    for (words, status) in cases {
        let mut connection = daemon.connect();
        connection.send(&words);
        let shown: String = words.chars().take(40).collect();
        let answer = connection.head().status;
        // A path that is too long may also be told so.
        assert!(answer == status || (status == 431 && answer == 414), "{shown:?}: {answer}");
        assert!(connection.is_closed(), "{shown:?}");
    }
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn an_answer_that_nobody_reads_ends_its_connection_and_no_other() {
    let daemon = Daemon::with(|web, _| web.write_timeout = Duration::from_millis(200));
    let text = "x".repeat(100_000);
    let task = daemon.submit(&format!(r#"{{"handler":"echo","args":{{"x":"{text}"}}}}"#));
    let mut deaf = daemon.connect();
    let asking = format!("GET {task} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // More than both sides' buffers hold.
    deaf.send(asking.repeat(200));
    until("it is cut", || daemon.get("/metrics").text().contains("reason=\"stalled\"} 1\n"));
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn the_end_answers_whoever_was_let_in_and_refuses_the_rest() {
    let daemon = narrow(1, 10);
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    let mut waiting: Vec<_> = (0..5).map(|_| caller(&daemon, ECHO)).collect();
    wait_for_line(&daemon, 5);
    let mut idle = daemon.connect();
    idle.ask("GET /healthz", &[], None);
    assert_eq!(idle.answer().status, 200);
    daemon.door.drain();
    assert_eq!(daemon.get("/readyz").status, 503, "nobody should be sent here any more");
    let address = daemon.address();
    let Daemon { door, service, .. } = daemon;
    let closing = std::thread::spawn(move || door.close(SOON));
    assert!(idle.is_closed());
    for connection in &mut waiting {
        let answer = connection.answer();
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("draining")));
    }
    held.finish(Ok(raw(&json!("late"))));
    let answer = first.answer();
    assert!(answer.status == 200 || answer.status == 503, "{}", answer.text());
    assert_eq!(closing.join().unwrap().cut, 0);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    service.stop(SOON);
}

#[test]
fn a_door_that_is_not_given_time_cuts_what_is_left() {
    let daemon = narrow(1, 10);
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    let Daemon { door, service, .. } = daemon;
    let report = door.close(Duration::ZERO);
    assert!(report.cut <= 1);
    let mut rest = Vec::new();
    // Cut, or answered at the last moment: in no case left hanging.
    let _ = first.read_to_end(&mut rest);
    drop(held);
    service.stop(SOON);
}

#[test]
fn the_unix_socket_speaks_the_same() {
    let folder = std::env::temp_dir().join(format!("millpond-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("http.sock");
    let socket = path.clone();
    // A socket that a killed daemon left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let daemon = Daemon::with(|web, _| web.socket = Some(socket));
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    daemon.end();
    assert!(!path.exists(), "it is taken away at the end");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn other_machines_are_not_let_in_without_a_token() {
    let daemon = Daemon::start();
    let web = WebSettings { listen: Some(SocketAddr::from(([0, 0, 0, 0], 0))), ..WebSettings::default() };
    let refused = HttpDoor::open(web, daemon.service.handle(), millpond_tasks::Log::new(|_, _| {}));
    let Err(error @ OpenError::TokenNeeded(_)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("--web-token-file"), "{error}");
}

#[test]
fn a_port_that_is_taken_is_an_error_if_it_was_asked_for() {
    let daemon = Daemon::start();
    let web = WebSettings { listen: Some(daemon.address()), workers: Some(2), ..WebSettings::default() };
    let refused = HttpDoor::open(web, daemon.service.handle(), millpond_tasks::Log::new(|_, _| {}));
    let Err(error @ OpenError::Listen(..)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains(&daemon.address().to_string()), "{error}");
}

#[test]
fn several_workers_share_a_port() {
    let daemon = Daemon::with(|web, _| web.workers = Some(3));
    let mut open: Vec<_> = (0..30).map(|_| daemon.connect()).collect();
    for connection in &mut open {
        connection.ask("POST /v1/exec", &[JSON], Some(ECHO));
    }
    for connection in &mut open {
        assert_eq!(connection.answer().status, 200);
    }
}

/// A client that has asked for more than sockets hold, and does not read.
fn deaf(daemon: &Daemon, count: usize) -> Connection {
    let text = "x".repeat(200_000);
    let task = daemon.submit(&format!(r#"{{"handler":"echo","args":{{"x":"{text}"}}}}"#));
    until("the task ends", || daemon.get(&task).json()["stage"] == "ended");
    let mut connection = daemon.connect();
    connection.send(format!("GET {task} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(count));
    connection
}

#[test]
fn somebody_who_does_not_read_cannot_be_sent_away_again_and_again_for_others() {
    let daemon = Daemon::with(|web, _| web.connections_max = 3);
    let _deaf = deaf(&daemon, 50);
    let _busy = caller(&daemon, HOLD);
    let _held = daemon.call();
    let mut waiting = Vec::new();
    // One may come in the place of the client that asked for the task; then nobody is idle.
    until("a newcomer is refused", || {
        let mut newcomer = caller(&daemon, HOLD);
        let mut call = None;
        until("it is let in or refused", || {
            call = daemon.try_call();
            call.is_some() || newcomer.has_answer()
        });
        let is_refused = call.is_none();
        waiting.push((newcomer, call));
        is_refused
    });
    assert!(waiting.len() <= 3, "{} were let in beyond the limit", waiting.len());
}

#[test]
fn an_answer_that_is_being_written_is_not_ended_for_the_next_head() {
    let daemon = Daemon::with(|web, _| web.head_timeout = Duration::from_millis(100));
    let count = 50;
    let mut slow = deaf(&daemon, count);
    slow.send("GET /healthz HTT");
    for _ in 0..3 {
        // By then more than the time of a head is over.
        let mut half = daemon.connect();
        half.send("GET /healthz HTT");
        assert_eq!(half.answer().status, 408);
    }
    for number in 0..count {
        assert_eq!(slow.answer().json()["stage"], "ended", "answer {number} is whole");
    }
}

#[test]
fn whoever_goes_away_makes_room_in_the_line() {
    let daemon = narrow(1, 1);
    let mut first = caller(&daemon, HOLD);
    let held = daemon.call();
    let gone = caller(&daemon, ECHO);
    wait_for_line(&daemon, 1);
    drop(gone);
    wait_for_line(&daemon, 0);
    let mut second = caller(&daemon, ECHO);
    wait_for_line(&daemon, 1);
    held.finish(Ok(raw(&json!(1))));
    assert_eq!((first.answer().status, second.answer().status), (200, 200));
}

#[test]
fn requests_beyond_the_last_do_not_cost_the_answers_before_it() {
    let daemon = Daemon::with(|web, _| web.requests_per_connection_max = 50);
    let mut eager = daemon.connect();
    eager.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(3000));
    for number in 1..=50 {
        assert_eq!(eager.answer().status, 200, "answer {number}");
    }
    assert!(eager.is_closed());
}

#[test]
fn connections_that_the_door_ends_are_counted() {
    let daemon = Daemon::with(|web, _| web.idle_timeout = Duration::from_millis(50));
    assert!(daemon.connect().is_closed());
    until("it is counted", || {
        let text = daemon.get("/metrics").text().to_owned();
        text.lines().any(|line| {
            line.starts_with("millpond_connections_cut_total{reason=\"idle\"} ") && !line.ends_with(" 0")
        })
    });
}
