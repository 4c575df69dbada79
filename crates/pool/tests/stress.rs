//! Everything at once: tasks of every kind from many threads and from tasks, cancelled, timed out, panicking, while
//! the pool is resized, paused, purged, scaled, given other strategies and ended. Every task ends in exactly one way,
//! and the counters add up exactly.
//!
//! Each round starts a pool, lets four threads and their tasks loose on it, meddles, and ends it in one of several
//! ways. Every task holds a witness and leaves marks in a ledger; when the pool is gone the ledger must make sense
//! word by word and agree with the pool's own numbers.
//!
//! `MILLPOND_STRESS_SECONDS` sets how long it takes (5 if it is not given), and `MILLPOND_SEED` repeats the random
//! choices, though not the timing, of an earlier run.

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "stress/dice.rs"]
mod dice;
#[path = "stress/ledger.rs"]
mod ledger;
#[path = "stress/tasks.rs"]
mod tasks;
#[path = "stress/watchdog.rs"]
mod watchdog;

use dice::Dice;
use ledger::Ledger;
use millpond::policy::affinity::Method;
use millpond::policy::steal::StealSize;
use millpond::{
    AffinitySettings, BackPressure, Hook, MetricsConfig, Pool, PoolConfig, ScaleSettings, StealSettings,
    Strategy,
};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tasks::{Mill, Submitter};

const THREADS: u64 = 4;
/// The most tasks of a round, so that its ledger stays small.
const TASKS_MAX: usize = 100_000;
/// The longest round, so that every configuration has its turn.
const ROUND: Duration = Duration::from_millis(150);

/// Tiny, lopsided and roomy pools.
fn configs() -> Vec<PoolConfig> {
    let sizes = [
        // workers, workers_max, queue_capacity, inbox_capacity, futures_max
        (1, 0, 1, 1, 4),
        (2, 0, 2, 1, 8),
        (8, 0, 3, 2, 64),
        (2, 2, 4, 4, 1000),
        (1, 1, 4, 4, 1000),
        (1, 0, 1024, 64, 65_536),
        (2, 0, 4096, 64, 65_536),
        (8, 12, 4096, 64, 65_536),
    ];
    let config = |(workers, workers_max, queue_capacity, inbox_capacity, futures_max)| PoolConfig {
        workers,
        workers_max,
        queue_capacity,
        local_capacity: queue_capacity,
        inbox_capacity,
        futures_max,
        // Some pools sleep at once, so that every wake-up counts.
        spin: Duration::from_micros(if queue_capacity % 2 == 0 { 20 } else { 0 }),
        ..PoolConfig::default()
    };
    sizes.into_iter().map(config).collect()
}

/// The same pool with policies drawn by lot; every second one keeps the defaults.
fn with_policies(config: PoolConfig, dice: &mut Dice) -> PoolConfig {
    if dice.below(2) == 0 {
        return config;
    }
    let sizes = [StealSize::One, StealSize::Half, StealSize::All];
    let policies = [
        BackPressure::Block { timeout: None },
        BackPressure::Block { timeout: Some(Duration::from_millis(1)) },
        BackPressure::Reject,
        BackPressure::DropNewest,
        BackPressure::DropOldest,
        BackPressure::CallerRuns,
    ];
    let most = if config.workers_max == 0 { 8 } else { config.workers_max.min(8) };
    let scaling = ScaleSettings {
        workers_min: 1,
        workers_max: most as u32,
        scale_down_idle: Duration::from_micros(100),
        cooldown: Duration::ZERO,
        samples: 1,
        interval: Duration::from_millis(1),
        ..ScaleSettings::default()
    };
    PoolConfig {
        batch_max: [1, 8, 64][dice.below(3) as usize],
        strategy: any_strategy(dice),
        back_pressure: policies[dice.below(policies.len() as u64) as usize],
        stealing: StealSettings {
            enabled: dice.below(4) > 0,
            size: sizes[dice.below(3) as usize],
            cooldown: Duration::from_micros(dice.below(2) * 100),
            ..StealSettings::default()
        },
        affinity: AffinitySettings {
            method: if dice.below(2) == 0 { Method::Ring } else { Method::Rendezvous },
            sticky_for: (dice.below(2) == 0).then_some(Duration::from_millis(1)),
            steal_after: Duration::from_micros(dice.below(3) * 50),
            ..AffinitySettings::default()
        },
        scaling: (dice.below(2) == 0).then_some(scaling),
        metrics: MetricsConfig { sample_every: dice.below(3) as u32, ..MetricsConfig::default() },
        ..config
    }
}

fn any_strategy(dice: &mut Dice) -> Strategy {
    let names: Vec<_> = Strategy::names().collect();
    Strategy::named(names[dice.below(names.len() as u64) as usize]).unwrap()
}

#[test]
fn every_task_ends_in_exactly_one_way_and_the_counters_add_up() {
    let seconds = env::var("MILLPOND_STRESS_SECONDS").ok();
    let seconds = seconds.map_or(5, |text| text.parse().expect("MILLPOND_STRESS_SECONDS: whole seconds"));
    let (seed, start) = (dice::seed(), Instant::now());
    watchdog::start();
    let (mut rounds, mut tasks) = (0, 0);
    while rounds == 0 || start.elapsed() < Duration::from_secs(seconds) {
        for config in configs() {
            tasks += round(config, seed, rounds);
            rounds += 1;
        }
    }
    println!("{rounds} rounds, {tasks} tasks in {:.1} s", start.elapsed().as_secs_f64());
}

