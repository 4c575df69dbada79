//! The strategies choose as `tests/vectors/choose-*.json` says, which JavaScript's tests read too.
//!
//! Each defect of the plan these strategies come from is a case there, so that none of them comes back on any
//! side.

use millpond_policy::Moment;
use millpond_policy::choose::Choose;
use millpond_policy::registry::{STRATEGIES, by_name};
use millpond_policy::view::{TaskView, Views, WorkerState, WorkerView};
use serde_json::Value;
use std::path::PathBuf;

fn number(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        // Numbers that JavaScript cannot hold are written as text.
        Value::String(text) => text.parse().expect("a number in quotes"),
        number => number.as_u64().unwrap_or_else(|| panic!("expected a whole number, got {number}")),
    }
}

fn small<T: TryFrom<u64>>(value: &Value) -> T {
    T::try_from(number(value)).unwrap_or_else(|_| panic!("{value} is too large"))
}

fn state(value: &Value) -> WorkerState {
    match value.as_str() {
        None | Some("ready") => WorkerState::Ready,
        Some("busy") => WorkerState::Busy,
        Some("cold") => WorkerState::Cold,
        Some("warming") => WorkerState::Warming,
        Some("terminating") => WorkerState::Terminating,
        Some("terminated") => WorkerState::Terminated,
        Some(other) => panic!("no worker is ever {other:?}"),
    }
}

fn picture(workers: &[Value]) -> Views {
    let mut views = Views::default();
    for worker in workers {
        views.push(WorkerView {
            id: small(&worker["id"]),
            state: state(&worker["state"]),
            running: small(&worker["running"]),
            queued: small(&worker["queued"]),
            completed: number(&worker["completed"]),
            run_total_ns: number(&worker["run_total_ns"]),
            run_mean_ns: number(&worker["run_mean_ns"]),
            utilisation: small(&worker["utilisation"]),
            weight: small(&worker["weight"]),
            idle_since: Moment::ZERO,
        });
    }
    views
}

/// What is carried from one step of a file to the next.
struct Replay {
    strategy: Box<dyn Choose>,
    workers: Views,
    now: Moment,
    case: String,
}

impl Replay {
    /// Does what a step says; says whether it was one that expects a choice.
    fn step(&mut self, step: &Value, place: &str) -> bool {
        if let Some(case) = step["case"].as_str() {
            self.case = case.to_owned();
        } else if step["reset"] == true {
            self.strategy.reset();
        } else if let Some(id) = step.get("added") {
            let worker = WorkerView { id: small(id), ..WorkerView::default() };
            self.strategy.worker_added(&worker, self.now);
        } else if let Some(id) = step.get("removed") {
            self.strategy.worker_removed(small(id));
        } else {
            self.choose(step, place);
            return true;
        }
        false
    }

    fn choose(&mut self, step: &Value, place: &str) {
        if let Some(workers) = step["workers"].as_array() {
            self.workers = picture(workers);
        }
        if step.get("now_ns").is_some() {
            self.now = Moment::from_nanos(number(&step["now_ns"]));
        }
        let task = TaskView { expected_ns: number(&step["task"]["expected_ns"]), ..TaskView::default() };
        let choice = self.strategy.choose(&self.workers, &task, self.now);
        if let Some(choice) = choice {
            assert_eq!(self.workers.ids()[choice.at], choice.worker, "{place}");
        }
        let got = choice.map(|choice| (u64::from(choice.worker), choice.reason.to_string()));
        let expect = step.get("expect").unwrap_or_else(|| panic!("{place}: a step that expects nothing"));
        let wanted = (!expect.is_null())
            .then(|| (number(&expect["worker"]), expect["reason"].as_str().expect("a reason").to_owned()));
        assert_eq!(got, wanted, "{place}, {:?}", self.case);
    }
}

#[test]
fn every_strategy_chooses_as_the_vectors_say() {
    for known in STRATEGIES {
        let file = format!("choose-{}.json", known.name);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(&file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let vectors: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let name = vectors["strategy"].as_str().expect("a strategy");
        assert_eq!(name, known.name, "{file}");
        let strategy = by_name(name, number(&vectors["seed"])).expect("a known strategy");
        let mut replay =
            Replay { strategy, workers: Views::default(), now: Moment::ZERO, case: String::new() };
        let steps = vectors["steps"].as_array().expect("steps");
        let choices = steps
            .iter()
            .enumerate()
            .filter(|(index, step)| replay.step(step, &format!("{file}, step {index}")))
            .count();
        assert!(choices >= 10, "{file}: only {choices} choices");
    }
}
