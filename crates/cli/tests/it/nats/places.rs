//! Whoever is in the wrong place learns what is there, and what to do.
//!
//! A server that is away, one without JetStream, another program on its port, a queue that nobody opened, a user
//! without rights: each has a message of its own and an exit code for scripts.

use super::server::{NatsServer, free_port};
use super::{Ground, HELLO};
use crate::daemon::{Daemon, Folder, Ran};
use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn submit(url: &str, queue: &str) -> Ran {
    Folder::new().run(&["submit", "--nats", url, "--queue", queue, HELLO])
}

fn serve(url: &str) -> Ran {
    let folder = Folder::new();
    folder.write("millpond.toml", "[nats]\nconnect_timeout = '1s'\n");
    folder.run(&["serve", "--nats", url, "--queue", "jobs"])
}

#[test]
fn without_a_server_neither_daemon_nor_command_begins() {
    let url = format!("nats://127.0.0.1:{}", free_port());
    let ran = submit(&url, "jobs").with_code(3);
    assert!(ran.err.starts_with(&format!("error: {url}: no NATS server can be reached there: ")), "{ran:?}");
    assert!(ran.err.ends_with("start one (nats-server -js) or mend nats.url\n"), "{ran:?}");
    let begun = Instant::now();
    let ran = serve(&url).with_code(1);
    assert!(
        ran.err.contains(&format!("error: NATS: {url}: no NATS server can be reached there: ")),
        "{ran:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60), "it does not try for ever");
}

#[test]
fn a_server_that_is_none_is_told_from_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        // As a web server answers somebody who does not speak HTTP.
        for connection in listener.incoming().take(2).flatten() {
            let mut connection = connection;
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let ran = submit(&url, "jobs").with_code(3);
    assert!(ran.err.contains(&url) && ran.err.contains("NATS server"), "{ran:?}");
    let ran = serve(&url).with_code(1);
    assert!(ran.err.contains("error: NATS: "), "{ran:?}");
    drop(answering);
}

#[test]
fn a_server_without_jetstream_is_told_how_to_have_it() {
    let server = NatsServer::with(false, &[]);
    for ran in [submit(&server.url(), "jobs").with_code(1), serve(&server.url()).with_code(1)] {
        assert!(ran.err.contains("the NATS server has no JetStream; start it with -js"), "{ran:?}");
    }
}

#[test]
fn a_queue_that_nobody_opened_is_not_made_by_a_command() {
    let server = NatsServer::start();
    let ran = submit(&server.url(), "orders").with_code(3);
    assert_eq!(
        ran.err,
        "error: no stream MILL_orders: start a daemon with --nats and --queue orders first\n"
    );
}

#[test]
fn a_wrong_address_or_name_is_a_mistake_of_the_command_line() {
    let ran = submit("http://localhost", "jobs").with_code(2);
    assert!(
        ran.err.contains("--nats: expected one or more NATS servers or \"none\", got \"http://localhost\""),
        "{ran:?}"
    );
    let ran = submit("localhost", "a.b").with_code(2);
    assert!(ran.err.contains("--queue: expected a name of 1 to 64"), "{ran:?}");
    let ran = Folder::new().run(&["nats", "status"]).with_code(2);
    assert!(ran.err.starts_with("error: which NATS server? say --nats"), "{ran:?}");
}

#[test]
fn a_task_that_is_too_large_for_the_server_costs_itself_alone() {
    let ground = Ground::new("message_bytes_max = '1 KiB'", "");
    let large = format!(r#"{{"handler": "echo", "args": {{"text": "{}"}}}}"#, "x".repeat(2000));
    let input = format!("{large}\n{HELLO}\n");
    let arguments = ["submit", "--queue", "jobs", "-", "--wait", "--json"];
    let told = ground.daemon.folder().run_with(&arguments, &input).with_code(1).json();
    assert_eq!(told.iter().filter(|line| line["status"] == 0).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|line| line["error"] == "too-large").count(), 1, "{told:?}");
}

#[test]
fn who_may_not_publish_is_told_what_the_server_said() {
    let folder = Folder::new();
    let rights = r#"authorization { users = [
        { user: all, password: all }
        { user: reads, password: reads, permissions: { publish: ["$JS.API.>"], subscribe: ">" } }
    ] }"#;
    folder.write("server.conf", rights);
    let config = folder.path().join("server.conf");
    let server = NatsServer::with(true, &["-c", config.to_str().unwrap()]);
    let host = server.url().replace("nats://", "");
    let _daemon = Daemon::start(&format!("[nats]\nurl = 'nats://all:all@{host}'\nqueue = 'jobs'\n"));
    let ran = submit(&format!("nats://all:wrong@{host}"), "jobs").with_code(1);
    assert!(ran.err.contains("does not let this client in") && !ran.err.contains("wrong"), "{ran:?}");
    let commands = Folder::new();
    commands.write("millpond.toml", "nats.connect_timeout = '500ms'\n");
    let url = format!("nats://reads:reads@{host}");
    let ran = commands.run(&["submit", "--nats", &url, "--queue", "jobs", HELLO]).with_code(1);
    assert!(ran.err.to_lowercase().contains("permissions violation"), "{ran:?}");
}

#[test]
fn daemons_of_one_queue_must_agree_on_the_lease() {
    let ground = Ground::new("", "");
    let folder = Folder::new();
    let url = ground.server.url();
    folder.write("millpond.toml", &format!("[nats]\nurl = '{url}'\nqueue = 'jobs'\nlease = '7s'\n"));
    let ran = folder.run(&["serve"]).with_code(1);
    assert!(ran.err.contains("error: NATS: consumer ") && ran.err.contains("expected ack_wait"), "{ran:?}");
}

#[test]
fn the_check_knows_the_section_and_shows_no_password() {
    let folder = Folder::new();
    folder.write("millpond.toml", "[nats]\nurl = 'nats://me:secret@a'\nqueue = 'A'\nlease = 'soon'\n");
    let ran = folder.run(&["check"]).with_code(1);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(
        said.contains("nats.queue: expected a name of 1 to 64") && said.contains("nats.lease: "),
        "{ran:?}"
    );
    folder.write("millpond.toml", "[nats]\nurl = 'nats://me:secret@a'\n");
    assert_eq!(folder.run(&["check"]).code, Some(0));
    let shown = folder.run(&["config"]).quietly();
    assert!(shown.contains("nats://me:***@a") && !shown.contains("secret"), "{shown}");
}
