//! The usual life of a task: it comes by any lane, is run once, and its end is where clients look for it.
//!
//! Not here: what waits (`waits.rs`), what is refused (`refusals.rs`), what goes wrong (`misfortunes.rs`).

use crate::ground::{Daemon, Other, name, settings, until, value};
use crate::server::NatsServer;
use futures_util::StreamExt as _;
use millpond_nats::{Lane, RecordState, given_id, header, stream_info};
use millpond_tasks::TaskId;
use millpond_tasks::config::{NatsResults, NatsSettings};
use std::time::Duration;

#[test]
fn a_task_of_any_client_is_run_and_its_result_is_kept() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let sequence = other.submit(Lane::Normal, r#"{"handler":"once","args":{"a":1}}"#);
    let record = other.ended(&given_id(sequence));
    assert_eq!(
        (record.state, record.origin, record.deliveries, record.failures),
        (RecordState::Done, sequence, 1, 0)
    );
    let outcome = value(&record);
    assert_eq!((&outcome["task_id"], &outcome["result"]["a"]), (&format!("n{sequence}").into(), &1.into()));
    other.submit(Lane::High, r#"{"handler":"once","task_id":17}"#);
    other.submit(Lane::Low, r#"{"handler":"quick","task_id":"17"}"#);
    assert_eq!(value(&other.ended(&TaskId::Number(17)))["task_id"], 17);
    assert_eq!(value(&other.ended(&name("17")))["task_id"], "17");
    other.empty();
    assert_eq!(daemon.runs(), 3);
    let stats = daemon.service.handle().stats();
    assert_eq!((stats.doors["nats"], stats.succeeded), (3, 3));
    let nats = stats.nats.expect("the door shows its figures");
    assert_eq!((nats.fetched, nats.redelivered, nats.results, nats.fenced), (3, 0, 3, 0));
    assert!(nats.connected && nats.server_version.starts_with("2."), "{nats:?}");
    until("everything is acknowledged", || (daemon.stats().acked == 3).then_some(()));
}

#[test]
fn thousands_of_tasks_on_all_lanes_are_each_run_once() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    const COUNT: u64 = 4_000;
    let lanes = [Lane::High, Lane::Normal, Lane::Low];
    other.wait(async {
        let context = async_nats::jetstream::new(other.client.clone());
        let mut sent = Vec::new();
        for number in 0..COUNT {
            let handler = if number % 2 == 0 { "once" } else { "quick" };
            let json = format!(r#"{{"handler":"{handler}","task_id":{number}}}"#);
            let subject = other.queue.subject(lanes[(number % 3) as usize]);
            sent.push(context.publish(subject, json.into()).await.unwrap());
            if sent.len() == 250 {
                for ack in sent.drain(..) {
                    ack.await.unwrap();
                }
            }
        }
    });
    other.empty();
    assert_eq!(daemon.runs(), COUNT);
    for number in [0, 1, 777, COUNT - 1] {
        assert_eq!(other.record(&TaskId::Number(number)).expect("it is kept").state, RecordState::Done);
    }
    // One entry each, and one for the server itself.
    assert_eq!(other.messages("KV_MILL_jobs_results"), COUNT + 1);
}

#[test]
fn the_server_takes_a_task_of_the_same_id_only_once() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    for _ in 0..5 {
        other.submit_with(
            Lane::Normal,
            r#"{"handler":"once","task_id":"a"}"#,
            &[(header::MESSAGE_ID, "s-a")],
        );
    }
    assert_eq!(other.ended(&name("a")).state, RecordState::Done);
    other.empty();
    assert_eq!(daemon.runs(), 1);
}

#[test]
fn results_are_kept_as_the_queue_and_the_task_want_it() {
    let server = NatsServer::start();
    let settings = NatsSettings { results: NatsResults::None, ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"unasked"}"#);
    other.submit(Lane::Normal, r#"{"handler":"bad","task_id":"bad"}"#);
    other.submit_with(Lane::Normal, r#"{"handler":"once","task_id":"asked"}"#, &[(header::RESULT, "all")]);
    other.submit_with(
        Lane::Normal,
        r#"{"handler":"bad","task_id":"bad too"}"#,
        &[(header::RESULT, "failures")],
    );
    other.submit_with(
        Lane::Normal,
        r#"{"handler":"once","task_id":"good"}"#,
        &[(header::RESULT, "failures")],
    );
    other.empty();
    assert_eq!(daemon.runs(), 5);
    assert_eq!(other.ended(&name("asked")).state, RecordState::Done);
    assert_eq!(other.ended(&name("bad too")).state, RecordState::Failed);
    for id in ["unasked", "bad", "good"] {
        assert!(other.record(&name(id)).is_none(), "{id}");
    }
    assert_eq!(other.messages("MILL_jobs_DEAD"), 2, "dead letters are kept in any case");
}

#[test]
fn what_a_task_says_is_published_in_order_with_an_end() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let _daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let _context = other.runtime.enter();
    let mut chunks = other.wait(other.client.subscribe(other.queue.chunks(&name("x")))).unwrap();
    other.wait(other.client.flush()).unwrap();
    other.submit_with(Lane::Normal, r#"{"handler":"talk","task_id":"x"}"#, &[(header::STREAM, "1")]);
    let mut said = Vec::new();
    other.wait(async {
        while let Some(message) = chunks.next().await {
            let json: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
            if json["end"] == true {
                break;
            }
            said.push((json["offset"].as_u64().unwrap(), json["partial"].as_u64().unwrap()));
        }
    });
    assert_eq!(said, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    assert_eq!(value(&other.ended(&name("x")))["result"], "said");
}

#[test]
fn a_daemon_is_seen_while_it_is_there() {
    let server = NatsServer::start();
    let settings = NatsSettings { name: Some("mill one".to_owned()), ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let key = millpond_nats::key_of_name("mill one");
    let look = || other.wait(millpond_nats::get_entry(&other.client, "MILL_jobs_daemons", &key)).unwrap();
    let entry = until("it says so", &look);
    let present: millpond_nats::Presence = serde_json::from_slice(&entry.value).unwrap();
    assert_eq!((present.name.as_str(), present.pid), ("mill one", std::process::id()));
    assert!(present.handlers.contains(&"once".to_owned()), "{present:?}");
    daemon.stop(Duration::from_secs(1));
    until("it says that it has gone", || look().is_none_or(|entry| entry.value.is_empty()).then_some(()));
}

#[test]
fn everything_on_the_server_is_as_it_must_be_and_a_second_daemon_agrees() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let first = Daemon::start(settings.clone());
    let second = Daemon::start(settings.clone());
    for daemon in [&first, &second] {
        let warnings: Vec<_> =
            daemon.lines.lock().unwrap().iter().filter(|line| line.starts_with("warn")).cloned().collect();
        assert_eq!(warnings, Vec::<String>::new());
    }
    let other = Other::new(&settings);
    let info = other.wait(stream_info(&other.client, "MILL_jobs")).unwrap();
    assert_eq!(info["config"]["retention"], "workqueue");
    assert_eq!(info["state"]["consumer_count"], 4);
}
