//! Scaling in a run is what the pure policy says, look by look.
//!
//! The run is watched: at every look the load that the policy was shown is shown to a second one, which must decide
//! the same; and the next look must find as many workers as were decided.

use millpond_policy::Moment;
use millpond_policy::scale::{Decision, Load, ScaleSettings, Scaler};
use millpond_sim::{Arrivals, Scenario, Watch, simulate, simulate_watched};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn settings() -> ScaleSettings {
    ScaleSettings {
        workers_min: 2,
        workers_max: 24,
        interval: 20 * MS,
        cooldown: 40 * MS,
        scale_down_idle: 5 * MS,
        ..ScaleSettings::default()
    }
}

/// Five days of a second and a half each: the crew must grow in the morning and shrink at night.
fn scenario(strategy: &str) -> Scenario {
    Scenario {
        workers: 8,
        tasks: 60_000,
        load: 1.0,
        arrivals: Arrivals::Diurnal { period: 1500 * MS, swing: 1.0 },
        strategy: strategy.into(),
        scaling: Some(settings()),
        seed: 9,
        ..Scenario::default()
    }
}

struct Replay {
    policy: Scaler,
    looks: u64,
    ups: u64,
    downs: u64,
    /// How many workers there should be at the next look.
    workers: u32,
    peak: u32,
    arrivals: u64,
}

impl Watch for Replay {
    fn scaling_looked(&mut self, now: Moment, load: &Load, decision: &Decision) {
        self.looks += 1;
        assert_eq!(now.as_nanos(), self.looks * 20_000_000, "it looks at its interval");
        assert_eq!(load.workers, self.workers, "the last decision was carried out, and nothing else was");
        assert_eq!(*decision, self.policy.decide(load, now));
        assert!(load.arrivals_total >= self.arrivals.max(load.waiting + load.running));
        self.arrivals = load.arrivals_total;
        assert_eq!(load.waiting > 0, load.oldest_wait > Duration::ZERO);
        match *decision {
            Decision::Stay(_) => {}
            Decision::Up { to, .. } => (self.ups, self.workers) = (self.ups + 1, to),
            Decision::Down { to, .. } => (self.downs, self.workers) = (self.downs + 1, to),
        }
        self.peak = self.peak.max(self.workers);
    }
}

#[test]
fn the_crew_grows_and_shrinks_as_the_pure_policy_says() {
    for strategy in ["shared", "least-busy", "fair-share", "power-of-two"] {
        let policy = Scaler::new(settings()).unwrap();
        let mut replay = Replay { policy, looks: 0, ups: 0, downs: 0, workers: 8, peak: 8, arrivals: 0 };
        let outcome = simulate_watched(&scenario(strategy), &mut replay).unwrap();
        assert_eq!((outcome.scale_ups, outcome.scale_downs), (replay.ups, replay.downs), "{strategy}");
        assert_eq!((outcome.workers_end, outcome.workers_peak), (replay.workers, replay.peak), "{strategy}");
        assert!(replay.ups > 10 && replay.downs > 10, "{strategy}: {} up, {} down", replay.ups, replay.downs);
        assert!((12..=24).contains(&replay.peak), "{strategy}: peak {}", replay.peak);
    }
}

#[test]
fn a_crew_below_the_least_is_filled_up_at_the_first_look() {
    let mut scenario = scenario("shared");
    scenario.scaling = Some(ScaleSettings { workers_min: 24, ..settings() });
    let outcome = simulate(&scenario).unwrap();
    assert_eq!((outcome.scale_ups, outcome.workers_end, outcome.workers_peak), (1, 24, 24));
}

#[test]
fn a_crew_that_may_grow_waits_less_than_one_that_may_not() {
    let scaled = simulate(&scenario("shared")).unwrap();
    let fixed = simulate(&Scenario { scaling: None, ..scenario("shared") }).unwrap();
    assert!(3.0 * scaled.wait_mean_ns < fixed.wait_mean_ns, "{} {}", scaled.wait_mean_ns, fixed.wait_mean_ns);
    assert_eq!((fixed.scale_ups, fixed.scale_downs, fixed.workers_peak), (0, 0, 8));
}

#[test]
fn what_waits_for_a_worker_that_must_go_is_passed_on() {
    let scaling = Some(ScaleSettings { workers_max: 4, ..settings() });
    for strategy in ["random", "round-robin", "least-used", "fair-share"] {
        // Too much to do, so that at the first look tasks wait for each of the twenty workers.
        let scenario = Scenario { workers: 20, load: 1.5, tasks: 5_000, scaling, ..scenario(strategy) };
        let outcome = simulate(&scenario).unwrap();
        assert_eq!(
            (outcome.scale_downs, outcome.workers_peak, outcome.workers_end),
            (1, 20, 4),
            "{strategy}"
        );
        assert!(outcome.wait_mean_ns > 100e6, "{strategy}: four must do what was for twenty");
    }
}
