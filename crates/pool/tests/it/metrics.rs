//! The numbers a pool tells: at rest they add up to the last task, and each one counts what it says.
//!
//! Counters that are nearly right are worse than none. So these tests bring a pool to rest and compare for equality.

use crate::busy::{Busy, pool, small_pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use millpond::policy::view::WorkerState;
use millpond::{
    BackPressure, LatencyMetrics, MetricsConfig, Pool, PoolConfig, Priority, Strategy, SubmitError,
    TaskOptions,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_new_pool_has_done_nothing_and_soon_sleeps() {
    let pool = pool(3);
    until_asleep(&pool);
    let metrics = pool.metrics();
    assert_eq!((metrics.workers_wanted, metrics.workers_running, metrics.workers_asleep), (3, 3, 3));
    assert_eq!((metrics.workers_searching, metrics.workers_standing_still), (0, 0));
    assert_eq!((metrics.tasks_waiting, metrics.futures_live, metrics.ended()), (0, 0, 0));
    assert_eq!((metrics.hooks_panicked, metrics.workers_unrelieved, metrics.workers.len()), (0, 0, 3));
}

#[test]
fn what_waits_runs_and_ended_adds_up_to_what_was_taken_in() {
    promptly("the pool comes to rest", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let soon = TaskOptions { timeout: Some(Duration::from_millis(1)), ..TaskOptions::default() };
        let expires = pool.with(&soon).submit(|| ()).unwrap();
        assert!(expires.wait().is_err());
        (0..5).for_each(|_| pool.spawn(|| ()).unwrap());
        (0..3).for_each(|_| pool.spawn(|| std::panic::resume_unwind(Box::new(1))).unwrap());
        let cancelled = pool.submit(|| ()).unwrap();
        cancelled.cancel();
        let metrics = pool.metrics();
        assert_eq!((metrics.expired, metrics.cancelled, metrics.ended()), (1, 1, 2));
        assert_eq!(metrics.tasks_waiting, 8, "those that have ended do not wait");
        busy.release();
        assert!(pool.drain(Duration::MAX).is_finished());
        let metrics = pool.metrics();
        assert_eq!((metrics.completed, metrics.panicked, metrics.cancelled), (6, 3, 1));
        assert_eq!((metrics.expired, metrics.timed_out, metrics.tasks_waiting), (1, 0, 0));
        assert_eq!(metrics.ended(), 11);
        let worker = metrics.workers[0];
        assert_eq!((worker.completed, worker.panicked, worker.tasks_waiting), (6, 3, 0));
    });
}

#[test]
fn each_lane_tells_how_much_waits_and_was_refused() {
    let pool = small_pool(1, 2);
    let _busy = Busy::one(&pool);
    for (priority, count) in Priority::ALL.into_iter().zip([0, 1, 3]) {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        for _ in 0..count {
            let _ = pool.with(&options).try_spawn(|| ());
        }
    }
    let metrics = pool.metrics();
    assert_eq!(metrics.lanes.map(|lane| lane.len), [0, 1, 2]);
    assert_eq!(metrics.lanes.map(|lane| lane.capacity), [2, 2, 2]);
    assert_eq!(metrics.lanes.map(|lane| lane.rejected), [0, 0, 1]);
    assert_eq!(metrics.tasks_waiting, 3);
}

#[test]
fn stolen_tasks_are_counted_by_the_thief() {
    promptly("the tasks are stolen", || {
        let pool = pool(2);
        until_asleep(&pool);
        let (handle, (told, tells)) = (pool.handle(), mpsc::channel());
        let owner = pool.submit(move || {
            for number in 0..10 {
                let told = told.clone();
                handle.spawn(move || told.send(number).unwrap()).unwrap();
            }
            drop(told);
            // The owner does not return before the other worker has done them all.
            tells.iter().count()
        });
        assert_eq!(owner.unwrap().wait().unwrap(), 10);
        until_asleep(&pool);
        assert_eq!(pool.metrics().workers.iter().map(|worker| worker.stolen).sum::<u64>(), 10);
    });
}

#[test]
fn live_futures_are_counted_from_submit_to_end() {
    let (pool, door) = (pool(1), Arc::new(Door::default()));
    let busy = Busy::one(&pool);
    let waits = Arc::clone(&door);
    let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
    assert_eq!((pool.metrics().futures_live, pool.metrics().tasks_waiting), (1, 1));
    busy.release();
    door.until_somebody_waits();
    eventually("it is suspended", || format!("{ticket:?}").contains("idle"));
    assert_eq!((pool.metrics().futures_live, pool.metrics().tasks_waiting), (1, 0));
    door.open();
    ticket.wait().unwrap();
    assert_eq!((pool.metrics().futures_live, pool.metrics().completed), (0, 2));
}

#[test]
fn numbers_outlive_the_pool() {
    let pool = pool(2);
    let handle = pool.handle();
    (0..100).for_each(|_| pool.submit(|| ()).unwrap().wait().unwrap());
    drop(pool);
    let metrics = handle.metrics();
    assert_eq!((metrics.completed, metrics.ended(), metrics.tasks_waiting), (100, 100, 0));
    assert_eq!((metrics.workers_running, metrics.workers_asleep), (0, 0), "nobody is left");
    assert_eq!(metrics.workers.iter().map(|worker| worker.completed).sum::<u64>(), 100);
}

#[test]
fn a_pool_shows_its_name_and_size() {
    let pool = start(PoolConfig { workers: 2, name: "mill".to_owned(), ..PoolConfig::default() });
    let shown = format!("{pool:?}");
    assert!(shown.contains("name: \"mill\"") && shown.contains("workers: 2"), "{shown}");
}

/// A pool that times one task in so many.
fn timing_pool(workers: usize, sample_every: u32) -> Pool {
    let metrics = MetricsConfig { sample_every, ..MetricsConfig::default() };
    start(PoolConfig { workers, metrics, ..PoolConfig::default() })
}

#[test]
fn one_task_in_so_many_is_timed_whichever_way_it_came() {
    for (every, least, most) in [(0, 0, 0), (1, 6400, 6400), (64, 98, 102)] {
        let pool = timing_pool(2, every);
        for number in 0..3200 {
            pool.spawn(|| ()).unwrap();
            let ticket = pool.submit(move || number);
            assert_eq!(ticket.unwrap().wait().unwrap(), number);
        }
        assert!(pool.drain(Duration::MAX).is_finished());
        let metrics = pool.metrics();
        assert!((least..=most).contains(&metrics.wait.timed), "one in {every}: {} waits", metrics.wait.timed);
        assert_eq!(metrics.wait.timed, metrics.run.timed, "what began has ended");
        assert_eq!(metrics.completed, 6400);
    }
}

#[test]
fn a_wait_and_a_run_are_as_long_as_they_were() {
    let pool = timing_pool(1, 1);
    let busy = Busy::one(&pool);
    let before = Instant::now();
    let (began, begins) = mpsc::channel();
    let (go_on, told) = mpsc::channel();
    let ticket = pool.submit(move || {
        began.send(Instant::now()).unwrap();
        told.recv().unwrap();
    });
    let after = Instant::now();
    eventually("some time passes", || after.elapsed() > Duration::from_millis(5));
    busy.release();
    let begun = begins.recv().unwrap();
    let of_busy = pool.metrics();
    eventually("some time passes", || begun.elapsed() > Duration::from_millis(3));
    go_on.send(()).unwrap();
    ticket.unwrap().wait().unwrap();
    eventually("it is noted", || pool.metrics().run.timed == 2);
    let metrics = pool.metrics();
    let (wait, run) = (metrics.wait.sum - of_busy.wait.sum, metrics.run.sum - of_busy.run.sum);
    assert!(wait >= Duration::from_millis(5) && wait <= begun - before, "{wait:?}");
    assert!(run >= Duration::from_millis(3), "{run:?}");
    assert_eq!((of_busy.wait.timed, metrics.wait.timed), (1, 2));
    assert_eq!(metrics.throughput.latency_mean, metrics.wait.mean + metrics.run.mean);
    assert!(metrics.throughput.tasks_per_second > 0.0);
}

#[test]
fn percentiles_and_buckets_rise() {
    let bounds: Vec<_> = [1_u64, 2, 5, 10, 1000].map(Duration::from_micros).to_vec();
    let metrics = MetricsConfig { sample_every: 1, bounds: bounds.clone() };
    let pool = start(PoolConfig { workers: 2, metrics, ..PoolConfig::default() });
    (0..500).for_each(|_| pool.submit(|| ()).unwrap().wait().unwrap());
    assert!(pool.drain(Duration::MAX).is_finished());
    let metrics = pool.metrics();
    for latency in [&metrics.wait, &metrics.run] {
        let LatencyMetrics { min, p50, p90, p95, p99, p999, max, .. } = *latency;
        assert!([min, p50, p90, p95, p99, p999, max].is_sorted(), "{latency:?}");
        assert!((min..=max).contains(&latency.mean) && latency.timed == 500, "{latency:?}");
        assert!(latency.buckets.iter().map(|bucket| bucket.le).eq(bounds.iter().copied()));
        assert!(latency.buckets.is_sorted_by_key(|bucket| bucket.count), "{latency:?}");
        assert!(latency.buckets.iter().all(|bucket| bucket.count <= 500), "{latency:?}");
    }
}

#[test]
fn bounds_that_do_not_rise_are_refused_by_name() {
    let bounds = vec![Duration::from_millis(5), Duration::from_millis(1)];
    let metrics = MetricsConfig { bounds, ..MetricsConfig::default() };
    let refused = Pool::start(PoolConfig { metrics, ..PoolConfig::default() }).unwrap_err().to_string();
    let expected =
        "metrics.bounds: expected 1 to 64 times, each longer than the one before, got 1ms after 5ms";
    assert_eq!(refused, expected);
}

#[test]
fn a_worker_tells_who_it_is_and_what_it_does() {
    let pool = timing_pool(2, 1);
    let busy = Busy::one(&pool);
    let at = busy.thread.rsplit('-').next().unwrap().parse::<usize>().unwrap();
    let workers = pool.metrics().workers;
    assert_eq!(workers.iter().map(|worker| worker.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((workers[at].state, workers[at].active), (WorkerState::Busy, 1));
    assert_eq!((workers[at].run_total, workers[at].utilisation), (Duration::ZERO, 0.0), "it has not ended");
    busy.release();
    until_asleep(&pool);
    let metrics = pool.metrics();
    let worker = metrics.workers[at];
    assert_eq!((worker.state, worker.active, worker.completed), (WorkerState::Ready, 0, 1));
    assert!(worker.run_total > Duration::ZERO && worker.run_mean == worker.run_total, "{worker:?}");
    assert!(worker.utilisation > 0.0 && worker.utilisation <= 1.0, "{worker:?}");
    assert!(worker.run_total <= metrics.uptime, "{worker:?}");
}

#[test]
fn a_strategy_that_times_every_task_tells_when_sampling_does_not() {
    let metrics = MetricsConfig { sample_every: 0, ..MetricsConfig::default() };
    let strategy = Strategy::named("fair-share").unwrap();
    let pool = start(PoolConfig { workers: 1, metrics, strategy, ..PoolConfig::default() });
    pool.submit(|| ()).unwrap().wait().unwrap();
    eventually("its end is noted", || pool.metrics().workers[0].run_mean > Duration::ZERO);
    assert_eq!(pool.metrics().run.timed, 0);
}

#[test]
fn what_full_queues_meant_is_counted_and_adds_up() {
    let refused_and_dropped = |back_pressure, sample_every| {
        let metrics = MetricsConfig { sample_every, ..MetricsConfig::default() };
        let config =
            PoolConfig { workers: 1, queue_capacity: 2, back_pressure, metrics, ..PoolConfig::default() };
        let pool = start(config);
        let busy = Busy::one(&pool);
        let taken = (0..10).filter(|_| pool.spawn(|| ()).is_ok()).count() as u64 + 1;
        let metrics = pool.metrics();
        let known = metrics.ended() + metrics.tasks_waiting as u64 + metrics.workers_busy as u64;
        assert_eq!(known, taken, "{back_pressure}: {metrics:?}");
        busy.release();
        assert!(pool.drain(Duration::MAX).is_finished());
        let metrics = pool.metrics();
        assert_eq!((metrics.ended(), metrics.tasks_waiting), (taken, 0), "{back_pressure}: {metrics:?}");
        assert_eq!(metrics.dropped, metrics.pressure.dropped_newest + metrics.pressure.dropped_oldest);
        metrics
    };
    for every in [0, 1] {
        let reject = refused_and_dropped(BackPressure::Reject, every);
        assert_eq!((reject.pressure.refused, reject.completed), (8, 3));
        let newest = refused_and_dropped(BackPressure::DropNewest, every);
        assert_eq!((newest.pressure.dropped_newest, newest.completed), (8, 3));
        let oldest = refused_and_dropped(BackPressure::DropOldest, every);
        assert_eq!((oldest.pressure.dropped_oldest, oldest.completed), (8, 3));
        let caller = refused_and_dropped(BackPressure::CallerRuns, every);
        assert_eq!((caller.pressure.ran_by_caller, caller.completed), (8, 11));
        assert_eq!(
            caller.run.timed,
            u64::from(every) * 11,
            "tasks that ran on the caller's thread are timed too"
        );
        let timeout = Some(Duration::from_millis(1));
        let block = refused_and_dropped(BackPressure::Block { timeout }, every);
        assert_eq!((block.pressure.timed_out, block.pressure.refused, block.completed), (8, 0, 3));
    }
}

#[test]
fn a_refused_task_that_would_have_been_timed_comes_back_as_it_was() {
    let metrics = MetricsConfig { sample_every: 1, ..MetricsConfig::default() };
    let pool = start(PoolConfig { workers: 1, queue_capacity: 1, metrics, ..PoolConfig::default() });
    let _busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let (words, letters) = ([7_u64; 6], "mill".to_owned());
    match pool.try_submit(move || (words.iter().sum::<u64>(), letters)) {
        Err(SubmitError::Full(task)) => assert_eq!(task(), (42, "mill".to_owned())),
        other => panic!("the queue is full, and yet: {other:?}"),
    }
    match pool.try_spawn(move || assert_eq!(words.len(), 6)) {
        Err(SubmitError::Full(task)) => task(),
        other => panic!("the queue is full, and yet: {other:?}"),
    }
}

#[test]
fn tasks_with_a_key_are_counted_with_what_became_of_them() {
    let pool = start(PoolConfig { workers: 1, inbox_capacity: 2, ..PoolConfig::default() });
    assert_eq!(pool.metrics().affinity.hit_rate(), None);
    let busy = Busy::one(&pool);
    let keyed = TaskOptions { affinity: Some(7), ..TaskOptions::default() };
    (0..4).for_each(|_| pool.with(&keyed).spawn(|| ()).unwrap());
    busy.release();
    assert!(pool.drain(Duration::MAX).is_finished());
    let affinity = pool.metrics().affinity;
    assert_eq!((affinity.keyed, affinity.hits, affinity.moved), (4, 2, 0));
    assert_eq!(affinity.hit_rate(), Some(0.5));
}

#[test]
fn pictures_taken_while_tasks_run_never_go_back() {
    let pool = timing_pool(2, 4);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut last = pool.metrics();
            while !done.load(Relaxed) {
                let now = pool.metrics();
                assert!(now.completed >= last.completed && now.run.timed >= last.run.timed);
                assert!(now.queue.enqueued >= last.queue.enqueued && now.run.sum >= last.run.sum);
                assert!(now.uptime >= last.uptime);
                last = now;
            }
        });
        (0..20_000).for_each(|_| pool.spawn(|| ()).unwrap());
        assert!(pool.drain(Duration::MAX).is_finished());
        done.store(true, Relaxed);
        looks.join().unwrap();
    });
    let metrics = pool.metrics();
    assert_eq!((metrics.completed, metrics.queue.enqueued, metrics.queue.dequeued), (20_000, 20_000, 20_000));
    assert!((4998..=5002).contains(&metrics.run.timed), "{}", metrics.run.timed);
    let ran: Duration = metrics.workers.iter().map(|worker| worker.run_total).sum();
    assert_eq!(ran, metrics.run.sum * 4, "each timed task stands for four");
}

