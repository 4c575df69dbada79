//! `millpond load` against a small server of the test: what a script sees of the report and of the exit code.
//!
//! Servers that misbehave are the generator's own tests (`crates/load/tests`); here a server that answers,
//! one that refuses, and none at all are enough.

use crate::daemon::Folder;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server was asked first: the head, and the body.
type First = Arc<Mutex<Option<(String, String)>>>;

/// Answers every request; every `refuses`th with 503, none if that is nought.
fn serve(refuses: usize) -> (SocketAddr, First) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let first = First::default();
    let noted = Arc::clone(&first);
    let number = Arc::new(Mutex::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (noted, number) = (Arc::clone(&noted), Arc::clone(&number));
            thread::spawn(move || converse(stream.unwrap(), refuses, &noted, &number));
        }
    });
    (address, first)
}

fn converse(mut stream: TcpStream, refuses: usize, first: &First, number: &Mutex<usize>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(digits) = line.strip_prefix("Content-Length: ") {
                length = digits.trim().parse().ok()?;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        first.lock().unwrap().get_or_insert((head, body));
        let number = {
            let mut number = number.lock().unwrap();
            *number += 1;
            *number
        };
        let is_refused = refuses > 0 && number % refuses == 0;
        let status = if is_refused { "503 Busy" } else { "200 OK" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok").ok()?;
    }
}

#[test]
fn a_server_alone_is_asked_for_a_task_that_sleeps() {
    let (address, first) = serve(0);
    let folder = Folder::new();
    let server = address.to_string();
    let ran = folder.run(&["load", &server, "-n", "50", "--clients", "5", "--json"]);
    let report: Value = serde_json::from_str(&ran.quietly()).unwrap();
    assert_eq!((&report["requests"], &report["accepted"]["count"]), (&50.into(), &50.into()), "{report}");
    assert_eq!((&report["mode"], &report["connections"]), (&"closed".into(), &5.into()), "{report}");
    assert_eq!((&report["statuses"]["200"], &report["timeouts"]), (&50.into(), &0.into()), "{report}");
    let (head, body) = first.lock().unwrap().clone().unwrap();
    assert!(head.starts_with(&format!("POST /v1/exec HTTP/1.1\r\nHost: {address}\r\n")), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    assert_eq!(body, r#"{"handler":"sleep","args":{"ms":10}}"#);
}

#[test]
fn what_is_to_be_asked_can_be_said() {
    let (address, first) = serve(0);
    let folder = Folder::new();
    folder.write("task.json", "{\"a\":1}");
    let url = format!("http://{address}/v1/tasks?wait=1");
    let said = ["--body", "@task.json", "--header", "X-One: 1", "--token", "secret", "--keep-alive", "off"];
    let ran = folder.run(&[&["load", &url, "-n", "3", "--method", "PUT"], &said[..]].concat());
    let text = ran.quietly();
    assert!(text.starts_with(&format!("PUT {url}\n")), "{text}");
    assert!(text.contains("3 requests on 3 connections"), "{text}");
    let (head, body) = first.lock().unwrap().clone().unwrap();
    for line in
        ["PUT /v1/tasks?wait=1 HTTP/1.1", "X-One: 1", "Authorization: Bearer secret", "Connection: close"]
    {
        assert!(head.contains(&format!("{line}\r\n")), "{line}: {head}");
    }
    assert_eq!(body, "{\"a\":1}");
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let (address, _) = serve(0);
    let line = ["load", &address.to_string(), "--rate", "500", "--duration", "100ms", "--json"];
    let report: Value = serde_json::from_str(&Folder::new().run(&line).quietly()).unwrap();
    assert_eq!((&report["requests"], &report["rate"]), (&50.into(), &500.0.into()), "{report}");
    assert_eq!((&report["mode"], &report["clients"]), (&"open".into(), &2000.into()), "{report}");
}

#[test]
fn a_scenario_that_fails_has_an_exit_code_of_its_own() {
    let (address, _) = serve(50);
    let server = address.to_string();
    let scenario = |name| ["load", &server, "--scenario", name, "-n", "1000"];
    let failed = Folder::new().run(&scenario("normal")).with_code(1);
    assert!(
        failed.out.contains("scenario normal: failed: expected under 1 % refused, got 2.00 %\n"),
        "{failed:?}"
    );
    assert!(failed.out.contains("closed loop, 100 clients"), "{failed:?}");
    // Refusals are what the other one expects.
    let passed = Folder::new().run(&scenario("stress")).with_code(0);
    assert!(passed.out.ends_with("scenario stress: passed\n"), "{passed:?}");
}

#[test]
fn nobody_there_is_told_and_strangers_are_left_alone() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = listener.local_addr().unwrap().to_string();
    drop(listener);
    let folder = Folder::new();
    let ran = folder.run(&["load", &server, "-n", "3", "--clients", "1"]).with_code(3);
    assert!(ran.err.starts_with(&format!("error: {server}: no server answers: ")), "{ran:?}");
    let stranger = folder.run(&["load", "192.0.2.1:80", "-n", "1"]).with_code(2);
    assert!(stranger.err.contains("--allow-remote"), "{stranger:?}");
    let secure = folder.run(&["load", "https://127.0.0.1", "-n", "1"]).with_code(2);
    assert!(secure.err.contains("expected http://, got https://"), "{secure:?}");
    let none = folder.run(&["load", "--unix", "none.sock", "-n", "1"]).with_code(3);
    assert!(none.err.contains("none.sock: no server answers"), "{none:?}");
}
