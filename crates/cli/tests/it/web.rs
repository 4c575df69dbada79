//! HTTP as the daemon's users meet it: where it is, who is let in, and what becomes of requests when it ends.
//!
//! The promises of the door itself are tested in `crates/http/tests`; here it is the whole program that is
//! started, told to end, killed, and started again.

use crate::daemon::{Daemon, Folder, signal};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Nothing here takes so long, unless it hangs.
const SOON: Duration = Duration::from_secs(60);

/// What came of asking.
#[derive(Debug, PartialEq)]
enum Asked {
    /// The status of a whole answer.
    Answered(u16),
    /// Nobody listens, or the system closed the connection before anybody saw it.
    TurnedAway,
}

/// One request on a connection of its own.
fn ask(address: &str, request: &str, body: &str) -> (Asked, String) {
    let turned_away = |error: std::io::Error| match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            (Asked::TurnedAway, String::new())
        }
        _ => panic!("{request}: {error}"),
    };
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = match TcpStream::connect(address) {
        Ok(stream) => stream,
        Err(error) => return turned_away(error),
    };
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut answer = String::new();
    if let Err(error) = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)) {
        assert_eq!(answer, "", "an answer that was begun is whole: {error}");
        return turned_away(error);
    }
    if answer.is_empty() {
        return (Asked::TurnedAway, answer);
    }
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("half an answer: {answer:?}"));
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let length =
        length.or_else(|| head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()));
    assert_eq!(length, Some(body.len()), "half an answer: {answer:?}");
    (Asked::Answered(status.expect("there is a status")), body.to_owned())
}

/// For daemons that end while somebody still asks at their address: no daemon of another test comes to listen there.
const APART: &str = "web.listen = \"127.0.0.2:0\"\n";

const SLEEP: &str = r#"{"handler":"sleep","args":{"ms":20}}"#;

#[test]
fn the_daemon_says_where_it_speaks_http() {
    let daemon = Daemon::start("");
    let (asked, body) = ask(&daemon.web, "POST /v1/exec", r#"{"handler":"echo","args":{"n":1}}"#);
    assert_eq!(asked, Asked::Answered(200));
    assert!(body.contains(r#""result":{"n":1}"#), "{body}");
    let (asked, page) = ask(&daemon.web, "GET /", "");
    assert_eq!(asked, Asked::Answered(200));
    assert!(page.starts_with("<!doctype html>"), "{page}");
}

#[test]
fn a_daemon_that_ends_under_load_answers_everybody_who_came_in() {
    let mut daemon = Daemon::start(&format!("{APART}web.in_flight_max = 4\nweb.queue_capacity = 8\n"));
    let address = daemon.web.clone();
    let answered: usize = thread::scope(|scope| {
        let client = || {
            let mut answered = 0;
            loop {
                match ask(&address, "POST /v1/exec", SLEEP).0 {
                    Asked::Answered(200 | 503) => answered += 1,
                    Asked::TurnedAway => return answered,
                    other => panic!("{other:?}"),
                }
            }
        };
        let clients: Vec<_> = (0..32).map(|_| scope.spawn(client)).collect();
        // Some of them have been served by then.
        while !ask(&address, "GET /metrics", "").1.contains("millpond_connections_rejected_total") {}
        thread::sleep(Duration::from_millis(200));
        daemon.terminate();
        clients.into_iter().map(|client| client.join().expect("nobody is left hanging")).sum()
    });
    assert!(answered > 0);
    assert_eq!(daemon.ended(), Some(0));
}

#[test]
fn a_killed_daemon_can_be_started_again_at_the_same_port() {
    let mut daemon = Daemon::start(APART);
    let address = daemon.web.clone();
    let mut waiting = TcpStream::connect(&address).unwrap();
    waiting.set_read_timeout(Some(SOON)).unwrap();
    assert_eq!(ask(&address, "GET /healthz", "").0, Asked::Answered(200));
    signal("KILL", daemon.process());
    daemon.ended();
    let mut rest = Vec::new();
    // Closed or reset, and not left hanging.
    let _ = waiting.read_to_end(&mut rest);
    let again = Daemon::start(&format!("web.listen = \"{address}\"\n"));
    assert_eq!(again.web, address);
    assert_eq!(ask(&address, "GET /healthz", "").0, Asked::Answered(200));
}

#[test]
fn other_machines_need_a_token_and_the_message_says_how() {
    let folder = Folder::new();
    let refused = folder.run(&["serve", "--listen", "0.0.0.0:0"]).with_code(1);
    assert!(refused.err.contains("--web-token-file"), "{}", refused.err);
    let wrong = folder.run(&["serve", "--listen", "here"]);
    assert!(wrong.err.contains("expected an address with a port"), "{}", wrong.err);
}

#[test]
fn a_daemon_without_descriptors_lives_and_serves_again() {
    let folder = Folder::new();
    let plain = folder.millpond(&["serve", "--json", "--workers", "1"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(folder.path());
    let daemon = Daemon::started_by(limited, folder);
    // The system accepts them all; the daemon has descriptors for some.
    let crowd: Vec<_> = (0..60).map(|_| TcpStream::connect(&daemon.web).unwrap()).collect();
    thread::sleep(Duration::from_millis(100));
    drop(crowd);
    let until = std::time::Instant::now() + SOON;
    while ask(&daemon.web, "GET /healthz", "").0 != Asked::Answered(200) {
        assert!(std::time::Instant::now() < until, "it never came back");
    }
}
