//! An idle pool uses no processor: its workers sleep, and nothing wakes them.
//!
//! Not a matter of timing: the kernel keeps, in nanoseconds, how long each thread has run. Of a thread that sleeps
//! that number does not change at all, however long one looks; of one that polls it does. So the test looks for a
//! while and asks for equality. It is alone in its process, so that all the workers seen are its own.

#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond::{Pool, PoolConfig, TaskOptions};
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// So long the pool is watched. A poll every second would be seen by chance only, one every 10 ms for sure.
const WATCHED: Duration = Duration::from_millis(400);

/// How long each thread of the pool has run, in nanoseconds, by its name.
fn run_times(name: &str) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may end while the list is read.
        let Ok(of) = fs::read_to_string(thread.path().join("comm")) else { continue };
        let Ok(schedule) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        if of.starts_with(name) {
            let time = schedule.split_whitespace().next().unwrap().parse().unwrap();
            times.insert(of.trim().to_owned(), time);
        }
    }
    times
}

fn sleeps(pool: &Pool) -> Vec<u64> {
    pool.metrics().workers.iter().map(|worker| worker.sleeps).collect()
}

fn until_asleep(pool: &Pool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while pool.metrics().workers_asleep != pool.metrics().workers_wanted {
        assert!(Instant::now() < deadline, "the workers do not fall asleep: {:#?}", pool.metrics());
        thread::yield_now();
    }
}

/// The run times of threads that are asleep by the pool's account, when they are so by the kernel's as well.
fn settled_run_times(name: &str) -> BTreeMap<String, u64> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut times = run_times(name);
    loop {
        // Longer than a worker dozes before it sleeps for good.
        thread::sleep(Duration::from_millis(100));
        let again = run_times(name);
        if again == times {
            return times;
        }
        assert!(Instant::now() < deadline, "the workers never rest: {times:?}, then {again:?}");
        times = again;
    }
}

#[test]
fn workers_without_work_sleep_and_use_no_processor() {
    let pool =
        Pool::start(PoolConfig { workers: 4, name: "quiet".to_owned(), ..PoolConfig::default() }).unwrap();
    // Whatever wakes workers has been used: tasks, futures, deadlines, and workers that have retired.
    let hour = TaskOptions { timeout: Some(Duration::from_secs(3600)), ..TaskOptions::default() };
    for _ in 0..100 {
        pool.submit(|| ()).unwrap().wait().unwrap();
        pool.spawn_async(millpond::yield_now()).unwrap().wait().unwrap();
        pool.with(&hour).submit(|| ()).unwrap().wait().unwrap();
    }
    until_asleep(&pool);
    let (times, slept) = (settled_run_times("quiet"), sleeps(&pool));
    assert_eq!(times.keys().filter(|name| !name.contains("timer")).count(), 4, "{times:?}");
    thread::sleep(WATCHED);
    assert_eq!(run_times("quiet"), times, "nanoseconds that each thread has run");
    assert_eq!(sleeps(&pool), slept, "nobody rose and lay down again");
    assert_eq!(pool.metrics().workers_asleep, 4);
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7, "and yet they wake for work");
}
