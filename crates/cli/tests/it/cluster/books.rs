//! What the tasks of a test came to: executions as the handlers wrote them down, results as the server holds them.
//!
//! Every task has a number in its arguments and is called after it. A command is told its attempt and writes it down
//! with the number; the handler that is built in (`file_write`) appends the number only.
//!
//! Not here: what should have come of it (the scenarios).

use super::SOON;
use super::crew::{Crew, QUEUE};
use super::wire::Wire;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// What the daemons call their own entry.
const OWN_ENTRY: &str = "engine";

/// What has been submitted so far, and where the rest is read.
pub(super) struct Books {
    server: SocketAddr,
    executions: PathBuf,
    submitted: u64,
}

/// One run of a handler.
#[derive(Debug)]
pub(super) struct Execution {
    /// Who ran it, and which attempt it was; a built-in handler is not told.
    pub(super) told: Option<(String, u64)>,
    pub(super) number: u64,
}

/// What an execution is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Note it down and answer.
    Note,
    /// The same by a handler of the program itself.
    Append,
    /// Note it down, and answer after a second.
    Slow,
    /// Answer after five seconds, and note nothing down.
    Nap,
    /// Keep a worker busy for more than three leases, and note it down first.
    Spin,
}

/// The sums of a test.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) tasks: u64,
    pub(super) executions: u64,
    /// Tasks that ran more than once.
    pub(super) repeated: u64,
    /// Executions beyond the first of their task.
    pub(super) beyond: u64,
    /// The most often that a task ran.
    pub(super) most: u64,
    /// Executions that were told the same attempt as an earlier one of their task.
    pub(super) alike: u64,
}

impl Books {
    pub(super) fn new(crew: &Crew) -> Self {
        Self { server: crew.engine.address(), executions: crew.executions(), submitted: 0 }
    }

    pub(super) fn wire(&self) -> Wire {
        Wire::connect(self.server).unwrap()
    }

    pub(super) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Puts tasks on the queue; comes back once the server has them.
    pub(super) fn submit(&mut self, count: u64, work: impl Fn(u64) -> Work) {
        let numbers = self.submitted..self.submitted + count;
        let request = |number: u64| {
            let (handler, args) = match work(number) {
                Work::Note => ("note", json!({ "n": number })),
                Work::Slow => ("slow", json!({ "n": number })),
                Work::Spin => ("spin", json!({ "n": number })),
                Work::Nap => ("sleep", json!({ "ms": 5000 })),
                Work::Append => {
                    let data = format!("{number}\n");
                    ("file_write", json!({ "path": self.executions, "data": data, "mode": "append" }))
                }
            };
            json!({ "task_id": format!("k{number}"), "handler": handler, "args": args }).to_string()
        };
        let requests: Vec<String> = numbers.map(request).collect();
        self.wire().publish(&format!("mill.{QUEUE}.normal"), &requests).unwrap();
        self.submitted += count;
    }

    /// Puts one task on the queue, which has the next number.
    pub(super) fn submit_request(&mut self, request: &Value) {
        let mut request = request.clone();
        request["task_id"] = format!("k{}", self.submitted).into();
        self.wire().publish(&format!("mill.{QUEUE}.normal"), &[request.to_string()]).unwrap();
        self.submitted += 1;
    }

    /// How many tasks have an entry among the results.
    pub(super) fn entries(&self, wire: &mut Wire) -> u64 {
        let state = results_state(wire);
        // The daemons keep one of their own there, about the server.
        let own = format!("$KV.MILL_{QUEUE}_results.{OWN_ENTRY}");
        let own =
            wire.ask(&format!("STREAM.MSG.GET.KV_MILL_{QUEUE}_results"), &json!({ "last_by_subj": own }));
        state["messages"].as_u64().unwrap() - u64::from(own.is_ok())
    }

    /// How many entries were written over by others. A bucket holds the last one of each task.
    pub(super) fn replaced(&self) -> u64 {
        let state = results_state(&mut self.wire());
        state["last_seq"].as_u64().unwrap() - state["messages"].as_u64().unwrap()
    }

