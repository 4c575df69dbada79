//! Tasks that wait: for their time, for another attempt, for a daemon that knows their handler.
//!
//! Here also: those that are cancelled while they wait or run, and leases that are renewed.

use crate::ground::{Daemon, Notes, Other, name, settings, until, value};
use crate::server::NatsServer;
use millpond_nats::{Lane, RecordState, header};
use millpond_tasks::config::{NatsSettings, RetrySettings};
use millpond_tasks::{ServiceConfig, TaskId};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn with_backoff(backoff: Duration) -> ServiceConfig {
    let retry = RetrySettings { backoff_min: backoff, backoff_max: backoff };
    ServiceConfig { retry, ..ServiceConfig::default() }
}

#[test]
fn a_failed_attempt_is_followed_by_others_which_are_given_what_it_left() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon =
        Daemon::start_with(settings.clone(), Arc::default(), with_backoff(Duration::from_millis(50)));
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"third","task_id":"t","retries":5}"#);
    let record = other.ended(&name("t"));
    assert_eq!((record.state, record.failures, record.deliveries), (RecordState::Done, 2, 3));
    let attempts = daemon.notes.attempts.lock().unwrap().clone();
    let left = |number: &str| Some(number.to_owned());
    assert_eq!(attempts, [(1, None), (2, left("1")), (3, left("2"))]);
    assert_eq!(value(&record)["attempts"], 3);
    assert_eq!(daemon.stats().retried, 2);
    other.empty();
}

#[test]
fn an_attempt_that_is_far_away_waits_elsewhere_and_keeps_its_count() {
    let server = NatsServer::start();
    let settings = NatsSettings { nack_max: Duration::from_millis(10), ..settings(&server) };
    let daemon =
        Daemon::start_with(settings.clone(), Arc::default(), with_backoff(Duration::from_millis(400)));
    let other = Other::new(&settings);
    let sequence =
        other.submit(Lane::High, r#"{"handler":"third","task_id":"t","retries":2,"priority":"high"}"#);
    let record = other.ended(&name("t"));
    assert_eq!((record.state, record.failures, record.origin), (RecordState::Done, 2, sequence));
    assert_eq!(daemon.notes.attempts.lock().unwrap().len(), 3);
    assert!(daemon.stats().moved >= 4, "to `later` and back, twice: {:?}", daemon.stats());
    other.empty();
}

#[test]
fn delays_are_kept_however_they_are_asked_for() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let began = now_ms();
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"raw","delay_ms":700}"#);
    let at = (began + 900).to_string();
    other.submit_with(Lane::Later, r#"{"handler":"once","task_id":"head"}"#, &[(header::RUN_AT, &at)]);
    let at = began + 800;
    other.submit(Lane::Later, &format!(r#"{{"handler":"once","task_id":"at","run_at":{at}}}"#));
    let at = (began + 600).to_string();
    other.submit_with(Lane::High, r#"{"handler":"once","task_id":"lane"}"#, &[(header::RUN_AT, &at)]);
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"now"}"#);
    assert_eq!(other.ended(&name("now")).state, RecordState::Done);
    for (id, delay) in [("raw", 700), ("head", 900), ("at", 800), ("lane", 600)] {
        let record = other.ended(&name(id));
        assert_eq!(record.state, RecordState::Done, "{id}");
        assert!(record.at_ms >= began + delay, "{id} came after {} ms", record.at_ms - began);
    }
    other.empty();
    assert_eq!(daemon.runs(), 5);
}

#[test]
fn a_task_whose_handler_is_not_here_waits_for_a_daemon_that_has_it() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"elsewhere","task_id":"e"}"#);
    until("it is given back", || (daemon.stats().nacked > 0).then_some(()));
    let handler = millpond_tasks::function(|call: &millpond_tasks::Call| Ok(call.args().to_owned()));
    daemon.service.handle().add_handler("elsewhere", Box::new(handler)).unwrap();
    assert_eq!(other.ended(&name("e")).state, RecordState::Done);
}

#[test]
fn what_nobody_can_do_becomes_a_dead_letter() {
    let server = NatsServer::start();
    let settings =
        NatsSettings { deliveries_max: 2, nack_max: Duration::from_millis(50), ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"nowhere","task_id":"n"}"#);
    let record = other.ended(&name("n"));
    assert_eq!(record.state, RecordState::Failed);
    assert!(value(&record)["message"].as_str().unwrap().contains("given out 3 times"), "{record:?}");
    other.empty();
    assert_eq!((other.messages("MILL_jobs_DEAD"), daemon.stats().dead), (1, 1));
}

#[test]
fn a_task_that_was_not_begun_in_time_expires() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let other = Other::new(&settings);
    let first = Daemon::start(settings.clone());
    first.stop(Duration::ZERO);
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"x","expires_ms":1}"#);
    std::thread::sleep(Duration::from_millis(5));
    let daemon = Daemon::start(settings.clone());
    assert_eq!(value(&other.ended(&name("x")))["error"], "expired");
    assert_eq!((daemon.runs(), other.messages("MILL_jobs_DEAD")), (0, 0));
}

