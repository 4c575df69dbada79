//! What goes wrong in between: daemons that stop or die, leases that end, servers that are killed. No task is lost by
//! it, and each ends once.

use crate::ground::{Daemon, Notes, Other, name, settings, until};
use crate::server::NatsServer;
use millpond_nats::{Lane, RecordState, given_id};
use millpond_tasks::config::NatsSettings;
use millpond_tasks::{ServiceConfig, TaskId};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Takes one task and says nothing more of it, as a daemon that died.
fn take_and_vanish(other: &Other) {
    other.wait(async {
        let context = async_nats::jetstream::new(other.client.clone());
        let stream = context.get_stream("MILL_jobs").await.expect("the queue is there");
        let consumer: async_nats::jetstream::consumer::PullConsumer =
            stream.get_consumer("normal").await.expect("the queue is there");
        let mut batch = futures_util::StreamExt::boxed(
            consumer.fetch().max_messages(1).messages().await.expect("the queue is there"),
        );
        let taken = futures_util::StreamExt::next(&mut batch).await;
        assert!(taken.is_some_and(|message| message.is_ok()));
    });
}

#[test]
fn a_task_whose_daemon_died_is_run_by_another() {
    let server = NatsServer::start();
    let settings = settings(&server);
    Daemon::start(settings.clone()).stop(Duration::ZERO);
    let other = Other::new(&settings);
    let sequence = other.submit(Lane::Normal, r#"{"handler":"once"}"#);
    take_and_vanish(&other);
    let daemon = Daemon::start(settings.clone());
    let record = other.ended(&given_id(sequence));
    assert_eq!((record.state, record.deliveries), (RecordState::Done, 2));
    assert_eq!((daemon.runs(), daemon.stats().redelivered), (1, 1));
}

#[test]
fn a_task_that_ended_and_comes_again_is_not_run_again() {
    let server = NatsServer::start();
    let settings = settings(&server);
    Daemon::start(settings.clone()).stop(Duration::ZERO);
    let other = Other::new(&settings);
    let sequence = other.submit(Lane::Normal, r#"{"handler":"once"}"#);
    take_and_vanish(&other);
    // Whoever took it wrote the result and died before the acknowledgement.
    let mut record = millpond_nats::Record::cancelled(&given_id(sequence), sequence, "dead", 1);
    record.state = RecordState::Done;
    let key = format!("s-n{sequence}");
    let put =
        millpond_nats::put_entry(&other.client, "MILL_jobs_results", &key, record.write().into(), Some(0));
    other.wait(put).unwrap();
    let daemon = Daemon::start(settings.clone());
    other.empty();
    assert_eq!((daemon.runs(), daemon.stats().duplicates), (0, 1));
    assert_eq!(other.ended(&given_id(sequence)).daemon, "dead", "its result stands");
}

#[test]
fn a_result_that_comes_too_late_changes_nothing() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let sequence = other.submit(Lane::Normal, r#"{"handler":"gate","task_id":"g"}"#);
    until("it runs", || (daemon.runs() == 1).then_some(()));
    let mut record = millpond_nats::Record::cancelled(&name("g"), sequence, "quicker", 1);
    record.state = RecordState::Done;
    let put =
        millpond_nats::put_entry(&other.client, "MILL_jobs_results", "s-g", record.write().into(), Some(0));
    other.wait(put).unwrap();
    daemon.notes.open.store(true, SeqCst);
    other.empty();
    assert_eq!(other.ended(&name("g")).daemon, "quicker");
    until("it is counted", || (daemon.stats().fenced == 1).then_some(()));
}

#[test]
fn a_daemon_that_stops_gives_back_what_it_has_not_ended() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let mut config = ServiceConfig::default();
    config.pool.workers = 2;
    let first = Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config);
    let other = Other::new(&settings);
    let count = 40;
    for number in 0..count {
        other.submit(Lane::Normal, &format!(r#"{{"handler":"gate","task_id":{number}}}"#));
    }
    until("some run", || (first.runs() == 2).then_some(()));
    let closed = first.stop(Duration::from_millis(100));
    assert_eq!(closed.unsent, 0);
    assert!(closed.given_back >= 2, "{closed:?}");
    let notes = Arc::new(Notes::default());
    notes.open.store(true, SeqCst);
    let second = Daemon::start_with(settings.clone(), notes, ServiceConfig::default());
    other.empty();
    for number in 0..count {
        assert_eq!(other.ended(&TaskId::Number(number)).state, RecordState::Done, "{number}");
    }
    assert_eq!(second.runs(), count);
}

#[test]
fn a_server_that_is_restarted_loses_nothing_and_stalls_nobody() {
    for is_killed in [false, true] {
        let mut server = NatsServer::start();
        let settings = settings(&server);
        let daemon = Daemon::start(settings.clone());
        let other = Other::new(&settings);
        let count = 300;
        for number in 0..count {
            other.submit(Lane::Normal, &format!(r#"{{"handler":"gate","task_id":{number}}}"#));
        }
        until("some run", || (daemon.runs() > 0).then_some(()));
        if is_killed {
            server.kill()
        } else {
            server.stop()
        }
        // Ends come while the server is away.
        daemon.notes.open.store(true, SeqCst);
        std::thread::sleep(Duration::from_millis(500));
        server.start_again();
        until("the daemon is back", || daemon.stats().connected.then_some(()));
        let after = other.submit(Lane::Normal, r#"{"handler":"once"}"#);
        assert_eq!(other.ended(&given_id(after)).state, RecordState::Done);
        for number in 0..count {
            assert_eq!(other.ended(&TaskId::Number(number)).state, RecordState::Done, "{number}");
        }
        other.empty();
        let stats = daemon.stats();
        assert!(stats.reconnects >= 1, "{stats:?}");
        assert_eq!(stats.restarts, 0, "the watchdog had nothing to do: {stats:?}");
    }
}

#[test]
fn ends_wait_for_a_server_that_is_away_for_longer_than_the_lease() {
    let mut server = NatsServer::start();
    let settings = NatsSettings { lease: Duration::from_secs(1), ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let sequence = other.submit(Lane::Normal, r#"{"handler":"gate"}"#);
    until("it runs", || (daemon.runs() == 1).then_some(()));
    server.stop();
    daemon.notes.open.store(true, SeqCst);
    std::thread::sleep(Duration::from_millis(2_500));
    server.start_again();
    assert_eq!(other.ended(&given_id(sequence)).state, RecordState::Done);
    other.empty();
    let later = other.submit(Lane::High, r#"{"handler":"quick"}"#);
    assert_eq!(other.ended(&given_id(later)).state, RecordState::Done);
}

#[test]
fn a_consumer_that_somebody_removed_is_made_anew() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let first = other.submit(Lane::Normal, r#"{"handler":"once"}"#);
    assert_eq!(other.ended(&given_id(first)).state, RecordState::Done);
    let removed = other.client.request("$JS.API.CONSUMER.DELETE.MILL_jobs.normal", bytes::Bytes::new());
    assert!(
        String::from_utf8_lossy(&other.wait(removed).expect("an answer").payload)
            .contains("\"success\":true")
    );
    let second = other.submit(Lane::Normal, r#"{"handler":"once"}"#);
    assert_eq!(other.ended(&given_id(second)).state, RecordState::Done);
    let lines = daemon.lines.lock().expect("nobody panicked").clone();
    assert!(lines.iter().any(|line| line.contains("consumer normal of MILL_jobs was gone")), "{lines:?}");
}
