//! Scaling decides as `tests/vectors/scale.json` and `scale-trace.json` say, and stays within its limits for
//! any load.
//!
//! The expectations come from another program, written from the rules in fractions and floating point. A pool
//! replays the same trace with a simulated clock and must end up with the same numbers of workers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_policy::Moment;
use millpond_policy::scale::{Decision, Load, Predict, ScaleSettings, Scaler};
use millpond_policy::view::{Views, WorkerState, WorkerView};
use serde_json::Value;
use std::time::Duration;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/scale.json")).unwrap()
}

fn traces() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/scale-trace.json")).unwrap()
}

fn short(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap())
}

/// JSON has no NaN and no infinity; those are strings.
fn fraction(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn change(mut settings: ScaleSettings, set: &Value) -> ScaleSettings {
    for (name, value) in set.as_object().into_iter().flatten() {
        match name.as_str() {
            "workers_min" => settings.workers_min = short(value),
            "workers_max" => settings.workers_max = short(value),
            "scale_up_threshold" => settings.scale_up_threshold = fraction(value),
            "scale_down_threshold" => settings.scale_down_threshold = fraction(value),
            "scale_down_idle_ms" => settings.scale_down_idle = millis(value),
            "step_up" => settings.step_up = short(value),
            "step_down" => settings.step_down = short(value),
            "cooldown_ms" => settings.cooldown = millis(value),
            "samples" => settings.samples = short(value),
            "wait_max_ms" => settings.wait_max = Some(millis(value)),
            "interval_ms" => settings.interval = millis(value),
            "predict" => settings.predict = Some(predict(value)),
            other => panic!("the vectors name a setting {other}"),
        }
    }
    settings
}

fn predict(set: &Value) -> Predict {
    let mut predict = Predict::default();
    for (name, value) in set.as_object().unwrap() {
        match name.as_str() {
            "horizon_ms" => predict.horizon = millis(value),
            "half_life_ms" => predict.half_life = millis(value),
            "utilisation" => predict.utilisation = fraction(value),
            other => panic!("the vectors name a setting predict.{other}"),
        }
    }
    predict
}

fn load(step: &Value) -> Load {
    let number = |name: &str| step[name].as_u64().unwrap_or(0);
    Load {
        workers: short(&step["workers"]),
        waiting: number("waiting"),
        running: number("running"),
        idle_long: number("idle_long") as u32,
        oldest_wait: Duration::from_millis(number("oldest_wait_ms")),
        arrivals_total: number("arrivals_total"),
        run_mean_ns: number("run_mean_ns"),
    }
}

/// Plays a case and checks every decision. Says how many workers there are in the end.
fn play(case: &Value) -> u32 {
    let name = case["name"].as_str().unwrap();
    let mut settings = change(ScaleSettings::default(), &case["settings"]);
    let mut scaler = Scaler::new(settings).unwrap();
    let mut workers = 0;
    for step in case["steps"].as_array().unwrap() {
        settings = change(settings, &step["set"]);
        scaler.set(settings).unwrap();
        let (load, now) = (load(step), Moment::ZERO + millis(&step["now_ms"]));
        let decision = scaler.decide(&load, now);
        let (word, to) = match decision {
            Decision::Stay(_) => ("stay", load.workers),
            Decision::Up { by, to, .. } => {
                assert_eq!(load.workers + by, to, "{name}, at {now}");
                ("up", to)
            }
            Decision::Down { by, to, .. } => {
                assert_eq!(load.workers - by, to, "{name}, at {now}");
                ("down", to)
            }
        };
        let expect = &step["expect"];
        let expected =
            (expect["decision"].as_str().unwrap(), short(&expect["to"]), expect["reason"].as_str().unwrap());
        assert_eq!((word, to, decision.reason().to_string().as_str()), expected, "{name}, at {now}");
        workers = to;
    }
    workers
}

#[test]
fn every_vector_is_decided_as_written() {
    for case in vectors()["cases"].as_array().unwrap() {
        play(case);
    }
}

#[test]
fn every_trace_is_followed_as_written() {
    for case in traces()["cases"].as_array().unwrap() {
        let steps = case["steps"].as_array().unwrap();
        let follows = |pair: &[Value]| pair[1]["workers"] == pair[0]["expect"]["to"];
        assert!(steps.windows(2).all(follows), "the trace obeys its own decisions");
        assert_eq!(play(case), short(&steps[steps.len() - 1]["expect"]["to"]));
    }
}

#[test]
fn bad_settings_are_refused_with_what_is_allowed_and_leave_the_old_ones() {
    for case in vectors()["settings"].as_array().unwrap() {
        let settings = change(ScaleSettings::default(), &case["set"]);
        let error = Scaler::new(settings).unwrap_err();
        assert_eq!(error.to_string(), case["error"].as_str().unwrap());
        assert_eq!(settings.check(), Err(error.clone()));
        let mut scaler = Scaler::new(ScaleSettings::default()).unwrap();
        assert_eq!(scaler.set(settings), Err(error));
        assert_eq!(*scaler.settings(), ScaleSettings::default());
    }
}

#[test]
fn a_picture_of_workers_becomes_a_load_as_written() {
    for case in vectors()["views"].as_array().unwrap() {
        let mut views = Views::default();
        for (id, worker) in case["workers"].as_array().unwrap().iter().enumerate() {
            let number = |name: &str| worker[name].as_u64().unwrap_or(0);
            let state = match worker["state"].as_str().unwrap() {
                "cold" => WorkerState::Cold,
                "warming" => WorkerState::Warming,
                "ready" => WorkerState::Ready,
                "busy" => WorkerState::Busy,
                "terminating" => WorkerState::Terminating,
                "terminated" => WorkerState::Terminated,
                other => panic!("the vectors name a state {other}"),
            };
            views.push(WorkerView {
                id: id as u32,
                state,
                running: number("running") as u32,
                queued: number("queued") as u32,
                run_mean_ns: number("run_mean_ns"),
                idle_since: Moment::ZERO + Duration::from_millis(number("idle_since_ms")),
                ..WorkerView::default()
            });
        }
        let now = Moment::ZERO + millis(&case["now_ms"]);
        let idle = millis(&case["scale_down_idle_ms"]);
        let got = Load::from_views(&views, case["waiting"].as_u64().unwrap(), idle, now);
        assert_eq!(got, load(&case["expect"]));
    }
}

#[test]
fn an_event_says_from_where_to_where_and_why() {
    let settings = ScaleSettings { samples: 1, step_up: 3, ..ScaleSettings::default() };
    let mut scaler = Scaler::new(settings).unwrap();
    let now = Moment::from_nanos(7);
    let up = scaler.decide(&Load { workers: 2, waiting: 9, running: 2, ..Load::default() }, now);
    let event = up.event(now).unwrap();
    assert_eq!((event.name(), event.from, event.to, event.workers(), event.at), ("scale-up", 2, 5, 3, now));
    let text = "scale-up from 2 to 5 workers: 5.500 tasks a worker; 2.000 is the threshold";
    assert_eq!(event.to_string(), text);
    let later = now + Duration::from_secs(5);
    let down = scaler.decide(&Load { workers: 5, idle_long: 5, ..Load::default() }, later);
    let event = down.event(later).unwrap();
    assert_eq!((event.name(), event.from, event.to, event.workers()), ("scale-down", 5, 4, 1));
    let stay = scaler.decide(&Load { workers: 4, running: 4, ..Load::default() }, later);
    assert_eq!(stay.event(later), None);
}

/// The next of a row of numbers that look random (xorshift64*).
fn draw(state: &mut u64, below: u32) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    ((state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % u64::from(below)) as u32
}

fn random_settings(state: &mut u64) -> ScaleSettings {
    let workers_min = 1 + draw(state, 4);
    let up = 0.1 + f64::from(draw(state, 40)) / 10.0;
    let predict = (draw(state, 2) == 0).then(Predict::default);
    ScaleSettings {
        workers_min,
        workers_max: workers_min + draw(state, 12),
        scale_up_threshold: up,
        scale_down_threshold: up * f64::from(1 + draw(state, 9)) / 10.0,
        step_up: 1 + draw(state, 5),
        step_down: 1 + draw(state, 5),
        cooldown: Duration::from_secs(draw(state, 6).into()),
        samples: 1 + draw(state, 3),
        wait_max: (draw(state, 3) == 0).then(|| Duration::from_millis(500)),
        predict,
        ..ScaleSettings::default()
    }
}

#[test]
fn whatever_the_load_the_number_stays_in_its_limits_and_rests_for_the_cooldown() {
    for seed in 1..=300_u64 {
        let mut state = seed;
        let settings = random_settings(&mut state);
        let mut scaler = Scaler::new(settings).unwrap();
        let (mut workers, mut now, mut arrivals_total) = (settings.workers_min, Moment::ZERO, 0);
        let mut last_change: Option<Moment> = None;
        for _ in 0..300 {
            now = now + Duration::from_millis(draw(&mut state, 2_000).into());
            let running = draw(&mut state, workers + 1);
            arrivals_total += u64::from(draw(&mut state, 200));
            let load = Load {
                workers,
                waiting: draw(&mut state, 40).saturating_sub(25).into(),
                running: running.into(),
                idle_long: draw(&mut state, workers - running + 1),
                oldest_wait: Duration::from_millis(draw(&mut state, 700).into()),
                arrivals_total,
                run_mean_ns: 50_000_000,
            };
            let decision = scaler.decide(&load, now);
            let Some(event) = decision.event(now) else { continue };
            let at = format!("seed {seed}, {now}: {event}");
            assert!((settings.workers_min..=settings.workers_max).contains(&event.to), "{at}");
            assert!(last_change.is_none_or(|last| now.since(last) >= settings.cooldown), "{at}");
            if event.to > event.from {
                assert!(event.workers() <= settings.step_up, "{at}");
            } else {
                assert!(event.workers() <= settings.step_down.min(load.idle_long), "{at}");
                assert_eq!(load.waiting, 0, "{at}");
                let ratio = f64::from(running) / f64::from(event.to);
                assert!(ratio < settings.scale_up_threshold, "{at}: the same load would ask for more again");
            }
            (workers, last_change) = (event.to, Some(now));
        }
    }
}

#[test]
fn a_steady_load_comes_to_rest() {
    for seed in 1..=300_u64 {
        let mut state = seed;
        let settings = ScaleSettings { predict: None, wait_max: None, ..random_settings(&mut state) };
        let mut scaler = Scaler::new(settings).unwrap();
        let tasks = draw(&mut state, 40);
        let (mut workers, mut directions) = (settings.workers_min + draw(&mut state, 9), Vec::new());
        for second in 0..600 {
            // As many run as can, and whoever runs nothing has long run nothing.
            let running = tasks.min(workers);
            let load = Load {
                workers,
                waiting: (tasks - running).into(),
                running: running.into(),
                idle_long: workers - running,
                ..Load::default()
            };
            if let Some(event) =
                scaler.decide(&load, Moment::from_nanos(second * 1_000_000_000)).event(Moment::ZERO)
            {
                directions.push(event.name());
                workers = event.to;
            }
        }
        directions.dedup();
        // A large step up may go too far, and some go again; but nobody is let go and asked back.
        let swings = directions.windows(2).any(|pair| pair == ["scale-down", "scale-up"]);
        assert!(!swings && directions.len() <= 2, "seed {seed}: {directions:?} for the same load");
    }
}

#[test]
fn looking_ahead_adds_workers_sooner_than_the_load_does() {
    let first_up = |predict: Option<Predict>| {
        let settings = ScaleSettings { workers_min: 2, predict, ..ScaleSettings::default() };
        let mut scaler = Scaler::new(settings).unwrap();
        let (mut arrivals_total, mut waiting) = (0, 0_u64);
        // Two workers do 20 tasks a second; the rate climbs by one a second and passes that after 20 seconds.
        (0..60_u64).find(|&second| {
            arrivals_total += second;
            let due = waiting + second;
            waiting = due.saturating_sub(20);
            let running = due.min(20).div_ceil(10);
            let load = Load {
                workers: 2,
                waiting,
                running,
                arrivals_total,
                run_mean_ns: 100_000_000,
                ..Load::default()
            };
            let now = Moment::from_nanos(second * 1_000_000_000);
            matches!(scaler.decide(&load, now), Decision::Up { .. })
        })
    };
    let (ahead, behind) = (first_up(Some(Predict::default())).unwrap(), first_up(None).unwrap());
    assert!(ahead <= 16, "before the workers are busy for 80 %, which is at second 16: {ahead}");
    assert!(behind > 20, "only when tasks wait: {behind}");
}

#[test]
fn no_decision_allocates() {
    let settings = ScaleSettings { predict: Some(Predict::default()), ..ScaleSettings::default() };
    let mut scaler = Scaler::new(settings).unwrap();
    let mut views = Views::default();
    (0..8).for_each(|id| views.push(WorkerView { id, state: WorkerState::Ready, ..WorkerView::default() }));
    let memory = allocation_counter::measure(|| {
        for second in 0..100 {
            let now = Moment::from_nanos(second * 1_000_000_000);
            let load = Load::from_views(&views, second % 40, settings.scale_down_idle, now);
            let _ = scaler.decide(&Load { arrivals_total: second * second, ..load }, now);
        }
    });
    assert_eq!(memory.count_total, 0);
}
