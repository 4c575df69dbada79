//! What cannot work is refused with a typed error that says what was wrong, and nothing panics.
//!
//! Each refusal is made to happen at its bound and one beyond, and the bound itself must work.

use crate::busy::{Busy, pool, start};
use crate::eventually::promptly;
use millpond::{Pool, PoolConfig, ScaleSettings, StartError, SubmitError, TaskOptions, WORKERS_MAX};
use std::error::Error;
use std::time::{Duration, Instant};

fn plain() -> PoolConfig {
    PoolConfig { workers: 1, ..PoolConfig::default() }
}

/// What is said about a configuration that is refused: field, least, most, asked.
fn out_of_bounds(config: PoolConfig) -> (&'static str, usize, usize, usize) {
    match Pool::start(config) {
        Err(StartError::OutOfBounds { field, least, most, asked, .. }) => (field, least, most, asked),
        other => panic!("expected OutOfBounds, got {other:?}"),
    }
}

#[test]
fn a_pool_of_no_workers_or_too_many_is_refused() {
    assert_eq!(out_of_bounds(PoolConfig { workers: 0, ..plain() }), ("workers", 1, WORKERS_MAX, 0));
    let asked = WORKERS_MAX + 1;
    assert_eq!(out_of_bounds(PoolConfig { workers: asked, ..plain() }), ("workers", 1, WORKERS_MAX, asked));
    let fewer = PoolConfig { workers: 3, workers_max: 2, ..plain() };
    assert_eq!(out_of_bounds(fewer), ("workers_max", 3, WORKERS_MAX, 2));
    let more = PoolConfig { workers_max: WORKERS_MAX + 1, ..plain() };
    assert_eq!(out_of_bounds(more), ("workers_max", 1, WORKERS_MAX, WORKERS_MAX + 1));
}

#[test]
fn every_limit_of_zero_is_refused_by_its_name() {
    let zeros = [
        PoolConfig { queue_capacity: 0, ..plain() },
        PoolConfig { local_capacity: 0, ..plain() },
        PoolConfig { inbox_capacity: 0, ..plain() },
        PoolConfig { futures_max: 0, ..plain() },
        PoolConfig { lane_weights: [1, 0, 1], ..plain() },
    ];
    let names = ["queue_capacity", "local_capacity", "inbox_capacity", "futures_max", "lane_weights"];
    for (config, name) in zeros.into_iter().zip(names) {
        let (field, least, _, asked) = out_of_bounds(config);
        assert_eq!((field, least, asked), (name, 1, 0));
    }
}

#[test]
fn every_limit_too_large_is_refused_by_its_name() {
    let huge = usize::MAX;
    let large = [
        PoolConfig { queue_capacity: huge, ..plain() },
        PoolConfig { local_capacity: huge, ..plain() },
        PoolConfig { inbox_capacity: huge, ..plain() },
        PoolConfig { futures_max: huge, ..plain() },
    ];
    let names = ["queue_capacity", "local_capacity", "inbox_capacity", "futures_max"];
    for (config, name) in large.into_iter().zip(names) {
        let (field, _, most, asked) = out_of_bounds(config);
        assert_eq!((field, asked), (name, huge));
        assert!(most < huge);
    }
    let (field, _, most, asked) = out_of_bounds(PoolConfig { lane_weights: [1, 1, 65], ..plain() });
    assert_eq!((field, most, asked), ("lane_weights", 64, 65));
}

#[test]
fn the_smallest_pool_works() {
    promptly("the tasks run", || {
        let pool = start(PoolConfig {
            workers: 1,
            workers_max: 1,
            queue_capacity: 1,
            local_capacity: 1,
            inbox_capacity: 1,
            futures_max: 1,
            lane_weights: [1, 1, 1],
            spin: Duration::ZERO,
            name: String::new(),
            ..PoolConfig::default()
        });
        for number in 0..100 {
            assert_eq!(pool.submit(move || number).unwrap().wait().unwrap(), number);
            assert_eq!(pool.spawn_async(async move { number }).unwrap().wait().unwrap(), number);
        }
    });
}

#[test]
fn a_name_that_no_thread_can_have_is_refused() {
    let error = Pool::start(PoolConfig { name: "a\0b".to_owned(), ..plain() }).unwrap_err();
    assert!(matches!(&error, StartError::Name(name) if name == "a\0b"));
    assert_eq!(error.to_string(), "name: expected text without a zero byte, got \"a\\0b\"");
}

#[test]
fn a_stack_that_cannot_be_had_is_an_error_and_not_a_panic() {
    promptly("the pool does not start", || {
        for bytes in [1 << 48, 1 << 62, usize::MAX] {
            let error =
                Pool::start(PoolConfig { workers: 2, stack_bytes: Some(bytes), ..plain() }).unwrap_err();
            assert!(matches!(error, StartError::Thread(_)), "{error:?}");
            assert!(error.source().is_some());
            let words = error.to_string();
            assert!(words.starts_with("cannot start a worker thread: "), "{words}");
            assert!(words.ends_with("; lower workers or stack_bytes"), "{words}");
        }
    });
}

