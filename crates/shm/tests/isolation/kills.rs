//! Processes are killed at random while they work, and the books must balance.
//!
//! Every task ends exactly once, with its own answer or with the news that its process was killed; afterwards there is
//! no process and no descriptor that was not there before.

use crate::Scenario;
use crate::bed::{Bed, LONG, descendants, descriptors, kill, until, workers};
use millpond_tasks::{ErrorCode, Reader, Submit, Task, Wants, Watch};
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(crate) const SCENARIOS: &[Scenario] =
    &[("random_kills_leave_every_task_with_one_end", random_kills_leave_every_task_with_one_end)];

/// How many are killed: `MILLPOND_KILLS`, or these.
const KILLS: u64 = 200;
const LANES: u64 = 3;

/// How often each task was said to have ended, and how.
#[derive(Default)]
struct Ledger {
    ends: Mutex<HashMap<u64, Vec<i32>>>,
    wrong: AtomicU64,
}

impl Watch for Ledger {
    fn told(&self, tag: u64, task: &Arc<Task>) {
        let Some(outcome) = task.outcome() else { return };
        self.ends.lock().unwrap().entry(tag).or_default().push(outcome.status());
        let is_right = match outcome.result() {
            Ok(value) => value.get() == format!("{{\"n\":{tag}}}"),
            Err(failure) => {
                failure.code == ErrorCode::HandlerCrashed && failure.message.contains("signal 9 (SIGKILL)")
            }
        };
        self.wrong.fetch_add(u64::from(!is_right), Relaxed);
    }
}

fn kills() -> u64 {
    env::var("MILLPOND_KILLS").map_or(KILLS, |text| text.parse().expect("MILLPOND_KILLS: a whole number"))
}

fn random_kills_leave_every_task_with_one_end() {
    let seed = env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(1));
    println!("MILLPOND_SEED={seed}");
    let kills = kills();
    let before = descriptors();
    let bed = Bed::new(3);
    let ledger = Arc::new(Ledger::default());
    let (is_over, number) = (AtomicBool::new(false), AtomicU64::new(1));
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| submit_until(&bed, &ledger, &number, &is_over));
        }
        kill_at_random(seed, kills);
        is_over.store(true, Relaxed);
    });
    assert_eq!(bed.service.drain(LONG).left, 0);
    let submitted = number.into_inner() - 1;
    let ends = ledger.ends.lock().unwrap();
    let killed = ends.values().filter(|ends| ends[..] == [-5]).count();
    println!("{submitted} tasks, {killed} of them killed by {kills} kills");
    assert_eq!((ends.len() as u64, ledger.wrong.load(Relaxed)), (submitted, 0));
    assert!(ends.values().all(|ends| ends.len() == 1), "a task ends once");
    assert!(killed as u64 <= kills, "a kill costs one task at most");
    until("the last kill is known", || bed.stats("crashes") == kills);
    assert_eq!(bed.stats("answered"), submitted - killed as u64);
    bed.service.stop(LONG);
    assert_eq!(descendants(), BTreeSet::new());
    assert_eq!(descriptors(), before);
}

/// Keeps a few tasks under way.
fn submit_until(bed: &Bed, ledger: &Arc<Ledger>, number: &AtomicU64, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let mut batch = Vec::new();
        for _ in 0..8 {
            let n = number.fetch_add(1, Relaxed);
            // Every other one is small enough for a slot, and some take a while.
            let (pad, us) = (" ".repeat((n % 2 * 2000) as usize), n % 5 * 500);
            let args = json!({"do": "work", "n": n, "us": us, "pad": pad});
            let request = json!({"handler": "misbehave", "args": args});
            let who: Arc<dyn Watch> = Arc::clone(ledger) as _;
            let how = Submit {
                reader: Some(Reader { who, tag: n, wants: Wants::Result }),
                keep: false,
                ..Submit::default()
            };
            batch.push(bed.handle().submit(request.to_string().as_bytes(), how).unwrap());
        }
        for accepted in &batch {
            accepted.task.wait(LONG).unwrap();
        }
    }
}

/// Kills so many processes, each of them once, at moments that nobody chose.
fn kill_at_random(seed: u64, kills: u64) {
    let (mut state, mut dead) = (seed | 1, HashSet::new());
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    while (dead.len() as u64) < kills {
        // Not to wait for anything: the moments are to be random.
        thread::sleep(Duration::from_micros(random(5000)));
        let alive: Vec<_> = workers().into_iter().filter(|pid| !dead.contains(pid)).collect();
        if !alive.is_empty() {
            let pid = alive[random(alive.len() as u64) as usize];
            kill(pid, Signal::KILL);
            dead.insert(pid);
        }
    }
}
