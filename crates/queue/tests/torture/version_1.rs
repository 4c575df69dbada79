//! Version 1 in the same mill, where it must get stuck: its ring cannot survive a death between two steps.
//!
//! If it does not get stuck, the mill is too gentle to prove anything about version 2.
//!
//! Not here: the mill itself (`torture.rs`).

use crate::{Crew, MILL, Mill, seed};
use millpond_queue::wpol::Memory;
use millpond_queue::wpol::v1::{Entry, PopError, PushError, Queue};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CAPACITY: u32 = 4;

pub(crate) fn run_child(mill: &Mill, memory: Memory, index: usize) {
    let queue = Queue::attach(memory).unwrap();
    while mill.page().stop.load(Relaxed) == 0 {
        let pushed = queue.push(Entry { priority: 1, slot: index as u32 }).is_ok();
        let popped = queue.pop().is_ok();
        mill.page().progress.fetch_add(u64::from(pushed || popped), Relaxed);
        mill.page().steps[index].fetch_add(1, Relaxed);
    }
}

#[test]
fn version_1_gets_stuck_in_the_same_mill() {
    let _turn = MILL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seed = seed();
    let bytes = Queue::bytes_for(CAPACITY).unwrap();
    let mill = Mill::create(bytes);
    let queue = Queue::create(mill.region(bytes), CAPACITY).unwrap();
    let mut crew = Crew::new(&mill, 1, bytes, 0, seed);
    let started = Instant::now();
    loop {
        crew.pause();
        if let Some(index) = crew.kill_one() {
            crew.spawn(index);
        }
        if is_stuck(&mill) {
            // With nobody at work, what is in the way is neither empty nor full, but claimed by the dead.
            crew.finish();
            let pop = queue.pop_retry(1_000);
            let push = queue.push_retry(Entry { priority: 1, slot: 0 }, 1_000);
            if pop == Err(PopError::Busy) || push == Err(PushError::Busy) {
                break;
            }
            // It was only slow. On with it.
            mill.page().stop.store(0, SeqCst);
            crew.spawn_all();
        }
        assert!(started.elapsed() < Duration::from_secs(40), "the mill is too gentle: {} kills", crew.kills);
    }
    println!("version 1 stuck after {} kills in {:.1} s", crew.kills, started.elapsed().as_secs_f64());
}

/// Children at work, and not one push or pop among them for a quarter of a second. Children that do not get to
/// work in two seconds say nothing.
fn is_stuck(mill: &Mill) -> bool {
    let look = || (mill.page().progress.load(SeqCst), steps(mill));
    let ((progress, before), started) = (look(), Instant::now());
    while started.elapsed() < Duration::from_secs(2) {
        let (now, after) = look();
        if now != progress {
            return false;
        }
        if started.elapsed() > Duration::from_millis(250) && after > before + 1_000 {
            return true;
        }
        sleep(Duration::from_micros(100));
    }
    false
}

fn steps(mill: &Mill) -> u64 {
    mill.page().steps.iter().map(|steps| u64::from(steps.load(SeqCst))).sum()
}