#[test]
fn a_cancelled_task_is_stopped_where_it_runs_and_not_begun_where_it_waits() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let mut config = ServiceConfig::default();
    config.pool.workers = 1;
    let daemon = Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config);
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"gate","task_id":"runs"}"#);
    until("it runs", || (daemon.runs() == 1).then_some(()));
    other.submit(
        Lane::Later,
        &format!(r#"{{"handler":"once","task_id":"waits","run_at":{}}}"#, now_ms() + 1_500),
    );
    other.cancel(&name("waits"));
    other.cancel(&name("runs"));
    other.empty();
    assert_eq!(other.ended(&name("runs")).state, RecordState::Cancelled);
    assert_eq!(other.ended(&name("waits")).state, RecordState::Cancelled);
    assert_eq!(daemon.runs(), 1);
    until("both are counted", || (daemon.stats().cancelled == 2).then_some(()));
    // Of the same id, but later: nobody cancelled this one.
    daemon.notes.open.store(true, SeqCst);
    std::thread::sleep(Duration::from_millis(5));
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"runs"}"#);
    until("it is run", || (other.ended(&name("runs")).state == RecordState::Done).then_some(()));
}

#[test]
fn a_long_task_keeps_its_lease_and_is_given_to_nobody_else() {
    let server = NatsServer::start();
    let settings = NatsSettings { lease: Duration::from_secs(1), ..settings(&server) };
    let mut config = ServiceConfig::default();
    config.pool.workers = 1;
    let daemon = Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config);
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"gate","task_id":1}"#);
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":2}"#);
    std::thread::sleep(Duration::from_millis(3_500));
    daemon.notes.open.store(true, SeqCst);
    let record = other.ended(&TaskId::Number(1));
    assert_eq!((record.state, record.deliveries), (RecordState::Done, 1));
    assert_eq!(other.ended(&TaskId::Number(2)).deliveries, 1, "also what waits behind it");
    assert_eq!((daemon.runs(), daemon.stats().redelivered), (2, 0));
    assert!(daemon.stats().renewals >= 3, "{:?}", daemon.stats());
}

#[test]
fn a_queue_that_is_full_of_delayed_tasks_still_runs_them() {
    let server = NatsServer::start();
    let settings = NatsSettings { messages_max: 5, ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let at = (now_ms() + 700).to_string();
    for number in 0..5 {
        let json = format!(r#"{{"handler":"once","task_id":{number}}}"#);
        other.submit_with(Lane::Later, &json, &[(header::RUN_AT, &at)]);
    }
    for number in 0..5 {
        assert_eq!(other.ended(&TaskId::Number(number)).state, RecordState::Done, "{number}");
    }
    other.empty();
    assert_eq!(daemon.runs(), 5);
}

#[test]
fn no_worker_waits_while_there_are_tasks() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let mut config = ServiceConfig::default();
    config.pool.workers = 8;
    let daemon = Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config);
    let other = Other::new(&settings);
    for number in 0..7 {
        other.submit(Lane::Normal, &format!(r#"{{"handler":"gate","task_id":{number}}}"#));
    }
    until("seven of eight are busy", || (daemon.runs() == 7).then_some(()));
    for number in 7..20 {
        other.submit(Lane::Normal, &format!(r#"{{"handler":"once","task_id":{number}}}"#));
    }
    for number in 7..20 {
        assert_eq!(other.ended(&TaskId::Number(number)).state, RecordState::Done, "{number}");
    }
    assert_eq!(daemon.runs(), 20);
    daemon.notes.open.store(true, SeqCst);
    other.empty();
}

#[test]
fn a_second_task_of_the_same_id_waits_for_the_first() {
    let server = NatsServer::start();
    let settings = NatsSettings { deliveries_max: 1, ..settings(&server) };
    let mut config = ServiceConfig::default();
    config.pool.workers = 4;
    let daemon = Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config);
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"gate","task_id":"x"}"#);
    let second = other.submit(Lane::Normal, r#"{"handler":"gate","task_id":"x"}"#);
    until("both are here", || (daemon.stats().fetched == 2).then_some(()));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(daemon.runs(), 1);
    daemon.notes.open.store(true, SeqCst);
    other.empty();
    assert_eq!((daemon.runs(), daemon.stats().dead), (2, 0));
    assert_eq!(other.ended(&name("x")).origin, second);
}

#[test]
fn slow_tasks_that_came_with_tiny_ones_are_not_hoarded() {
    let server = NatsServer::start();
    let settings = settings(&server);
    Daemon::start(settings.clone()).stop(Duration::ZERO);
    let other = Other::new(&settings);
    for number in 0..600 {
        let handler = if number < 550 { "quick" } else { "gate" };
        other.submit(Lane::Normal, &format!(r#"{{"handler":"{handler}","task_id":{number}}}"#));
    }
    let one_worker = || {
        let mut config = ServiceConfig::default();
        config.pool.workers = 1;
        Daemon::start_with(settings.clone(), Arc::<Notes>::default(), config)
    };
    let first = one_worker();
    until("the first has a slow one", || (first.runs() == 551).then_some(()));
    let second = one_worker();
    until("the second has one too", || (second.runs() == 1).then_some(()));
    until("neither holds many", || {
        (first.stats().in_flight <= 4 && second.stats().in_flight <= 4).then_some(())
    });
    first.notes.open.store(true, SeqCst);
    second.notes.open.store(true, SeqCst);
    other.empty();
    let dead = first.stats().dead + second.stats().dead;
    assert_eq!((first.runs() + second.runs(), dead), (600, 0));
}