    /// How many messages the queue holds, and how many daemons hold of them.
    pub(super) fn left(&self) -> (u64, u64) {
        let mut wire = self.wire();
        let stream = wire.ask(&format!("STREAM.INFO.MILL_{QUEUE}"), &Value::Null).unwrap();
        let lane = wire.ask(&format!("CONSUMER.INFO.MILL_{QUEUE}.normal"), &Value::Null).unwrap();
        (stream["state"]["messages"].as_u64().unwrap(), lane["num_ack_pending"].as_u64().unwrap())
    }

    /// Waits until this many tasks have an entry, for as long as there are more and more of them.
    pub(super) fn wait_for(&self, entries: u64) {
        let mut wire = self.wire();
        let (mut last, mut moved) = (0, Instant::now());
        while last < entries {
            let now = self.entries(&mut wire);
            if now > last {
                (last, moved) = (now, Instant::now());
            }
            assert!(moved.elapsed() < SOON, "{last} of {entries} tasks have a result, and no more come");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until every task has ended and the queue is empty.
    pub(super) fn wait_for_all(&self) {
        self.wait_for(self.submitted);
        let mut left = (0, 0);
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            left = self.left();
            if left == (0, 0) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("all tasks have ended; {} are still on the queue, {} of them given out", left.0, left.1);
    }

    /// The entries of all tasks, by their number.
    pub(super) fn results(&self) -> BTreeMap<u64, Value> {
        let entries = self.wire().read_all(&format!("KV_MILL_{QUEUE}_results")).unwrap();
        let number = |subject: &str| subject.rsplit_once(".s-k").and_then(|(_, number)| number.parse().ok());
        let entries = entries.into_iter().filter(|(subject, _)| !subject.ends_with(OWN_ENTRY));
        let read = |(subject, payload): (String, Vec<u8>)| {
            let number = number(&subject).unwrap_or_else(|| panic!("the entry {subject} is of no task"));
            (number, serde_json::from_slice(&payload).unwrap())
        };
        entries.map(read).collect()
    }

    /// What handlers wrote down. A line that is not whole yet is not there yet.
    pub(super) fn executions(&self) -> Vec<Execution> {
        let text = fs::read_to_string(&self.executions).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let read = |line: &str| {
            if let Ok(number) = line.parse() {
                return Execution { told: None, number };
            }
            let (daemon, task) = line.split_once(' ').unwrap_or_else(|| panic!("expected a note: {line:?}"));
            let task: Value = serde_json::from_str(task).unwrap_or_else(|_| panic!("no task: {line:?}"));
            let attempt = task["attempt"].as_u64().unwrap();
            Execution {
                told: Some((daemon.to_owned(), attempt)),
                number: task["args"]["n"].as_u64().unwrap(),
            }
        };
        whole.lines().map(read).collect()
    }

    /// Each task is done and has run. How often, the sums say.
    pub(super) fn judge(&self) -> Sums {
        let results = self.results();
        for number in 0..self.submitted {
            let entry = results.get(&number).unwrap_or_else(|| panic!("task k{number} is lost"));
            assert_eq!(entry["state"], "done", "k{number}: {entry}");
        }
        assert_eq!(results.len() as u64, self.submitted, "nobody else has results");
        let mut counts = vec![0_u64; usize::try_from(self.submitted).unwrap()];
        let (mut attempts, mut alike) = (HashSet::new(), 0);
        let executions = self.executions();
        for Execution { told, number } in &executions {
            counts[usize::try_from(*number).unwrap()] += 1;
            if let Some((daemon, attempt)) = told
                && !attempts.insert((*number, *attempt))
            {
                println!("attempt {attempt} of k{number} ran twice, the second time at {daemon}");
                alike += 1;
            }
        }
        for (number, count) in counts.iter().enumerate() {
            assert!(*count > 0, "k{number} has a result and never ran");
        }
        Sums {
            tasks: self.submitted,
            executions: executions.len() as u64,
            repeated: counts.iter().filter(|count| **count > 1).count() as u64,
            beyond: executions.len() as u64 - self.submitted,
            most: counts.iter().copied().max().unwrap_or(0),
            alike,
        }
    }
}

fn results_state(wire: &mut Wire) -> Value {
    wire.ask(&format!("STREAM.INFO.KV_MILL_{QUEUE}_results"), &Value::Null).unwrap()["state"].take()
}
