//! Stealing decides as `tests/vectors/steal.json` says, and keeps its promises for any picture.
//!
//! What matters most: while a task waits somewhere, an idle thief is never sent away.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_policy::Moment;
use millpond_policy::steal::{StealSettings, StealSize, Thief};
use millpond_policy::view::{Views, WorkerState, WorkerView};
use serde_json::Value;
use std::time::Duration;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/steal.json")).unwrap()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn settings(set: &Value) -> StealSettings {
    let mut settings = StealSettings::default();
    for (name, value) in set.as_object().into_iter().flatten() {
        match name.as_str() {
            "enabled" => settings.enabled = value.as_bool().unwrap(),
            "size" => settings.size = StealSize::by_name(value.as_str().unwrap()).unwrap(),
            "tasks_max" => settings.tasks_max = number(value),
            "threshold" => settings.threshold = number(value),
            "cooldown_ms" => settings.cooldown = Duration::from_millis(value.as_u64().unwrap()),
            other => panic!("the vectors name a setting {other}"),
        }
    }
    settings
}

fn views(workers: &Value) -> Views {
    let mut views = Views::default();
    for worker in workers.as_array().unwrap() {
        let (running, queued) = (number(&worker["running"]), number(&worker["queued"]));
        let state = match worker["state"].as_str() {
            None if running == 0 => WorkerState::Ready,
            None => WorkerState::Busy,
            Some("terminating") => WorkerState::Terminating,
            Some("terminated") => WorkerState::Terminated,
            Some(other) => panic!("the vectors name a state {other}"),
        };
        views.push(WorkerView { id: number(&worker["id"]), state, running, queued, ..WorkerView::default() });
    }
    views
}

#[test]
fn every_vector_is_decided_as_written() {
    for case in vectors()["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut thief = Thief::new(settings(&case["settings"])).unwrap();
        for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            if step["came_back_empty"] == true {
                thief.came_back_empty();
            }
            let views = views(&step["workers"]);
            let now = Moment::ZERO + Duration::from_millis(step["now_ms"].as_u64().unwrap());
            let got = thief.decide(number(&step["thief"]), &views, now);
            if let Some(robbery) = got {
                assert_eq!(views.ids()[robbery.at], robbery.victim, "{name}, step {index}");
            }
            let expect = &step["expect"];
            let expect = expect.as_object().map(|expect| {
                (
                    number(&expect["victim"]),
                    number(&expect["take"]),
                    expect["reason"].as_str().unwrap().to_owned(),
                )
            });
            let got = got.map(|robbery| (robbery.victim, robbery.take, robbery.reason.to_string()));
            assert_eq!(got, expect, "{name}, step {index}");
        }
    }
}

#[test]
fn bad_settings_and_names_are_refused_with_what_is_allowed() {
    let vectors = vectors();
    for case in vectors["settings"].as_array().unwrap() {
        let error = Thief::new(settings(&case["set"])).unwrap_err();
        assert_eq!(error.to_string(), case["error"].as_str().unwrap());
        let mut thief = Thief::new(StealSettings::default()).unwrap();
        assert_eq!(thief.set(settings(&case["set"])).unwrap_err(), error);
        assert_eq!(*thief.settings(), StealSettings::default(), "what cannot work is not taken over");
    }
    for case in vectors["names"].as_array().unwrap() {
        match StealSize::by_name(case["name"].as_str().unwrap()) {
            Ok(size) => assert_eq!(size.name(), case["expect"].as_str().unwrap()),
            Err(error) => assert_eq!(error.to_string(), case["error"].as_str().unwrap()),
        }
    }
}

/// The next of a row of numbers that look random (xorshift64*).
fn draw(state: &mut u64, below: u32) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    ((state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % u64::from(below)) as u32
}

#[test]
fn an_idle_thief_gets_a_task_whenever_one_waits_and_never_more_than_there_are() {
    for seed in 1..=200_u64 {
        let mut state = seed;
        let size = [StealSize::One, StealSize::Half, StealSize::All][draw(&mut state, 3) as usize];
        let (threshold, tasks_max) = (1 + draw(&mut state, 6), 1 + draw(&mut state, 10));
        let settings = StealSettings { size, threshold, tasks_max, ..StealSettings::default() };
        let mut thief = Thief::new(settings).unwrap();
        let mut now = Moment::ZERO;
        for _ in 0..200 {
            now = now + Duration::from_millis(draw(&mut state, 8).into());
            let mut views = Views::default();
            let workers = 1 + draw(&mut state, 9);
            let own = draw(&mut state, workers);
            for id in 0..workers {
                let queued = if id == own { 0 } else { draw(&mut state, 12).saturating_sub(5) };
                let running = u32::from(id != own);
                views.push(WorkerView { id, running, queued, ..WorkerView::default() });
            }
            let most = views.queued().iter().copied().max().unwrap_or(0);
            match thief.decide(own, &views, now) {
                None => assert_eq!(most, 0, "seed {seed}: a task waits and the thief is sent away"),
                Some(robbery) => {
                    assert_ne!(robbery.victim, own, "seed {seed}");
                    let there = views.queued()[robbery.at];
                    assert!((1..=there.min(tasks_max)).contains(&robbery.take), "seed {seed}: {robbery:?}");
                    assert!(robbery.take == 1 || there >= threshold, "seed {seed}: {robbery:?}");
                }
            }
        }
    }
}

#[test]
fn two_workers_that_rob_each_other_come_to_rest() {
    // Neither runs anything, so only robberies move tasks; with half of the difference they must settle.
    for size in [StealSize::One, StealSize::Half, StealSize::All] {
        let settings = StealSettings { size, cooldown: Duration::ZERO, ..StealSettings::default() };
        let mut thieves = [Thief::new(settings).unwrap(), Thief::new(settings).unwrap()];
        let mut queued = [100_u32, 1];
        let mut robberies = 0;
        let mut turn = 0;
        let mut refused = 0;
        while refused < 2 {
            let mut views = Views::default();
            for (id, &queued) in queued.iter().enumerate() {
                views.push(WorkerView { id: id as u32, running: 1, queued, ..WorkerView::default() });
            }
            match thieves[turn].decide(turn as u32, &views, Moment::ZERO) {
                Some(robbery) => {
                    queued[robbery.at] -= robbery.take;
                    queued[turn] += robbery.take;
                    robberies += 1;
                    refused = 0;
                }
                None => refused += 1,
            }
            assert!(robberies <= 100, "{size:?} moves tasks to and fro: {queued:?}");
            turn = 1 - turn;
        }
        assert!(queued[0].abs_diff(queued[1]) < 2, "{size:?}: {queued:?}");
    }
}

#[test]
fn no_decision_allocates() {
    let mut thief = Thief::new(StealSettings::default()).unwrap();
    let mut views = Views::default();
    (0..64).for_each(|id| views.push(WorkerView { id, queued: id % 7, ..WorkerView::default() }));
    let memory = allocation_counter::measure(|| {
        for millis in 0..100 {
            let _ = thief.decide(0, &views, Moment::ZERO + Duration::from_millis(millis));
        }
    });
    assert_eq!(memory.count_total, 0);
}