/// One pool, from its start to its end. Returns how many tasks it was offered.
fn round(config: PoolConfig, seed: u64, number: u64) -> usize {
    let most = if config.workers_max == 0 { 8 } else { config.workers_max.min(8) };
    let mut dice = Dice::new(seed, number);
    let end = dice.below(6);
    let shown = format!(
        "round {number} of seed {seed}: {} to {} workers, {} places, end {end}",
        config.workers, config.workers_max, config.queue_capacity
    );
    // It lives as long as anything of the pool does.
    let whole = Arc::new(());
    let part = Arc::clone(&whole);
    let config = PoolConfig { on_start: Some(Hook::new(move |_| drop(Arc::clone(&part)))), ..config };
    let config = with_policies(config, &mut dice);
    let shown = format!("{shown}, {:?}, {:?}, {:?}", config.strategy, config.back_pressure, config.stealing);
    // A submitter that ran the task which is to be given the pool could not give it.
    let runs_itself = config.back_pressure == BackPressure::CallerRuns;
    let end = if runs_itself { end.min(4) } else { end };
    let drops = matches!(config.back_pressure, BackPressure::DropOldest | BackPressure::DropNewest);
    let (pool, start) = (Pool::start(config).unwrap(), Instant::now());
    let mill = Arc::new(Mill { pool: pool.handle(), ledger: Ledger::new(TASKS_MAX) });
    watchdog::watch(Some((shown.clone(), pool.handle())));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let submitter = Submitter::new(&mill, Dice::new(dice.next(), thread), 0);
            let over = &over;
            scope.spawn(move || keep_submitting(submitter, over));
        }
        meddle(&pool, &mut dice, most);
        if end == 0 {
            over.store(true, Relaxed);
        }
        // From here on the submitters are refused, unless they have left already.
        finish(pool, end, &mill.ledger, &shown);
        over.store(true, Relaxed);
    });
    let metrics = mill.pool.metrics();
    println!("{shown}: {} tasks in {:.2} s", mill.ledger.len(), start.elapsed().as_secs_f64());
    mill.ledger.check(&metrics, drops, &shown);
    let tasks = mill.ledger.len();
    drop(mill);
    watchdog::watch(None);
    let given_up = Instant::now() + Duration::from_secs(30);
    while Arc::strong_count(&whole) > 1 {
        assert!(Instant::now() < given_up, "{shown}: something of the pool is left for good");
        thread::yield_now();
    }
    tasks
}

fn keep_submitting(mut submitter: Submitter, over: &AtomicBool) {
    while !over.load(Relaxed) && submitter.act().is_ok() {}
    submitter.settle();
}

/// Resizes, pauses, purges and changes the strategy for a while.
fn meddle(pool: &Pool, dice: &mut Dice, workers_max: usize) {
    let start = Instant::now();
    while start.elapsed() < ROUND {
        match dice.below(9) {
            8 => drop(pool.set_strategy(&any_strategy(dice))),
            0..=2 => _ = pool.resize(1 + dice.below(workers_max as u64) as usize).unwrap(),
            3 => {
                pool.pause();
                (0..dice.below(20)).for_each(|_| thread::yield_now());
                pool.resume();
            }
            4 => {
                let report = pool.purge();
                assert!(report.running <= 8 + 64, "{report:?}");
            }
            _ => thread::sleep(Duration::from_micros(dice.below(2000))),
        }
    }
}

/// Ends a pool in one of the ways there are.
fn finish(pool: Pool, end: u64, ledger: &Arc<Ledger>, round: &str) {
    match end {
        0 | 1 => {
            let report = pool.drain(Duration::MAX);
            assert!(report.is_finished(), "{round}: {report:?}");
        }
        2 => {
            pool.drain(Duration::from_micros(100));
            let report = pool.stop(Duration::MAX);
            assert!(report.is_finished(), "{round}: {report:?}");
        }
        3 => {
            let report = pool.stop(Duration::MAX);
            assert!(report.is_finished(), "{round}: {report:?}");
        }
        4 => drop(pool),
        _ => let_a_task_end(pool, ledger),
    }
}

/// Gives the pool to one of its own tasks, which drops it.
fn let_a_task_end(pool: Pool, ledger: &Arc<Ledger>) {
    let Some(witness) = ledger.witness(false) else { return drop(pool) };
    let (number, handle, (given, gets)) = (witness.number(), pool.handle(), mpsc::channel::<Pool>());
    let ends = handle.submit(move || {
        witness.begin();
        drop(gets.recv());
        witness.end();
    });
    // If a purge was quicker, nobody is there to take it, and it comes back and is dropped here.
    drop(given.send(pool));
    match ends {
        Ok(ends) => ledger.told(number, &ends.wait()),
        Err(refused) => {
            // There was no room for it. The pool is on its way to the task, and goes with it.
            ledger.refused(number);
            drop(refused);
        }
    }
    // Its own thread was not waited for.
    while handle.metrics().workers_running > 0 {
        thread::yield_now();
    }
}
