//! Outcomes are kept for those who ask later, and the store stays within its bounds whatever it is asked.
//!
//! A daemon that runs for months must not grow with the tasks it has done. What a full store does is a
//! setting, and each choice has its own promise: the newest can be had, or what was promised is kept.

use crate::toys::{Mill, NEVER, SOON, Scribe, ended, json, small, until};
use millpond_tasks::config::ResultsFull;
use millpond_tasks::{Call, ErrorCode, ListFilter, ServiceConfig, Submit, TaskId, Wants};
use std::thread;
use std::time::Duration;

fn store(max: usize, full: ResultsFull) -> ServiceConfig {
    let mut config = small();
    config.results.max = max;
    config.results.full = full;
    config.results.age_max = None;
    config
}

/// Runs one task to its end and waits until its outcome is where it will be.
fn run(mill: &Mill, number: u64) {
    ended(&mill.submit(&format!(r#"{{"handler":"echo","task_id":{number}}}"#)));
    mill.settle();
}

fn kept(mill: &Mill, among: std::ops::Range<u64>) -> Vec<u64> {
    among.filter(|number| mill.handle.get(&TaskId::Number(*number)).is_ok()).collect()
}

#[test]
fn the_oldest_outcome_goes_when_there_are_too_many() {
    let mill = Mill::start(store(3, ResultsFull::DropOldest));
    for number in 0..5 {
        run(&mill, number);
    }
    assert_eq!(kept(&mill, 0..5), [2, 3, 4]);
    let stats = mill.settle();
    assert_eq!((stats.results.kept, stats.results.dropped, stats.results.aged), (3, 2, 0));
    let assigned = mill.submit(r#"{"handler":"echo"}"#);
    ended(&assigned);
    for number in 5..8 {
        run(&mill, number);
    }
    assert_eq!(mill.handle.get(assigned.id()).unwrap_err().code, ErrorCode::ResultGone);
    assert_eq!(mill.handle.get(&TaskId::Number(0)).unwrap_err().code, ErrorCode::NotFound);
    assert_eq!(assigned.outcome().unwrap().status(), 0, "whoever has the task still has its outcome");
    run(&mill, 0);
    assert_eq!(kept(&mill, 0..8), [0, 6, 7], "an id that went can be used again");
}

#[test]
fn the_oldest_is_the_one_that_ended_first() {
    let mill = Mill::start(store(2, ResultsFull::DropOldest));
    let tasks: Vec<_> =
        (0..3).map(|id| mill.submit(&format!(r#"{{"handler":"hold","task_id":{id}}}"#))).collect();
    let mut calls: Vec<_> = tasks.iter().map(|_| mill.call()).collect();
    for number in [2, 0, 1] {
        let at = calls.iter().position(|call| *call.task_id() == TaskId::Number(number)).unwrap();
        calls.swap_remove(at).finish(Ok(json("1")));
        ended(&tasks[number as usize]);
    }
    mill.settle();
    assert_eq!(kept(&mill, 0..3), [0, 1]);
}

#[test]
fn outcomes_are_bounded_by_their_size_too() {
    let mut config = store(1000, ResultsFull::DropOldest);
    config.results.bytes_max = 100_000;
    let mill = Mill::start(config);
    for number in 0..100 {
        let task = mill.submit(&format!(r#"{{"handler":"hold","task_id":{number}}}"#));
        mill.call().finish(Ok(json(&format!("\"{}\"", "x".repeat(10_000)))));
        ended(&task);
        mill.settle();
        let stats = mill.handle.stats().results;
        assert!(stats.bytes <= 100_000, "{stats:?}");
    }
    let left = kept(&mill, 0..100);
    assert!((5..10).contains(&left.len()), "about 100 000 bytes: {left:?}");
    assert_eq!(left.last(), Some(&99));
    let task = mill.submit(r#"{"handler":"hold","task_id":100}"#);
    mill.call().finish(Ok(json(&format!("\"{}\"", "x".repeat(200_000)))));
    ended(&task);
    mill.settle();
    assert_eq!(kept(&mill, 0..101), [100], "the newest stays, if it alone takes more than all may");
    run(&mill, 101);
    assert_eq!(kept(&mill, 0..102), [101]);
}

#[test]
fn what_a_task_said_counts_for_its_size() {
    let mut config = store(1000, ResultsFull::DropOldest);
    config.results.bytes_max = 50_000;
    config.stream.chunk_bytes_max = 30_000;
    config.stream.bytes_max = 100_000;
    let mill = Mill::start(config);
    for number in 0..3 {
        let task = mill.submit(&format!(r#"{{"handler":"hold","task_id":{number}}}"#));
        let call = mill.call();
        call.partial(json(&format!("\"{}\"", "x".repeat(20_000)))).unwrap();
        call.finish(Ok(json("1")));
        ended(&task);
        mill.settle();
    }
    assert_eq!(kept(&mill, 0..3), [1, 2]);
    assert!(mill.handle.stats().results.bytes > 40_000);
}

#[test]
fn a_store_that_refuses_keeps_what_it_has_and_what_it_promised() {
    let mill = Mill::start(store(3, ResultsFull::Refuse));
    run(&mill, 0);
    let held: Vec<_> =
        (1..3).map(|id| mill.submit(&format!(r#"{{"handler":"hold","task_id":{id}}}"#))).collect();
    let calls: Vec<_> = held.iter().map(|_| mill.call()).collect();
    let refused = mill.refuse(r#"{"handler":"echo","task_id":3}"#);
    assert_eq!(refused.failure.code, ErrorCode::QueueFull);
    assert!(refused.failure.message.contains("results.full is \"refuse\""), "{refused}");
    assert!(refused.retry_after.is_some());
    for call in calls {
        call.finish(Ok(json("1")));
    }
    held.iter().for_each(|task| assert_eq!(ended(task).status(), 0));
    let stats = mill.settle();
    assert_eq!((kept(&mill, 0..4), stats.results.kept), (vec![0, 1, 2], 3));
    assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::QueueFull);
    assert_eq!(mill.handle.live(), 0);
}

#[test]
fn a_place_that_was_promised_and_is_not_needed_is_free_again() {
    let mut config = store(2, ResultsFull::Refuse);
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    let scribe = Scribe::new();
    for round in 0..20 {
        let how =
            Submit { reader: Some(scribe.reader(round, Wants::Result)), keep: false, ..Submit::default() };
        let accepted = mill.handle.submit(br#"{"handler":"hold","task_id":1}"#, how).unwrap();
        assert_eq!(mill.refuse(r#"{"handler":"echo","task_id":1}"#).failure.code, ErrorCode::DuplicateId);
        let call = mill.call();
        match round % 3 {
            0 => call.finish(Ok(json("1"))),
            1 => mill.handle.cancel(&TaskId::Number(1)).unwrap(),
            _ => drop(call),
        }
        ended(&accepted.task);
        mill.settle();
    }
    assert_eq!(mill.handle.stats().results.kept, 0, "all were told");
    mill.plug();
    mill.submit(r#"{"handler":"echo","task_id":2}"#);
    for _ in 0..9 {
        assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::QueueFull);
    }
    mill.unplug();
    mill.settle();
    assert_eq!(mill.handle.stats().results.kept, 2, "the plug and the echo");
    assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::QueueFull);
}

#[test]
fn an_outcome_that_was_taken_makes_room() {
    for full in [ResultsFull::DropOldest, ResultsFull::Refuse, ResultsFull::Block] {
        let mill = Mill::start(store(1, full));
        for _ in 0..5 {
            run(&mill, 1);
            let taken = mill.handle.take(&TaskId::Number(1)).unwrap();
            assert_eq!(taken.outcome().unwrap().status(), 0);
            assert_eq!(mill.handle.take(&TaskId::Number(1)).unwrap_err().code, ErrorCode::NotFound);
        }
        let stats = mill.settle().results;
        assert_eq!((stats.kept, stats.bytes, stats.dropped), (0, 0, 0), "{full:?}");
        let held = mill.submit(r#"{"handler":"hold"}"#);
        assert!(mill.handle.take(held.id()).is_err(), "it has no outcome yet");
        mill.call().finish(Ok(json("1")));
        ended(&held);
    }
}

#[test]
fn an_outcome_that_was_taken_is_gone_however_early_it_is_taken() {
    let mill = Mill::start(store(4, ResultsFull::Refuse));
    for round in 0..300 {
        let tasks: Vec<_> =
            (0..4).map(|_| mill.submit(r#"{"handler":"hold","timeout_ms":3600000}"#)).collect();
        let calls: Vec<_> = tasks.iter().map(|_| mill.call()).collect();
        thread::scope(|scope| {
            scope.spawn(|| calls.into_iter().for_each(Call::finish_with_args));
            for task in &tasks {
                while !task.is_ended() {
                    std::hint::spin_loop();
                }
                mill.handle.take(task.id()).unwrap();
            }
        });
        assert_eq!(mill.settle().results.kept, 0, "round {round}");
    }
}

#[test]
fn old_outcomes_go_by_themselves_and_make_room() {
    for full in [ResultsFull::DropOldest, ResultsFull::Refuse, ResultsFull::Block] {
        let mut config = store(3, full);
        config.results.age_max = Some(Duration::from_millis(1));
        let mill = Mill::start(config);
        for number in 0..3 {
            ended(&mill.submit(&format!(r#"{{"handler":"echo","task_id":{number}}}"#)));
        }
        until("they are too old", || kept(&mill, 0..3).is_empty());
        let stats = mill.settle();
        assert_eq!((stats.results.aged, stats.results.kept, stats.results.bytes), (3, 0, 0), "{full:?}");
        assert!(mill.handle.list(&ListFilter::default()).is_empty());
        run(&mill, 0);
    }
}

#[test]
fn young_outcomes_stay() {
    let mut config = store(3, ResultsFull::DropOldest);
    config.results.age_max = Some(NEVER);
    let mill = Mill::start(config);
    run(&mill, 0);
    // Longer than from one look at the ages to the next.
    let swept = || mill.handle.stats().uptime_ms > 1500;
    until("the ages were looked at", swept);
    assert_eq!((kept(&mill, 0..1), mill.handle.stats().results.aged), (vec![0], 0));
}

#[test]
fn one_who_may_wait_waits_for_room_among_the_outcomes() {
    let mut config = store(1, ResultsFull::Block);
    config.results.age_max = Some(Duration::from_millis(1));
    let mill = Mill::start(config);
    for number in 0..2 {
        let text = format!(r#"{{"handler":"echo","task_id":{number}}}"#);
        let accepted = mill.handle.submit_wait(text.as_bytes(), SOON).unwrap();
        assert_eq!(ended(&accepted.task).status(), 0);
    }
    assert_eq!(mill.settle().accepted, 2);
}

#[test]
fn a_store_under_load_never_holds_more_than_it_may() {
    let mut config = store(10, ResultsFull::DropOldest);
    config.pool.workers = 2;
    config.pool.queue_capacity = 256;
    let mill = Mill::start(config);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    mill.handle.submit_wait(br#"{"handler":"echo"}"#, SOON).unwrap();
                    assert!(mill.handle.stats().results.kept <= 10);
                }
            });
        }
    });
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.results.kept, stats.results.dropped), (3000, 10, 2990));
    assert_eq!(mill.handle.list(&ListFilter::default()).len(), 10);
}