#[test]
fn the_number_of_workers_is_told_with_its_limits() {
    let pool = start(PoolConfig { workers: 3, workers_max: 9, ..PoolConfig::default() });
    let scaling = pool.metrics().scaling;
    assert_eq!((scaling.workers, scaling.workers_min, scaling.workers_max), (3, 1, 9));
    assert_eq!((scaling.ups, scaling.downs), (0, 0));
    pool.resize(4).unwrap();
    assert_eq!(pool.metrics().scaling.workers, 4);
}

#[test]
fn a_future_is_timed_until_its_first_step_and_to_its_end_only_if_that_is_the_same() {
    let (pool, door) = (timing_pool(1, 1), Arc::new(Door::default()));
    let waits = Arc::clone(&door);
    let waits = pool.spawn_async(async move { waits.pass().await }).unwrap();
    let at_once = pool.spawn_async(async {}).unwrap();
    door.until_somebody_waits();
    door.open();
    waits.wait().unwrap();
    at_once.wait().unwrap();
    assert!(pool.drain(Duration::MAX).is_finished());
    let metrics = pool.metrics();
    assert_eq!((metrics.wait.timed, metrics.run.timed, metrics.completed), (2, 1, 2));
}

#[test]
fn a_run_is_timed_where_it_happens_and_never_twice() {
    promptly("the pool runs dry", || {
        let pool = timing_pool(1, 1);
        let busy = Busy::one(&pool);
        let cancelled = pool.submit(|| ()).unwrap();
        cancelled.cancel();
        busy.release();
        let handle = pool.handle();
        // Run by whoever waits for it: what is left of it in the queue is nothing to be timed.
        let helped = pool.submit(move || handle.submit(|| ()).unwrap().wait().unwrap()).unwrap();
        helped.wait().unwrap();
        assert!(pool.drain(Duration::MAX).is_finished());
        let metrics = pool.metrics();
        assert_eq!((metrics.completed, metrics.cancelled), (3, 1));
        assert_eq!(metrics.run.timed, 2, "the one that kept the worker busy, and the one that waited");
        assert_eq!(metrics.wait.timed, 3, "those, and the place of the one that was cancelled");
    });
}
