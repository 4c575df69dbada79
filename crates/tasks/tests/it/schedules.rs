//! What the clock asks for becomes tasks: at its times, never beside itself, and seen by whoever looks.
//!
//! These tests take a second or two each, because the clock does.

use crate::toys::{Mill, ended, small, until};
use millpond::Priority;
use millpond_tasks::ServiceConfig;
use millpond_tasks::config::ScheduleSettings;
use std::collections::BTreeMap;

fn every_second(handler: &str, may_overlap: bool) -> ServiceConfig {
    let schedule = ScheduleSettings {
        cron: "* * * * * *".to_owned(),
        handler: handler.to_owned(),
        args: r#"{"by":"clock"}"#.to_owned(),
        priority: Priority::Normal,
        time_zone: "UTC".to_owned(),
        retries: 0,
        timeout: None,
        catches_up: true,
        may_overlap,
    };
    ServiceConfig { schedules: BTreeMap::from([("tick".to_owned(), schedule)]), ..small() }
}

#[test]
fn a_schedule_becomes_a_task_at_its_time() {
    let mill = Mill::start(every_second("hold", false));
    let call = mill.call();
    assert_eq!(call.args().get(), r#"{"by":"clock"}"#);
    let task = mill.handle.get(call.task_id()).unwrap();
    assert_eq!(task.door().name(), "schedule");
    until("it is noted", || mill.handle.schedules()[0].last_task.is_some());
    let info = &mill.handle.schedules()[0];
    assert_eq!((&*info.name, info.fired, info.last_task.as_ref()), ("tick", 1, Some(task.id())));
    assert_eq!(info.next_ms.len(), 5);
    assert!(info.next_ms.windows(2).all(|pair| pair[1] - pair[0] == 1000));
    assert_eq!(info.last_ms.unwrap() % 1000, 0, "its time, and not when the timer came to it");
    call.finish_with_args();
    ended(&task);
}

#[test]
fn while_its_task_runs_further_times_are_left_out() {
    let mill = Mill::start(every_second("hold", false));
    let call = mill.call();
    until("a time is left out", || mill.handle.schedules()[0].skipped > 0);
    assert!(mill.has_call().is_none());
    call.finish_with_args();
    mill.call().finish_with_args();
}

#[test]
fn one_that_allows_it_runs_beside_itself() {
    let mill = Mill::start(every_second("hold", true));
    let (first, second) = (mill.call(), mill.call());
    assert_ne!(first.task_id(), second.task_id());
    assert_eq!(mill.handle.stats().schedules["tick"].skipped, 0);
    first.finish_with_args();
    second.finish_with_args();
}

#[test]
fn a_time_that_is_refused_is_told() {
    let mill = Mill::start(every_second("nobody", false));
    until("it is refused", || mill.handle.schedules()[0].refused > 0);
    let refusal = mill.handle.schedules()[0].last_refusal.clone().unwrap();
    assert!(refusal.starts_with("unknown-handler (-1): "), "{refusal}");
}

#[test]
fn after_a_restart_one_of_the_missed_times_is_made_up_for() {
    let place = crate::durable::Place::new();
    // Every minute would be too long for a test, so what the clock missed is a whole hour of seconds.
    let config = |missed: bool| {
        let mut config = ServiceConfig { journal: place.config().journal, ..every_second("echo", true) };
        let schedule = config.schedules.get_mut("tick").unwrap();
        schedule.catches_up = missed;
        config
    };
    let mill = Mill::start(config(true));
    until("it was due once", || mill.handle.schedules()[0].fired > 0);
    let last = mill.handle.schedules()[0].last_ms.unwrap();
    until("that is kept", || mill.handle.stats().journal.unwrap().waiting_records == 0);
    drop(mill);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let again = Mill::start(config(true));
    assert!(again.handle.schedules()[0].last_ms >= Some(last), "the last time is known");
    until("it was made up for", || again.handle.schedules()[0].fired > 0);
    let info = &again.handle.schedules()[0];
    let first = info.last_ms.unwrap();
    assert!(first > last && info.fired <= 2, "one for all of them: {info:?}");
}
