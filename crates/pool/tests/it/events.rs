//! What happens in a pool is told to who listens, in order, with reasons; and listening badly hurts nobody else.
//!
//! A listener that never listens must not hold up a task, and one that listens must know when there is nothing more to
//! come. Each kind of event is caused here, and looked for among all that are told until the pool has stopped.

use crate::busy::{Busy, pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use millpond::policy::{scale, steal};
use millpond::{BackPressure, Event, EventKind, Events, PoolConfig, Refused, ScaleSettings, Strategy};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// All that is told until the pool has stopped, which it must have been asked to.
fn all_of(events: Events) -> Vec<Event> {
    promptly("the pool has stopped, so events end", || events.collect())
}

/// What happened, without the times.
fn kinds_of(events: Events) -> Vec<EventKind> {
    all_of(events).into_iter().map(|event| event.kind).collect()
}

#[test]
fn workers_that_come_and_go_are_told_and_the_end_is_told_last() {
    let pool = pool(1);
    until_asleep(&pool);
    let events = pool.events(100);
    pool.resize(3).unwrap();
    until_asleep(&pool);
    pool.resize(1).unwrap();
    eventually("two have left", || pool.metrics().workers_running == 1);
    drop(pool);
    let told = kinds_of(events);
    let place = |kind: &EventKind| told.iter().position(|told| told == kind);
    assert!(place(&EventKind::ScaledUp { from: 1, to: 3, reason: None }).is_some(), "{told:?}");
    assert!(place(&EventKind::ScaledDown { from: 3, to: 1, reason: None }).is_some(), "{told:?}");
    for worker in 0..3 {
        let started = place(&EventKind::WorkerStarted { worker });
        let stopped = place(&EventKind::WorkerStopped { worker });
        assert_eq!(started.is_some(), worker > 0, "the first was there before: {told:?}");
        assert!(stopped.is_some() && stopped > started, "{told:?}");
    }
}

#[test]
fn times_rise_and_count_from_the_start_of_the_pool() {
    let pool = pool(1);
    let events = pool.events(100);
    let before = pool.metrics().uptime;
    (2..6).for_each(|workers| _ = pool.resize(workers).unwrap());
    let after = pool.metrics().uptime;
    drop(pool);
    let resized = |event: &Event| matches!(event.kind, EventKind::ScaledUp { .. });
    let times: Vec<_> = all_of(events).into_iter().filter(resized).map(|event| event.at).collect();
    assert_eq!(times.len(), 4);
    assert!(times.is_sorted() && times[0] >= before && times[3] <= after, "{before:?} {times:?} {after:?}");
}

#[test]
fn refusals_and_drops_are_told() {
    let told = |back_pressure| {
        let pool =
            start(PoolConfig { workers: 1, queue_capacity: 1, back_pressure, ..PoolConfig::default() });
        let busy = Busy::one(&pool);
        let events = pool.events(100);
        for _ in 0..2 {
            let _ = pool.spawn(|| ());
        }
        let told = events.try_recv().map(|event| event.kind);
        assert_eq!(events.try_recv(), None, "one task was too many");
        busy.release();
        told
    };
    assert_eq!(told(BackPressure::Reject), Some(EventKind::Refused { why: Refused::Full }));
    assert_eq!(told(BackPressure::DropNewest), Some(EventKind::DroppedNewest));
    assert_eq!(told(BackPressure::DropOldest), Some(EventKind::DroppedOldest));
    let brief = BackPressure::Block { timeout: Some(Duration::from_millis(1)) };
    assert_eq!(told(brief), Some(EventKind::Refused { why: Refused::TimedOut }));
}

#[test]
fn a_robbery_is_told_with_thief_victim_and_reason() {
    let pool = pool(2);
    until_asleep(&pool);
    let events = pool.events(1000);
    let (handle, (told, tells)) = (pool.handle(), mpsc::channel());
    let owner = pool.submit(move || {
        for _ in 0..10 {
            let told = told.clone();
            handle.spawn(move || told.send(()).unwrap()).unwrap();
        }
        drop(told);
        // The owner does not return before the other worker has done them all.
        let done = tells.iter().count();
        (done, thread::current().name().unwrap().rsplit('-').next().unwrap().parse::<usize>().unwrap())
    });
    let (done, owner) = owner.unwrap().wait().unwrap();
    assert_eq!(done, 10);
    let stolen = pool.metrics().stealing;
    let mut tasks_told = 0;
    drop(pool);
    for kind in kinds_of(events) {
        if let EventKind::Stole { thief, victim, tasks, reason } = kind {
            assert_eq!((thief, victim), (1 - owner, owner));
            assert!(
                !matches!(reason, steal::Reason::MostQueuedOfOthers { .. }),
                "there is nobody else: {reason}"
            );
            tasks_told += u64::from(tasks);
        }
    }
    assert!(tasks_told > 0 && tasks_told <= stolen.tasks, "{tasks_told} told, {stolen:?}");
}

#[test]
fn scaling_is_told_with_its_reason() {
    let scaling = ScaleSettings { workers_min: 1, workers_max: 4, ..ScaleSettings::default() };
    let config = PoolConfig { workers: 1, scaling: Some(scaling), ..PoolConfig::default() };
    let pool = start(config);
    let events = pool.events(1000);
    let busy = Busy::one(&pool);
    (0..100).for_each(|_| pool.spawn(|| ()).unwrap());
    eventually("there are more workers", || pool.metrics().scaling.ups > 0);
    busy.release();
    let up = |kind: &EventKind| match kind {
        EventKind::ScaledUp { from: 1, to, reason: Some(scale::Reason::Load { .. }) } => *to > 1 && *to <= 4,
        _ => false,
    };
    drop(pool);
    let told = kinds_of(events);
    assert!(told.iter().any(up), "{told:?}");
}

#[test]
fn a_swap_of_strategies_is_told() {
    let pool = pool(1);
    let events = pool.events(100);
    pool.set_strategy(&Strategy::named("round-robin").unwrap());
    let (from, to) = ("shared".into(), "round-robin".into());
    drop(pool);
    assert!(kinds_of(events).contains(&EventKind::StrategySwapped { from, to }));
}

#[test]
fn who_does_not_listen_misses_the_newest_and_holds_nobody_up() {
    let pool = start(PoolConfig { workers: 1, queue_capacity: 1, ..PoolConfig::default() });
    let busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let (deaf, hears) = (pool.events(3), pool.events(1000));
    (0..500).for_each(|_| assert!(pool.try_spawn(|| ()).is_err()));
    assert_eq!((deaf.missed(), hears.missed()), (497, 0));
    busy.release();
    drop(pool);
    let refused = |kind: &&EventKind| **kind == EventKind::Refused { why: Refused::Full };
    assert_eq!(kinds_of(deaf).iter().filter(refused).count(), 3, "the oldest are kept");
    assert_eq!(kinds_of(hears).iter().filter(refused).count(), 500);
}

#[test]
fn waiting_for_an_event_may_be_cut_short_and_ends_with_the_pool() {
    let pool = pool(1);
    until_asleep(&pool);
    let events = pool.events(8);
    assert_eq!((events.try_recv(), events.recv_timeout(Duration::from_millis(1))), (None, None));
    assert!(!events.is_over(), "nothing has happened yet");
    let late = pool.handle();
    let listener = thread::spawn(move || {
        let mut told = 0;
        while events.recv().is_some() {
            told += 1;
        }
        (told, events.is_over(), events.try_recv(), events.recv_timeout(Duration::MAX))
    });
    drop(pool);
    let (told, is_over, tried, waited) = promptly("the listener ends", || listener.join().unwrap());
    assert_eq!((told, is_over, tried, waited), (1, true, None, None), "the worker stopped, and that was all");
    assert_eq!(all_of(late.events(8)), [], "a pool that has stopped has nothing to tell");
}

#[test]
fn another_worker_stands_in_for_one_that_waits_for_an_event() {
    promptly("there is one worker, and yet both tasks run", || {
        let pool = pool(1);
        let events = pool.events(8);
        until_asleep(&pool);
        while events.try_recv().is_some() {}
        let (sender, receiver) = mpsc::channel();
        let listens = pool.submit(move || {
            sender.send(()).unwrap();
            events.recv().map(|event| event.kind)
        });
        receiver.recv().unwrap();
        pool.submit(|| ()).unwrap().wait().unwrap();
        assert_eq!(listens.unwrap().wait().unwrap(), Some(EventKind::WorkerStarted { worker: 1 }));
    });
}

#[test]
fn events_that_are_dropped_cost_the_others_nothing() {
    let pool = pool(1);
    let kept = pool.events(10);
    let (first, second) = (pool.events(10), pool.events(10));
    drop(first);
    pool.resize(2).unwrap();
    drop(second);
    pool.resize(3).unwrap();
    let ups = |kind: &&EventKind| matches!(kind, EventKind::ScaledUp { .. });
    drop(pool);
    assert_eq!(kinds_of(kept).iter().filter(ups).count(), 2);
}
