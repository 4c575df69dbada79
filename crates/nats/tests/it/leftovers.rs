//! Tasks that were there when a daemon found the server, of which others had some: none is forgotten, none that has
//! ended is run again.

use crate::ground::{Daemon, Other, name, settings, until};
use crate::server::NatsServer;
use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use futures_util::StreamExt;
use millpond_nats::{Lane, RecordState, entry_subject, header, publish};
use millpond_tasks::config::NatsSettings;
use std::time::Duration;

const TASKS: u64 = 5;

/// The queue as it is made, and nobody at work.
fn ground(settings: &NatsSettings) -> Other {
    Daemon::start(settings.clone()).stop(Duration::ZERO);
    Other::new(settings)
}

/// The next daemon takes the server for a new one: as after a restart.
fn be_a_new_server(other: &Other) {
    let note = entry_subject(&other.queue.results(), "engine");
    let mut headers = HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    other.wait(publish(&other.client, &note, headers, Bytes::new())).expect("it is removed");
}

/// Is given tasks, as a daemon that then says nothing more.
fn take_and_be_silent(other: &Other, count: u64) -> Vec<Message> {
    other.wait(async {
        let inbox = other.client.new_inbox();
        let given = other.client.subscribe(inbox.clone()).await.expect("it is right");
        let ask = Bytes::from(format!(r#"{{"batch":{count},"expires":5000000000}}"#));
        let subject = "$JS.API.CONSUMER.MSG.NEXT.MILL_jobs.normal";
        other.client.publish_with_reply(subject, inbox, ask).await.expect("it is sent");
        let is_task = |message: &Message| std::future::ready(message.reply.is_some());
        given.filter(is_task).take(count as usize).collect().await
    })
}

/// The server forgets that somebody has tasks which were not acknowledged: nats-server 2.9 does so if a lane is purged,
/// also of nothing.
fn make_the_server_forget(other: &Other) {
    let body = Bytes::from_static(br#"{"filter":"mill.jobs.normal","seq":2}"#);
    let answer = other.wait(other.client.request("$JS.API.STREAM.PURGE.MILL_jobs", body)).expect("an answer");
    assert!(String::from_utf8_lossy(&answer.payload).contains(r#""success":true"#), "{answer:?}");
}

/// One that ends at once, so that the server's floor is beyond it, and some that somebody has.
fn submit(other: &Other) {
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"first"}"#);
    let first = take_and_be_silent(other, 1).remove(0).reply.expect("it has a place");
    other.wait(other.client.publish(first, Bytes::from_static(b"+ACK"))).expect("it is sent");
    for number in 0..TASKS {
        other.submit(Lane::Normal, &format!(r#"{{"handler":"once","task_id":"left-{number}"}}"#));
    }
}

/// A server that the next daemon takes for a new one, with tasks that somebody has who says nothing more.
fn silent_ground(settings: &NatsSettings) -> Other {
    let other = ground(settings);
    submit(&other);
    be_a_new_server(&other);
    assert_eq!(take_and_be_silent(&other, TASKS).len() as u64, TASKS);
    other
}

fn all_end(other: &Other, daemons: &[&Daemon]) {
    for number in 0..TASKS {
        let record = other.ended(&name(&format!("left-{number}")));
        assert_eq!(record.state, RecordState::Done, "{record:?}");
    }
    other.empty();
    let sum = |count: fn(&Daemon) -> u64| daemons.iter().map(|daemon| count(daemon)).sum::<u64>();
    assert_eq!((sum(Daemon::runs), sum(|daemon| daemon.stats().dead)), (TASKS, 0), "each once");
}

#[test]
fn tasks_of_a_daemon_that_died_before_another_found_the_server_are_run() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let other = silent_ground(&settings);
    let daemon = Daemon::start(settings);
    all_end(&other, &[&daemon]);
}

#[test]
fn tasks_that_the_server_would_give_to_nobody_are_run() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let other = silent_ground(&settings);
    make_the_server_forget(&other);
    // Both look after them.
    let (first, second) = (Daemon::start(settings.clone()), Daemon::start(settings));
    all_end(&other, &[&first, &second]);
}

#[test]
fn tasks_that_have_ended_and_are_there_again_are_removed() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let other = ground(&settings);
    let daemon = Daemon::start(settings.clone());
    let origins: Vec<u64> = (0..TASKS)
        .map(|number| {
            other.submit(Lane::Normal, &format!(r#"{{"handler":"once","task_id":"left-{number}"}}"#))
        })
        .collect();
    all_end(&other, &[&daemon]);
    daemon.stop(Duration::from_secs(5));
    for (number, origin) in origins.iter().enumerate() {
        let json = format!(r#"{{"handler":"once","task_id":"left-{number}"}}"#);
        // It came when the first one did: it is the same.
        other.submit_with(
            Lane::Normal,
            &json,
            &[(header::ORIGIN, &origin.to_string()), (header::SINCE, "1")],
        );
    }
    assert_eq!(take_and_be_silent(&other, TASKS).len() as u64, TASKS);
    make_the_server_forget(&other);
    be_a_new_server(&other);
    let second = Daemon::start(settings);
    other.empty();
    assert_eq!(second.runs(), 0);
    until("it is told", || {
        let lines = second.lines.lock().expect("it is right");
        lines.iter().any(|line| line.contains("had ended")).then_some(())
    });
}
