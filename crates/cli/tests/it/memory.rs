//! The daemon as programs see it that attach by shared memory: by its name, while it drains, after its death.
//!
//! What the door promises in detail is tested in `crates/shm`; this is about the program that opens it.

use crate::daemon::{Daemon, Folder};
use millpond_shm::{Client, ClientError};
use millpond_tasks::ErrorCode;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn attach(daemon: &Daemon, name: &str) -> Client {
    let directory = daemon.folder().path().join(name);
    Client::attach(directory.to_str().expect("a plain path")).expect("the daemon is there")
}

#[test]
fn a_daemon_with_a_name_is_attached_to_by_that_name() {
    let folder = Folder::new();
    let command = folder.millpond(&["serve", "--json", "--name", "orders"]);
    let daemon = Daemon::started_by(command, folder);
    let client = attach(&daemon, "millpond-orders");
    let number =
        client.try_submit(br#"{"handler": "echo", "args": {"hello": "world"}}"#).expect("there is room");
    let reply = client.wait(number, LONG).expect("it is ours").expect("it is answered");
    assert_eq!((reply.status, reply.body.as_slice()), (0, &br#"{"hello": "world"}"#[..]));
    let stats = daemon.run(&["stats", "--json", "--name", "orders"]).with_code(0);
    let stats = &stats.json()[0];
    assert_eq!(
        (&stats["memory_door"]["clients"], &stats["doors"]["memory"]),
        (&1.into(), &1.into()),
        "{stats}"
    );
}

#[test]
fn a_daemon_that_is_told_to_end_answers_what_lies_in_the_memory() {
    let mut daemon = Daemon::start("");
    let client = attach(&daemon, "millpond");
    // Not quick, since it has an id: each has the whole life of a task.
    let request = |at: u32| format!("{{\"handler\":\"echo\",\"task_id\":{at},\"args\":{{\"at\":{at}}}}}");
    let numbers: Vec<u64> = (1..=500)
        .map(|at| client.submit_timeout(request(at).as_bytes(), LONG).expect("there is room"))
        .collect();
    daemon.terminate();
    for (number, at) in numbers.into_iter().zip(1..) {
        let reply = client.wait(number, LONG).expect("it is ours").expect("it is answered");
        let body = String::from_utf8(reply.body).expect("an answer is text");
        assert_eq!((reply.status, body), (0, format!("{{\"at\":{at}}}")));
    }
    assert_eq!(daemon.ended(), Some(0));
    let refused = client.try_submit(b"{\"handler\":\"echo\"}");
    assert!(matches!(refused, Err(ClientError::NoDaemon(_) | ClientError::Draining)), "{refused:?}");
}

#[test]
fn a_daemon_that_is_killed_costs_only_what_it_had_in_its_hands() {
    let daemon = Daemon::start("");
    let client = attach(&daemon, "millpond");
    let held = client.try_submit(br#"{"handler":"sleep","args":{"ms":600000}}"#).expect("there is room");
    daemon.run_until(&["stats", "--json"], |ran| ran.json()[0]["memory_door"]["under_way"] == 1);
    crate::daemon::signal("KILL", daemon.process());
    let reply = client.wait(held, LONG).expect("it is ours").expect("it is answered");
    assert_eq!(reply.status, ErrorCode::DaemonDied.number());
    assert_eq!(client.in_flight(), 0);
}
