//! What must hold for every run: each task is accounted for, a seed repeats its run, and bad ends are told.
//!
//! These are promises about single runs, exact where they can be; what is true only on average is in `theory.rs`.

use millpond_policy::Moment;
use millpond_policy::choose::{Choice, Choose, Reason};
use millpond_policy::scale::ScaleSettings;
use millpond_policy::steal::StealSettings;
use millpond_policy::view::{Columns, TaskView, Views};
use millpond_sim::{
    Arrivals, Scenario, Service, SimError, Trace, Unwatched, Watch, simulate, simulate_watched,
    simulate_with, strategies,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

fn scenario() -> Scenario {
    Scenario { workers: 8, tasks: 20_000, seed: 42, ..Scenario::default() }
}

fn bursts() -> Arrivals {
    Arrivals::Bursts { on: Duration::from_millis(100), off: Duration::from_millis(300) }
}

#[test]
fn every_task_is_accounted_for_whatever_the_settings() {
    let diurnal = Arrivals::Diurnal { period: Duration::from_millis(500), swing: 1.0 };
    let scaling = ScaleSettings {
        workers_min: 2,
        workers_max: 20,
        interval: Duration::from_millis(10),
        cooldown: Duration::from_millis(20),
        scale_down_idle: Duration::from_millis(5),
        step_up: 3,
        step_down: 5,
        samples: 1,
        ..ScaleSettings::default()
    };
    for (strategy, _) in strategies() {
        for arrivals in [Arrivals::Poisson, Arrivals::Even, bursts(), diurnal.clone()] {
            for service in Service::ALL {
                for extras in 0..4 {
                    let scenario = Scenario {
                        tasks: 3_000,
                        strategy: strategy.into(),
                        arrivals: arrivals.clone(),
                        service: *service,
                        speeds: vec![1.0, 0.7, 1.3],
                        stealing: (extras & 1 > 0).then(StealSettings::default),
                        scaling: (extras & 2 > 0).then_some(scaling),
                        ..scenario()
                    };
                    // The simulator checks the sums itself and would answer with an error.
                    let outcome = simulate(&scenario).unwrap();
                    assert_eq!(outcome.waits.count(), 3_000, "{scenario:?}");
                }
            }
        }
    }
}

#[test]
fn tasks_present_are_arrivals_a_second_times_seconds_spent() {
    for strategy in ["shared", "random", "power-of-two"] {
        let outcome = simulate(&Scenario { strategy: strategy.into(), ..scenario() }).unwrap();
        let rate = outcome.tasks as f64 / outcome.simulated.as_nanos() as f64;
        let by_little = rate * outcome.sojourn_mean_ns;
        assert!((by_little / outcome.present_mean - 1.0).abs() < 1e-9, "{strategy}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_another() {
    for (strategy, _) in strategies() {
        let run = |seed| {
            let stealing = Some(StealSettings::default());
            let scenario = Scenario { strategy: strategy.into(), seed, stealing, ..scenario() };
            simulate(&scenario).unwrap()
        };
        let (one, again, other) = (run(7), run(7), run(8));
        assert_eq!(format!("{one:?}"), format!("{again:?}"), "{strategy}");
        assert_ne!(one, other, "{strategy}");
    }
}

#[test]
fn a_seed_means_the_same_run_on_every_machine_and_in_every_release() {
    let outcome = simulate(&scenario()).unwrap();
    let heavy =
        simulate(&Scenario { service: Service::HeavyTail, arrivals: bursts(), ..scenario() }).unwrap();
    assert_eq!((outcome.simulated.as_nanos(), outcome.waits.max()), (2_770_354_463, Some(10_174_318)));
    assert_eq!((heavy.simulated.as_nanos(), heavy.waits.max()), (2_818_120_068, Some(1_096_335_299)));
}

#[test]
fn a_trace_small_enough_to_check_by_hand_gives_the_waits_worked_out_by_hand() {
    // Two workers. The first two begin at once and end at 10 and 4. The third takes the second worker at 4 and ends
    // at 9; the fourth follows it at 9. Waits: 0, 0, 2, 6.
    let trace = Trace::read("hand", "0,10\n0,4\n2,5\n3,1\n".as_bytes()).unwrap();
    let arrivals = Arrivals::Trace(Arc::new(trace));
    let outcome = simulate(&Scenario { workers: 2, tasks: 4, arrivals, ..scenario() }).unwrap();
    assert_eq!(outcome.wait_mean_ns, 2e9);
    assert_eq!(outcome.sojourn_mean_ns, 7e9);
    assert_eq!((outcome.waits.min(), outcome.waits.max()), (Some(0), Some(6_000_000_000)));
    assert_eq!(outcome.simulated, Duration::from_secs(10));
    assert_eq!(outcome.utilisation, 1.0);
    assert_eq!(outcome.fairness, 1.0, "both were busy for 10 s");
}

#[test]
fn a_crew_at_half_the_speed_takes_twice_as_long_for_the_same_load() {
    let full = simulate(&scenario()).unwrap();
    let half = simulate(&Scenario { speeds: vec![0.5], ..scenario() }).unwrap();
    assert!((half.wait_mean_ns / full.wait_mean_ns - 2.0).abs() < 1e-4);
    assert!((half.utilisation - full.utilisation).abs() < 1e-4);
}

#[test]
fn the_rougher_the_arrivals_the_longer_the_wait() {
    let wait = |arrivals| {
        let scenario = Scenario { tasks: 100_000, load: 0.7, arrivals, ..scenario() };
        simulate(&scenario).unwrap().wait_mean_ns
    };
    let diurnal = Arrivals::Diurnal { period: Duration::from_secs(2), swing: 0.8 };
    let (even, poisson, day, burst) =
        (wait(Arrivals::Even), wait(Arrivals::Poisson), wait(diurnal), wait(bursts()));
    assert!(1.5 * even < poisson && 3.0 * poisson < day && day < burst, "{even} {poisson} {day} {burst}");
}

#[test]
fn a_crew_with_too_much_to_do_still_ends_every_task() {
    let outcome = simulate(&Scenario { load: 2.0, ..scenario() }).unwrap();
    assert!(outcome.utilisation > 0.99);
    // Half of all tasks are still to be done when the last one comes, after 20 000 / 16 mean service times.
    let last_wait = Duration::from_nanos(outcome.waits.max().unwrap_or(0));
    assert!((1.0..1.5).contains(&(last_wait.as_secs_f64() / 1.25)), "{last_wait:?}");
}

/// Stops after so many looks.
struct Impatient(u32);

impl Watch for Impatient {
    fn progress(&mut self, _arrived: u64) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn whoever_looks_on_may_stop_the_run() {
    let scenario = Scenario { tasks: 1_000_000, ..scenario() };
    assert_eq!(simulate_watched(&scenario, &mut Impatient(3)), Err(SimError::Stopped));
}

/// Chooses the worker behind the last one.
#[derive(Debug)]
struct Nobody;

impl Choose for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    fn reads(&self) -> Columns {
        Columns::NONE
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        Some(Choice { at: workers.len(), worker: 0, reason: Reason::Custom("none of them") })
    }
}

#[test]
fn a_strategy_that_chooses_nobody_is_named() {
    let error = simulate_with(&scenario(), Box::new(Nobody), &mut Unwatched).unwrap_err();
    assert_eq!(error, SimError::BadChoice { strategy: "nobody".into() });
}

#[test]
fn an_unknown_strategy_is_told_what_there_is() {
    let error = simulate(&Scenario { strategy: "shard".into(), ..scenario() }).unwrap_err().to_string();
    assert!(error.starts_with("strategy: expected one of round-robin, "), "{error}");
    assert!(error.ends_with(", shared, got \"shard\"; did you mean \"shared\"?"), "{error}");
}
