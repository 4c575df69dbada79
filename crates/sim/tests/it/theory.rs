//! Waiting times against their formulas: Erlang C, Pollaczek and Khinchine, round robin, the power of two choices.
//!
//! Means of waiting times converge slowly near full load. The runs are so long that each tolerance is at least two and
//! a half times the standard error, as the spread over sixteen other seeds gives it.

use millpond_sim::{SHARED, Scenario, Service, simulate, strategies};

/// How far a figure is from what theory says, as a share of it.
fn off(measured: f64, theory: f64) -> f64 {
    (measured / theory - 1.0).abs()
}

/// The mean wait of some runs of the same scenario with different seeds, in mean service times.
fn mean_wait(scenario: &Scenario, runs: u64) -> f64 {
    let wait = |seed| {
        let outcome = simulate(&Scenario { seed, ..scenario.clone() });
        outcome.expect("the scenario is possible").wait_mean_ns
    };
    let mean_ns = (1..=runs).map(wait).sum::<f64>() / runs as f64;
    mean_ns / scenario.service_mean.as_nanos() as f64
}

/// The chance that all `workers` are busy in M/M/c, by the recursion of Erlang B, which never overflows.
fn erlang_c(workers: u32, load: f64) -> f64 {
    let offered = f64::from(workers) * load;
    let blocked = (1..=workers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    blocked / (1.0 - load * (1.0 - blocked))
}

/// The mean wait in M/M/c, in mean service times.
pub(crate) fn mmc_wait(workers: u32, load: f64) -> f64 {
    erlang_c(workers, load) / (f64::from(workers) * (1.0 - load))
}

#[test]
fn erlang_c_is_what_the_tables_say() {
    assert!(off(erlang_c(1, 0.7), 0.7) < 1e-12, "with one worker it is the load");
    assert!(off(erlang_c(2, 0.5), 1.0 / 3.0) < 1e-12, "with two it is 2ρ²/(1+ρ)");
    assert!(off(erlang_c(10, 0.8), 0.409_180) < 1e-4, "8 erlangs on 10 servers");
}

#[test]
fn one_queue_for_all_waits_as_long_as_erlang_c_says() {
    for (workers, load, tasks, runs) in
        [(1, 0.5, 1_000_000, 1), (1, 0.8, 2_000_000, 1), (4, 0.7, 2_000_000, 1), (16, 0.9, 4_000_000, 6)]
    {
        let scenario = Scenario { workers, load, tasks, ..Scenario::default() };
        let (measured, theory) = (mean_wait(&scenario, runs), mmc_wait(workers, load));
        assert!(off(measured, theory) < 0.02, "{workers} workers at {load}: {measured}, by theory {theory}");
    }
}

#[test]
fn with_one_worker_every_strategy_is_the_same_queue() {
    let scenario = Scenario { workers: 1, load: 0.8, tasks: 20_000, seed: 5, ..Scenario::default() };
    let shared = simulate(&scenario).unwrap();
    for (strategy, _) in strategies().filter(|(name, _)| *name != SHARED) {
        let outcome = simulate(&Scenario { strategy: strategy.into(), ..scenario.clone() }).unwrap();
        assert_eq!(outcome.waits, shared.waits, "{strategy}");
        assert_eq!(outcome.simulated, shared.simulated, "{strategy}");
    }
}

#[test]
fn one_worker_waits_as_long_as_pollaczek_and_khinchine_say() {
    // The mean wait is ρ/(1−ρ) · (1 + variation)/2, so with constant times it is half of that with exponential ones.
    let (load, exponential) = (0.8, 4.0);
    for (service, variation, tolerance) in
        [(Service::Constant, 0.0, 0.02), (Service::Exponential, 1.0, 0.02), (Service::Bimodal, 2.02, 0.03)]
    {
        let scenario = Scenario { workers: 1, load, tasks: 4_000_000, service, ..Scenario::default() };
        let (measured, theory) = (mean_wait(&scenario, 1), exponential * (1.0 + variation) / 2.0);
        assert!(off(measured, theory) < tolerance, "{service:?}: {measured}, by theory {theory}");
    }
}

#[test]
fn two_workers_in_turn_wait_as_long_as_every_second_arrival_makes_them() {
    // Each is a queue with Erlang-2 gaps: σ = (2ρ / (2ρ + 1 − σ))², and the mean wait is σ/(1−σ).
    let load = 0.8;
    let step = |sigma: f64| (2.0 * load / (2.0 * load + 1.0 - sigma)).powi(2);
    let sigma = (0..1000).fold(0.5, |sigma, _| step(sigma));
    let scenario = Scenario {
        workers: 2,
        load,
        tasks: 5_000_000,
        strategy: "round-robin".into(),
        ..Scenario::default()
    };
    let (measured, theory) = (mean_wait(&scenario, 1), sigma / (1.0 - sigma));
    assert!(off(measured, theory) < 0.02, "{measured}, by theory {theory}");
}

#[test]
fn random_choice_is_as_many_queues_of_one_worker() {
    let (workers, load) = (50, 0.8);
    let scenario =
        Scenario { workers, load, tasks: 5_000_000, strategy: "random".into(), ..Scenario::default() };
    let outcome = simulate(&scenario).unwrap();
    assert!(off(outcome.wait_mean_ns / 1e6, mmc_wait(1, load)) < 0.02, "{}", outcome.wait_mean_ns);
    for (at, share) in outcome.load_at_least[..6].iter().enumerate() {
        let theory = load.powi(at as i32 + 1);
        assert!(off(*share, theory) < 0.03, "at least {}: {share}, by theory {theory}", at + 1);
    }
}

#[test]
fn two_choices_shorten_the_queues_as_their_fixed_point_says() {
    // With many workers the share of those with at least k tasks tends to ρ^(2^k − 1), where random choice has ρ^k.
    let (workers, load) = (1000, 0.9);
    let run = |strategy: &str| {
        simulate(&Scenario {
            workers,
            load,
            tasks: 2_000_000,
            strategy: strategy.into(),
            ..Scenario::default()
        })
        .unwrap()
    };
    let two = run("power-of-two");
    for (k, tolerance) in [(1, 0.02), (2, 0.02), (3, 0.03), (4, 0.06)] {
        let theory = f64::powi(load, (1 << k) - 1);
        let measured = two.load_at_least[k - 1];
        assert!(off(measured, theory) < tolerance, "at least {k}: {measured}, by theory {theory}");
    }
    let random = run("random");
    let p99 = |outcome: &millpond_sim::Outcome| outcome.waits.percentiles().p99;
    assert!(5 * p99(&two) < p99(&random), "p99 {} against {}", p99(&two), p99(&random));
    assert!(two.load_at_least[7] < 1e-4 && random.load_at_least[7] > 0.3, "queues of eight and more");
}
