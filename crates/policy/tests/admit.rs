//! Admission decides as `tests/vectors/admit.json` says, and every policy comes to an end.
//!
//! A submitter that is told to retry for ever hangs, so the limits are played through here as a pool would.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_policy::admit::{self, DEPTH_MAX, DROPS_MAX, Door, Policy, Refused, Step};
use serde_json::Value;
use std::time::Duration;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/admit.json")).unwrap()
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

fn door(value: &Value) -> Door {
    let number = |name: &str| value[name].as_u64().map_or(0, |number| u32::try_from(number).unwrap());
    Door {
        is_full: value["is_full"] == true,
        is_closed: value["is_closed"] == true,
        is_worker: value["is_worker"] == true,
        depth: number("depth"),
        depth_max: value["depth_max"].as_u64().map(|depth| u32::try_from(depth).unwrap()),
        drops: number("drops"),
        waited: millis(&value["waited_ms"]).unwrap_or_default(),
    }
}

fn policy(case: &Value) -> Policy {
    match Policy::by_name(case["policy"].as_str().unwrap()).unwrap() {
        Policy::Block { .. } => Policy::Block { timeout: millis(&case["timeout_ms"]) },
        policy => policy,
    }
}

#[test]
fn every_vector_is_decided_as_written() {
    for case in vectors()["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let expect = &case["expect"];
        let step = admit::decide(policy(case), &door(&case["door"]));
        let (word, code) = match step {
            Step::Take => ("take", None),
            Step::Refuse(refused) => ("refuse", Some(refused.code())),
            Step::DropThis => ("drop-this", None),
            Step::DropOldestThenRetry => ("drop-oldest", None),
            Step::Wait(limit) => {
                assert_eq!(limit, millis(&expect["wait_ms"]), "{name}");
                ("wait", None)
            }
            Step::RunHere(_) => ("run-here", None),
        };
        assert_eq!(word, expect["step"].as_str().unwrap(), "{name}");
        assert_eq!(code, expect["code"].as_str(), "{name}");
        assert_eq!(step.to_string(), expect["text"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn names_go_both_ways_and_unknown_ones_list_what_is_allowed() {
    for case in vectors()["names"].as_array().unwrap() {
        match Policy::by_name(case["name"].as_str().unwrap()) {
            Ok(policy) => assert_eq!(policy.name(), case["expect"].as_str().unwrap()),
            Err(error) => assert_eq!(error.to_string(), case["error"].as_str().unwrap()),
        }
    }
    for name in Policy::NAMES {
        assert_eq!(Policy::by_name(name).unwrap().to_string(), *name);
    }
}

#[test]
fn the_least_urgent_lane_is_dropped_from_first_and_no_more_urgent_one_at_all() {
    for case in vectors()["drop_order"].as_array().unwrap() {
        let number = |name: &str| u8::try_from(case[name].as_u64().unwrap()).unwrap();
        let got: Vec<u64> = admit::drop_order(number("lane"), number("lanes")).map(u64::from).collect();
        let expect: Vec<u64> =
            case["expect"].as_array().unwrap().iter().map(|lane| lane.as_u64().unwrap()).collect();
        assert_eq!(got, expect);
    }
}

#[test]
fn dropping_in_vain_ends_after_eight_tries() {
    let mut door = Door { is_full: true, ..Door::default() };
    while admit::decide(Policy::DropOldest, &door) == Step::DropOldestThenRetry {
        door.drops += 1;
        assert!(door.drops <= DROPS_MAX);
    }
    assert_eq!(door.drops, 8);
    let refused = Step::Refuse(Refused::NothingToDrop { drops: 8 });
    assert_eq!(admit::decide(Policy::DropOldest, &door), refused);
}

#[test]
fn tasks_that_submit_tasks_are_run_four_deep_and_no_deeper() {
    for (policy, is_worker) in [(Policy::CallerRuns, false), (Policy::Block { timeout: None }, true)] {
        let mut door = Door { is_full: true, is_worker, ..Door::default() };
        while let Step::RunHere(_) = admit::decide(policy, &door) {
            door.depth += 1;
            assert!(door.depth <= DEPTH_MAX);
        }
        assert_eq!(admit::decide(policy, &door), Step::Refuse(Refused::TooDeep { depth: 4 }), "{policy}");
    }
}

#[test]
fn a_worker_is_never_told_to_wait_for_its_own_pool() {
    for timeout in [None, Some(Duration::from_secs(1))] {
        for depth in 0..10 {
            let door = Door { is_full: true, is_worker: true, depth, ..Door::default() };
            let step = admit::decide(Policy::Block { timeout }, &door);
            assert!(!matches!(step, Step::Wait(_)), "depth {depth}: {step}");
        }
    }
}
