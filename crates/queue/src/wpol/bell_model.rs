//! Every interleaving of a bell: nobody sleeps beside something published. loom reports a deadlock if somebody does,
//! since in a model no sleep ends by itself.

use super::bell::{AWAKE, Bell};
use crate::futex::{self, Scope};
use crate::model::explore;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{Arc, AtomicU32, thread};

const BY_FUTEX: u32 = 1;

struct House {
    bell: AtomicU32,
    doors: [AtomicU32; 2],
}

impl House {
    fn new() -> Arc<Self> {
        Arc::new(Self { bell: AtomicU32::new(AWAKE), doors: [AtomicU32::new(0), AtomicU32::new(0)] })
    }

    fn knock(&self, door: usize) {
        self.doors[door].store(1, Release);
        if Bell(&self.bell).ring() == BY_FUTEX {
            futex::wake(&self.bell, 1, Scope::Private);
        }
    }

    fn opened(&self, doors: usize) -> bool {
        self.doors[..doors].iter().all(|door| door.load(Acquire) == 1)
    }

    fn sleep_until_opened(&self, doors: usize) {
        let bell = Bell(&self.bell);
        while !self.opened(doors) {
            bell.arm(BY_FUTEX);
            if !self.opened(doors) {
                futex::wait(&self.bell, BY_FUTEX, None, Scope::Private);
            }
            bell.disarm();
        }
    }
}

#[test]
fn a_sleeper_never_sleeps_beside_what_was_rung_for() {
    explore(3, || {
        let house = House::new();
        let ringer = thread::spawn({
            let house = Arc::clone(&house);
            move || house.knock(0)
        });
        house.sleep_until_opened(1);
        ringer.join().unwrap();
    });
}

#[test]
fn two_ringers_wake_one_sleeper_for_both() {
    explore(3, || {
        let house = House::new();
        let ringers = [0, 1].map(|door| {
            let house = Arc::clone(&house);
            thread::spawn(move || house.knock(door))
        });
        house.sleep_until_opened(2);
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}
