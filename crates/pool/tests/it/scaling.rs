//! Scaling: the pool follows the pure policy decision for decision, and no task is lost while workers come and go.
//!
//! A recorded trace is replayed with a clock that is told, so that every decision can be compared. Then the pool's own
//! watch is let loose on real tasks: it is looked at only when it has settled, and ended at every moment.
//!
//! Not here: what the policy decides and why (`crates/policy/tests/scale.rs`).

use crate::busy::{Busy, pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::strategies::named;
use crate::witness::add;
use millpond::policy::scale::{Decision, Load, Predict, Reason};
use millpond::{EventKind, Moment, Pool, PoolConfig, ScaleSettings, StartError, TaskOptions};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const TRACE: &str = include_str!("../../../../tests/vectors/scale-trace.json");

/// Settings under which nothing but the load decides, for a pool of one to three workers.
fn eager(interval: Duration) -> ScaleSettings {
    ScaleSettings {
        workers_max: 3,
        scale_down_idle: Duration::ZERO,
        cooldown: Duration::ZERO,
        samples: 1,
        interval,
        ..ScaleSettings::default()
    }
}

fn scaling_pool(workers: usize, scaling: ScaleSettings) -> Pool {
    start(PoolConfig { workers, scaling: Some(scaling), ..PoolConfig::default() })
}

fn wanted(pool: &Pool) -> usize {
    pool.metrics().workers_wanted
}

/// The names and values of one line of the trace; one that holds others has an empty value.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let (mut pairs, mut rest) = (Vec::new(), line);
    while let Some((_, named)) = rest.split_once('"') {
        let (name, after) = named.split_once("\": ").unwrap();
        let (value, left) = match after.strip_prefix('"') {
            Some(text) => text.split_once('"').unwrap(),
            None => after.split_at(after.find([',', '{', '[', '}']).unwrap_or(after.len())),
        };
        pairs.push((name, value));
        rest = left;
    }
    pairs
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// The settings of a case. A name that is not known here fails, or a setting would be passed over in silence.
fn settings(line: &str) -> ScaleSettings {
    // The watch must not decide in between.
    let mut settings = ScaleSettings { interval: HOUR, ..ScaleSettings::default() };
    for (name, value) in pairs(line) {
        let whole = || value.parse().unwrap();
        let fraction = || value.parse::<f64>().unwrap();
        match name {
            "name" | "settings" | "steps" => {}
            "workers_min" => settings.workers_min = whole(),
            "workers_max" => settings.workers_max = whole(),
            "samples" => settings.samples = whole(),
            "step_up" => settings.step_up = whole(),
            "step_down" => settings.step_down = whole(),
            "scale_up_threshold" => settings.scale_up_threshold = fraction(),
            "scale_down_threshold" => settings.scale_down_threshold = fraction(),
            "scale_down_idle_ms" => settings.scale_down_idle = millis(value),
            "cooldown_ms" => settings.cooldown = millis(value),
            "wait_max_ms" => settings.wait_max = Some(millis(value)),
            "predict" => settings.predict = Some(Predict::default()),
            "horizon_ms" => settings.predict.as_mut().unwrap().horizon = millis(value),
            "half_life_ms" => settings.predict.as_mut().unwrap().half_life = millis(value),
            "utilisation" => settings.predict.as_mut().unwrap().utilisation = fraction(),
            unknown => panic!("a setting of the trace that the replay does not know: {unknown}"),
        }
    }
    settings
}

/// One sample of the trace, when it was taken, and what is to be decided: what, how many workers then, and why.
fn step(line: &str) -> (Load, Moment, (String, u32, String)) {
    let (mut load, mut now, mut expected) = (Load::default(), Moment::ZERO, Default::default());
    for (name, value) in pairs(line) {
        let whole = || value.parse().unwrap();
        match name {
            "expect" => {}
            "now_ms" => now = Moment::ZERO + millis(value),
            "workers" => load.workers = value.parse().unwrap(),
            "waiting" => load.waiting = whole(),
            "running" => load.running = whole(),
            "idle_long" => load.idle_long = value.parse().unwrap(),
            "oldest_wait_ms" => load.oldest_wait = millis(value),
            "arrivals_total" => load.arrivals_total = whole(),
            "run_mean_ns" => load.run_mean_ns = whole(),
            "decision" => expected = (value.to_owned(), 0, String::new()),
            "to" => expected.1 = value.parse().unwrap(),
            "reason" => expected.2 = value.to_owned(),
            unknown => panic!("a part of the trace that the replay does not know: {unknown}"),
        }
    }
    (load, now, expected)
}

#[test]
fn a_pool_follows_a_recorded_trace_decision_for_decision() {
    let mut replayed = 0;
    let cases = TRACE.split("{\"name\"").skip(1).map(|case| format!("{{\"name\"{case}"));
    for case in cases {
        let (head, steps) = case.split_once('\n').unwrap();
        let steps: Vec<_> =
            steps.lines().map(str::trim).filter(|line| line.starts_with("{\"now_ms\"")).map(step).collect();
        let pool = scaling_pool(steps[0].0.workers as usize, settings(head));
        let events = pool.events(10_000);
        let mut changes = Vec::new();
        for (load, now, expected) in steps {
            assert_eq!(wanted(&pool), load.workers as usize, "{head} at {now}");
            let decision = pool.scale(&load, now).unwrap();
            let (from, reason) = (load.workers as usize, Some(decision.reason()));
            let (what, to) = match decision {
                Decision::Stay(_) => ("stay", load.workers),
                Decision::Up { to, .. } => {
                    changes.push(EventKind::ScaledUp { from, to: to as usize, reason });
                    ("up", to)
                }
                Decision::Down { to, .. } => {
                    changes.push(EventKind::ScaledDown { from, to: to as usize, reason });
                    ("down", to)
                }
            };
            assert_eq!((what.to_owned(), to, decision.reason().to_string()), expected, "{head} at {now}");
            assert_eq!(wanted(&pool), to as usize, "{head} at {now}");
            replayed += 1;
        }
        let told: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(|event| event.kind).collect();
        let is_change =
            |kind: &EventKind| matches!(kind, EventKind::ScaledUp { .. } | EventKind::ScaledDown { .. });
        let told: Vec<_> = told.into_iter().filter(is_change).collect();
        assert!(!changes.is_empty(), "{head}: a trace that changes nothing shows nothing");
        assert_eq!((told, events.missed()), (changes.clone(), 0), "{head}");
        let scaling = pool.metrics().scaling;
        assert_eq!(scaling.ups + scaling.downs, changes.len() as u64, "{head}");
    }
    assert_eq!(replayed, TRACE.matches("\"now_ms\"").count(), "no step is passed over");
    assert!(replayed > 100);
}

#[test]
fn a_pool_that_does_not_scale_decides_nothing() {
    let pool = pool(2);
    assert_eq!(pool.scale(&Load { workers: 2, waiting: 1000, ..Load::default() }, Moment::ZERO), None);
    assert_eq!(wanted(&pool), 2);
}

#[test]
fn settings_that_cannot_work_are_refused_with_what_is_allowed() {
    let plain = ScaleSettings::default;
    let predict = |predict: Predict| ScaleSettings { predict: Some(predict), ..plain() };
    let a_number = "expected a number from 0.001 to 1000000, got";
    let cases = [
        (
            ScaleSettings { workers_min: 4, workers_max: 3, ..plain() },
            "scaling.workers_min: expected 1 to workers_max (3), got 4".to_owned(),
        ),
        (
            ScaleSettings { workers_min: 0, ..plain() },
            "scaling.workers_min: expected 1 to workers_max (8), got 0".to_owned(),
        ),
        (
            ScaleSettings { workers_max: 0, ..plain() },
            "scaling.workers_max: expected 1 to 66, got 0".to_owned(),
        ),
        (
            ScaleSettings { scale_up_threshold: 0.0, ..plain() },
            format!("scaling.scale_up_threshold: {a_number} 0"),
        ),
        (
            ScaleSettings { scale_up_threshold: f64::NAN, ..plain() },
            format!("scaling.scale_up_threshold: {a_number} NaN"),
        ),
        (
            ScaleSettings { scale_up_threshold: f64::INFINITY, ..plain() },
            format!("scaling.scale_up_threshold: {a_number} inf"),
        ),
        (
            ScaleSettings { scale_down_threshold: -1.0, ..plain() },
            format!("scaling.scale_down_threshold: {a_number} -1"),
        ),
        (
            ScaleSettings { scale_down_threshold: 2.0, ..plain() },
            "scaling.scale_down_threshold: expected less than scale_up_threshold (2), got 2".to_owned(),
        ),
        (
            ScaleSettings { interval: Duration::ZERO, ..plain() },
            "scaling.interval: expected more than 0 s, got 0 s".to_owned(),
        ),
        (
            predict(Predict { utilisation: f64::NAN, ..Predict::default() }),
            "scaling.predict.utilisation: expected a number from 0.01 to 1, got NaN".to_owned(),
        ),
    ];
    for (scaling, message) in cases {
        let config = PoolConfig { workers: 2, scaling: Some(scaling), ..PoolConfig::default() };
        assert_eq!(Pool::start(config).unwrap_err().to_string(), message);
    }
    for (name, scaling) in [
        ("scaling.step_up", ScaleSettings { step_up: 0, ..plain() }),
        ("scaling.step_down", ScaleSettings { step_down: 0, ..plain() }),
        ("scaling.samples", ScaleSettings { samples: 0, ..plain() }),
    ] {
        let config = PoolConfig { scaling: Some(scaling), ..PoolConfig::default() };
        let message = Pool::start(config).unwrap_err().to_string();
        assert!(message.starts_with(name) && message.contains("expected 1 to"), "{message}");
    }
    let config = PoolConfig { workers: 2, workers_max: 4, scaling: Some(plain()), ..PoolConfig::default() };
    let error = Pool::start(config).unwrap_err();
    assert!(matches!(error, StartError::OutOfBounds { field: "scaling.workers_max", most: 4, asked: 8, .. }));
}

/// Tasks that all wait until the sender is dropped.
fn gated(pool: &Pool, tasks: usize) -> mpsc::Sender<()> {
    let (gate, waits) = mpsc::channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    for _ in 0..tasks {
        let waits = Arc::clone(&waits);
        let until_open = move || {
            let _ = waits.lock().unwrap().recv();
        };
        pool.spawn(until_open).unwrap();
    }
    gate
}

#[test]
fn the_watch_adds_workers_while_tasks_wait_and_lets_them_go_when_they_are_idle() {
    promptly("the number of workers follows", || {
        let pool = scaling_pool(1, eager(Duration::from_millis(1)));
        let events = pool.events(1000);
        let gate = gated(&pool, 6);
        eventually("there are three and all are busy", || {
            let metrics = pool.metrics();
            (metrics.workers_wanted, metrics.workers_running, metrics.workers_busy) == (3, 3, 3)
        });
        drop(gate);
        eventually("there is one again", || {
            (wanted(&pool), pool.metrics().workers_running, pool.metrics().completed) == (1, 1, 6)
        });
        // A change is counted when it has been made.
        eventually("each change is counted", || {
            let scaling = pool.metrics().scaling;
            (scaling.ups, scaling.downs) == (2, 2)
        });
        drop(pool);
        let mut sizes = vec![1];
        for event in events {
            match event.kind {
                EventKind::ScaledUp { from, to, reason: Some(Reason::Load { .. }) }
                | EventKind::ScaledDown { from, to, reason: Some(Reason::Idle { .. }) } => {
                    assert_eq!(sizes.last(), Some(&from));
                    sizes.push(to);
                }
                EventKind::ScaledUp { .. } | EventKind::ScaledDown { .. } => {
                    panic!("for another reason: {event}")
                }
                _ => {}
            }
        }
        assert_eq!(sizes, [1, 2, 3, 2, 1]);
    });
}

#[test]
fn the_watch_adds_a_worker_for_a_task_that_waits_too_long() {
    promptly("the task runs", || {
        let scaling = ScaleSettings {
            scale_up_threshold: 1000.0,
            wait_max: Some(Duration::from_millis(1)),
            ..eager(Duration::from_millis(1))
        };
        let pool = scaling_pool(1, scaling);
        let events = pool.events(1000);
        let gate = gated(&pool, 1);
        eventually("it runs", || pool.metrics().workers_busy == 1);
        assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
        drop(gate);
        drop(pool);
        let mut reasons = events.filter_map(|event| match event.kind {
            EventKind::ScaledUp { reason, .. } => reason,
            _ => None,
        });
        assert!(matches!(reasons.next(), Some(Reason::OldestWait { .. })));
    });
}

#[test]
fn how_long_tasks_run_and_wait_is_known_whoever_chooses_workers() {
    for strategy in ["shared", "round-robin"] {
        let scaling = ScaleSettings { predict: Some(Predict::default()), ..eager(HOUR) };
        let pool = start(PoolConfig {
            workers: 1,
            strategy: named(strategy),
            scaling: Some(scaling),
            ..PoolConfig::default()
        });
        until_asleep(&pool);
        for _ in 0..1000 {
            pool.submit(|| (0..1000).map(std::hint::black_box).sum::<u64>()).unwrap().wait().unwrap();
        }
        assert!(pool.load().0.run_mean_ns > 0, "{strategy}: one in so many is timed");
        let _busy = Busy::one(&pool);
        pool.spawn(|| ()).unwrap();
        let (first, since) = pool.load();
        assert_eq!((first.waiting, first.running, first.arrivals_total), (1, 1, 1002), "{strategy}");
        let millisecond = Duration::from_millis(1);
        eventually("the clock has moved", || pool.load().1.since(since) > millisecond);
        assert!(pool.load().0.oldest_wait > millisecond, "{strategy}");
    }
}

#[test]
fn a_size_out_of_the_bounds_of_scaling_is_put_right_by_the_watch() {
    let scaling = ScaleSettings { workers_min: 2, ..eager(Duration::from_millis(1)) };
    let pool = scaling_pool(1, scaling);
    eventually("there are as many as there must be", || wanted(&pool) == 2);
    pool.resize(5).unwrap();
    eventually("there are as many as there may be, or fewer", || wanted(&pool) <= 3);
    eventually("the others have left", || pool.metrics().workers_running <= 3);
}

#[test]
fn scaling_and_resizing_at_once_lose_and_repeat_nothing() {
    promptly("all tasks run", || {
        for strategy in ["shared", "round-robin"] {
            let pool = start(PoolConfig {
                workers: 1,
                strategy: named(strategy),
                scaling: Some(eager(Duration::from_micros(100))),
                ..PoolConfig::default()
            });
            let (runs, over) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    for task in 0..20_000 {
                        let runs = Arc::clone(&runs);
                        let options = TaskOptions {
                            affinity: (task % 3 == 0).then_some(task),
                            ..TaskOptions::default()
                        };
                        pool.with(&options).spawn(move || add(&runs, 1)).unwrap();
                    }
                    over.store(true, Relaxed);
                });
                let mut sizes = [3, 1, 2].into_iter().cycle();
                while !over.load(Relaxed) {
                    pool.resize(sizes.next().unwrap()).unwrap();
                    let (load, now) = pool.load();
                    pool.scale(&load, now).unwrap();
                }
            });
            let report = pool.drain(Duration::MAX);
            assert!(report.is_finished(), "{report:?}");
            assert_eq!((runs.load(Relaxed), pool.metrics().completed), (20_000, 20_000), "{strategy}");
        }
    });
}

#[test]
fn a_pool_may_be_ended_at_any_moment_of_its_scaling() {
    promptly("every pool ends", || {
        for round in 0..100 {
            let pool = scaling_pool(1 + round % 3, eager(Duration::from_micros(1)));
            let gate = gated(&pool, round % 7);
            drop(gate);
            match round % 4 {
                0 => assert!(pool.stop(Duration::MAX).is_finished()),
                1 => drop(pool),
                2 => assert!(pool.drain(Duration::MAX).is_finished()),
                _ => {
                    until_asleep(&pool);
                    assert!(pool.stop(Duration::MAX).is_finished());
                }
            }
        }
    });
}
