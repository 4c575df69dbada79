//! Thousands of tasks over a few processes that crash at random: every task ends once, and none is mixed up.
//!
//! `MILLPOND_SEED` repeats a run, `MILLPOND_COMMAND_TASKS` makes it longer.

use super::*;
use millpond_tasks::ErrorCode;
use std::hash::{BuildHasher, RandomState};

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

const WRONGS: [&str; 6] = ["segfault", "exit", "garbage", "twice", "throw", "wrong_id"];

#[test]
fn every_task_ends_once_whatever_the_processes_do() {
    let seed = number_from("MILLPOND_SEED").unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    let count = number_from("MILLPOND_COMMAND_TASKS").unwrap_or(4000);
    eprintln!("MILLPOND_SEED={seed}");
    let mut dice = Dice(seed);
    let rig = rig(HandlerSettings { concurrency: 4, stop_grace: Duration::from_millis(20), ..moody() });
    let ends: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let mut tasks = Vec::new();
    for n in 0..count {
        let (mood, cancel) = match dice.below(200) {
            0..6 => (WRONGS[dice.below(WRONGS.len() as u64) as usize], false),
            6..8 => ("hang", true),
            8..12 => ("echo", true),
            _ => ("echo", false),
        };
        let task = rig.submit(&json!({"do": mood, "n": n, "ignore_term": dice.below(2) == 0}));
        let counted = Arc::clone(&ends);
        task.on_end(move |_, _| {
            counted[n as usize].fetch_add(1, Ordering::Relaxed);
        });
        tasks.push((n, mood, cancel, task));
        // Those that hang would hold their process for ever; they are cancelled wherever they are by now.
        if dice.below(20) == 0 {
            let due = tasks.iter().filter(|(_, _, cancel, task)| *cancel && !task.is_ended());
            due.for_each(|(_, _, _, task)| drop(rig.handle.cancel(task.id())));
        }
    }
    for (_, _, _, task) in tasks.iter().filter(|(_, _, cancel, task)| *cancel && !task.is_ended()) {
        drop(rig.handle.cancel(task.id()));
    }
    for (n, mood, cancel, task) in &tasks {
        let told = outcome(task).result();
        match told {
            Ok(value) => {
                let value: Value = serde_json::from_str(value.get()).unwrap();
                assert!(*mood == "echo" && value["n"] == *n, "{mood} {n}: {value}");
            }
            Err(failure) if *cancel => {
                assert_eq!(failure.code, ErrorCode::Cancelled, "{mood} {n}: {failure}")
            }
            Err(failure) => {
                let is_wrong = WRONGS.contains(mood) && failure.code == ErrorCode::HandlerCrashed;
                assert!(is_wrong, "{mood} {n}: {failure}");
            }
        }
    }
    let stats = rig.stats();
    assert_eq!(stats["waiting"], 0, "{stats}");
    let wrongs = tasks.iter().filter(|(_, mood, ..)| WRONGS.contains(mood)).count();
    assert_eq!(stats["crashes"], wrongs, "each wrong is one crash, and there is no other: {stats}");
    rig.stop();
    assert!(ends.iter().all(|ended| ended.load(Ordering::Relaxed) == 1), "a task ends once");
}