#[test]
fn a_size_out_of_bounds_is_refused_and_changes_nothing() {
    let pool = start(PoolConfig { workers: 2, workers_max: 3, ..PoolConfig::default() });
    let refused = |asked| pool.resize(asked).unwrap_err().to_string();
    assert_eq!(refused(0), "workers: expected 1 to 3, got 0");
    assert_eq!(refused(4), "workers: expected 1 to 3, got 4; raise workers_max");
    assert_eq!(
        refused(usize::MAX),
        format!("workers: expected 1 to 3, got {}; raise workers_max", usize::MAX)
    );
    assert_eq!(pool.metrics().workers_wanted, 2);
    pool.resize(3).unwrap();
}

#[test]
fn scaling_beyond_workers_max_is_refused_and_says_what_to_raise() {
    let scaling = Some(ScaleSettings { workers_max: 9, ..ScaleSettings::default() });
    let error = Pool::start(PoolConfig { workers_max: 8, scaling, ..plain() }).unwrap_err();
    assert_eq!(error.to_string(), "scaling.workers_max: expected 1 to 8, got 9; raise workers_max");
}

#[test]
fn a_deadline_in_the_past_is_refused_and_the_task_comes_back() {
    let pool = pool(1);
    let past = [
        TaskOptions { deadline: Some(Instant::now()), ..TaskOptions::default() },
        TaskOptions { timeout: Some(Duration::ZERO), ..TaskOptions::default() },
        TaskOptions {
            timeout: Some(Duration::from_secs(1)),
            expected: Some(Duration::from_secs(2)),
            ..TaskOptions::default()
        },
    ];
    for options in &past {
        let with = pool.with(options);
        let refused = with.submit(|| 7).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "task cannot be done by its deadline; submit it earlier or give it more time"
        );
        let SubmitError::TooLate(task) = refused else { panic!("expected TooLate") };
        assert_eq!(task(), 7);
        assert!(matches!(with.try_submit(|| ()), Err(SubmitError::TooLate(_))));
        assert!(matches!(with.spawn(|| ()), Err(SubmitError::TooLate(_))));
        assert!(matches!(with.spawn_async(async {}), Err(SubmitError::TooLate(_))));
        let batch = with.submit_batch([|| 1, || 2]).unwrap_err();
        assert_eq!((batch.accepted.len(), batch.rest.len()), (0, 1));
    }
    assert_eq!(pool.metrics().ended(), 0);
}

#[test]
fn an_expectation_past_the_end_of_the_clock_is_too_late_and_not_a_panic() {
    let pool = pool(1);
    let for_ever = TaskOptions {
        timeout: Some(Duration::from_secs(3600)),
        expected: Some(Duration::MAX),
        ..TaskOptions::default()
    };
    assert!(matches!(pool.with(&for_ever).submit(|| ()), Err(SubmitError::TooLate(_))));
    let without_deadline = TaskOptions { timeout: None, ..for_ever };
    assert_eq!(pool.with(&without_deadline).submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_drained_pool_says_closed_whatever_it_is_asked() {
    let pool = pool(1);
    assert!(pool.drain(Duration::MAX).is_finished());
    let refused = pool.submit(|| 7).unwrap_err();
    assert_eq!(refused.to_string(), "pool is closed; it takes nothing more");
    assert_eq!(refused.into_inner()(), 7);
    for affinity in [None, Some(1)] {
        let options = TaskOptions { affinity, name: Some("late".into()), ..TaskOptions::default() };
        let with = pool.with(&options);
        assert!(matches!(with.submit(|| ()), Err(SubmitError::Closed(_))));
        assert!(matches!(with.try_submit(|| ()), Err(SubmitError::Closed(_))));
        assert!(matches!(with.submit_timeout(|| (), Duration::MAX), Err(SubmitError::Closed(_))));
        assert!(matches!(with.spawn(|| ()), Err(SubmitError::Closed(_))));
        assert!(matches!(with.spawn_async(async {}), Err(SubmitError::Closed(_))));
    }
    pool.pause();
    pool.resume();
    pool.resize(2).unwrap();
    assert!(pool.drain(Duration::ZERO).is_finished());
}

#[test]
fn errors_say_what_happened_and_what_to_do() {
    let pool = start(PoolConfig { queue_capacity: 1, ..plain() });
    let _busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let full = pool.try_spawn(|| ()).unwrap_err();
    assert_eq!(
        full.to_string(),
        "pool is full; try again later or raise queue_capacity (for futures also futures_max)"
    );
    assert_eq!(format!("{full:?}"), "Full(..)");
    let late = pool.submit_timeout(|| (), Duration::from_millis(1)).unwrap_err();
    assert_eq!(
        late.to_string(),
        "pool stayed full for the whole wait; try again later or raise queue_capacity"
    );
}
