//! Random small programs on three threads, under random schedules: the answers must fit some order of the calls.
//!
//! Each schedule draws its own programs from a seed, and a failure prints that seed with the calls and their times.
//! `MILLPOND_SEED=<seed>` gives every schedule the programs of that one seed. Shuttle alone runs these
//! models: it runs one thread at a time, so a plain counter is a clock that all threads agree on.
//!
//! Not here: the search for the order (`linear.rs`), the rings of shared memory (`wpol/linear_model.rs`).

use crate::gate::Gate;
use crate::gate_refusal::{NoValue, Refusal};
use crate::linear::{
    DequeAnswer, DequeCall, History, Operation, PlainDeque, PlainQueue, QueueAnswer, QueueCall, Sequential,
    legal_order,
};
use crate::model::explore;
use crate::ring::Ring;
use crate::steal::StealQueue;
use crate::steal_thief::{Steal, Stealer};
use crate::sync::{Arc, thread};
use alloc::vec::Vec;
use shuttle::rand::RngCore;
use std::env;
use std::sync::{Mutex, OnceLock};

/// How far the priority schedules go: the number of forced switches.
const PREEMPTIONS: usize = 3;

/// Where programs are drawn from.
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice for this schedule, and the seed they start from. Shuttle draws it, so that a replayed schedule
    /// draws it again.
    fn for_schedule() -> (u64, Self) {
        static FIXED: OnceLock<Option<u64>> = OnceLock::new();
        let parsed =
            |text: std::string::String| text.parse().expect("MILLPOND_SEED: expected a whole number");
        let fixed = FIXED.get_or_init(|| env::var("MILLPOND_SEED").ok().map(parsed));
        let seed = fixed.unwrap_or_else(|| shuttle::rand::thread_rng().next_u64());
        (seed, Self(seed))
    }

    /// A number from 0 to one less than `sides`.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }
}

/// The clock and the notes of one run. Only one thread of a model runs at a time, and none stops inside the lock.
struct Recorder<Model: Sequential>(Arc<Mutex<(u64, History<Model>)>>);

impl<Model: Sequential> Recorder<Model> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((0, Vec::new()))))
    }

    fn tick(&self) -> u64 {
        let mut notes = self.0.lock().unwrap();
        notes.0 += 1;
        notes.0
    }

    /// Makes a call and writes it down, unless it came to nothing that the plain queue would know of.
    fn note(&self, call: Model::Call, act: impl FnOnce(&Model::Call) -> Option<Model::Answer>) {
        let began = self.tick();
        let answer = act(&call);
        let ended = self.tick();
        if let Some(answer) = answer {
            self.0.lock().unwrap().1.push(Operation { began, ended, call, answer });
        }
    }

    fn history(self) -> History<Model> {
        core::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl<Model: Sequential> Clone for Recorder<Model> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What one schedule brought about.
pub(crate) struct Trial<Model: Sequential> {
    seed: u64,
    start: Model,
    history: History<Model>,
}

impl<Model: Sequential> Trial<Model> {
    pub(crate) fn is_legal(&self) -> bool {
        legal_order(&self.start, &self.history).is_some()
    }

    fn assert_legal(mut self) {
        if !self.is_legal() {
            self.history.sort_by_key(|operation| operation.began);
            for Operation { began, ended, call, answer } in &self.history {
                std::println!("  {began:>3} to {ended:>3}  {call:?} -> {answer:?}");
            }
            panic!("no order of these calls explains the answers; MILLPOND_SEED={}", self.seed);
        }
    }
}

/// A bounded queue under test.
pub(crate) trait Subject: Sized + Send + Sync + 'static {
    /// Of a hundred calls, so many close it.
    const CLOSES_PERCENT: usize = 0;

    /// An empty one, and its capacity.
    fn new(dice: &mut Dice) -> (Self, usize);

    /// Makes a call. `None`: it was no use and says nothing about the queue.
    fn act(&self, call: &QueueCall) -> Option<QueueAnswer>;
}

/// Three programs of two to four calls each on one queue, and then calls that empty it.
pub(crate) fn try_queue<S: Subject>() -> Trial<PlainQueue> {
    let (seed, mut dice) = Dice::for_schedule();
    let (subject, capacity) = S::new(&mut dice);
    let subject = Arc::new(subject);
    let recorder = Recorder::<PlainQueue>::new();
    let mut value = 0;
    let mut programs: Vec<Vec<QueueCall>> = (0..3)
        .map(|_| {
            let calls = 2 + dice.below(3);
            (0..calls).map(|_| queue_call(&mut dice, &mut value, S::CLOSES_PERCENT)).collect()
        })
        .collect();
    let own = programs.pop().unwrap_or_default();
    let start = |program: Vec<QueueCall>| {
        let (subject, recorder) = (Arc::clone(&subject), recorder.clone());
        thread::spawn(move || {
            program.into_iter().for_each(|call| recorder.note(call, |call| subject.act(call)))
        })
    };
    let others: Vec<_> = programs.into_iter().map(start).collect();
    own.into_iter().for_each(|call| recorder.note(call, |call| subject.act(call)));
    for other in others {
        other.join().unwrap();
    }
    for _ in 0..=capacity {
        recorder.note(QueueCall::Pop, |call| subject.act(call));
    }
    Trial { seed, start: PlainQueue::with_capacity(capacity), history: recorder.history() }
}

fn queue_call(dice: &mut Dice, value: &mut u32, closes_percent: usize) -> QueueCall {
    match dice.below(100) {
        below if below < closes_percent => QueueCall::Close,
        below if below < 55 => {
            *value += 1;
            QueueCall::Push(*value)
        }
        _ => QueueCall::Pop,
    }
}

/// Fails unless the answers of the queue fit some order, in every schedule.
pub(crate) fn explore_queue<S: Subject>() {
    explore(PREEMPTIONS, || try_queue::<S>().assert_legal());
}

/// Fails unless a queue that is known to lie is found out in some schedule.
pub(crate) fn explore_lies<S: Subject>() {
    let lies = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&lies);
    explore(PREEMPTIONS, move || {
        if !try_queue::<S>().is_legal() {
            *counted.lock().unwrap() += 1;
        }
    });
    let lies = *lies.lock().unwrap();
    assert!(lies > 0, "the checker did not find out a queue that lies");
    std::println!("found out in {lies} schedules");
}

impl Subject for Ring<u32> {
    fn new(dice: &mut Dice) -> (Self, usize) {
        let capacity = 1 + dice.below(3);
        (Ring::aged(capacity, dice.below(3) as u64), capacity)
    }

    fn act(&self, call: &QueueCall) -> Option<QueueAnswer> {
        Some(match *call {
            QueueCall::Push(value) => self.push(value).map_or(QueueAnswer::Full, |()| QueueAnswer::Accepted),
            QueueCall::Pop => self.pop().map_or(QueueAnswer::Empty, QueueAnswer::Value),
            QueueCall::Close => unreachable!("a ring cannot be closed"),
        })
    }
}

impl Subject for Gate<u32> {
    const CLOSES_PERCENT: usize = 12;

    fn new(dice: &mut Dice) -> (Self, usize) {
        let capacity = 1 + dice.below(3);
        (Gate::with_capacity(capacity).unwrap(), capacity)
    }

    fn act(&self, call: &QueueCall) -> Option<QueueAnswer> {
        Some(match *call {
            QueueCall::Push(value) => match self.try_enqueue(value) {
                Ok(()) => QueueAnswer::Accepted,
                Err(Refusal::Full(_)) => QueueAnswer::Full,
                Err(Refusal::Closed(_)) => QueueAnswer::Closed,
                Err(Refusal::TimedOut(_)) => unreachable!("nobody waits"),
            },
            QueueCall::Pop => match self.try_dequeue() {
                Ok(value) => QueueAnswer::Value(value),
                Err(NoValue::Empty) => QueueAnswer::Empty,
                Err(NoValue::Closed) => QueueAnswer::Closed,
                Err(NoValue::TimedOut) => unreachable!("nobody waits"),
            },
            QueueCall::Close => {
                self.close();
                QueueAnswer::Closed
            }
        })
    }
}

/// A thief and the queue of its own that it moves halves to.
struct Thief {
    stealer: Stealer<u32>,
    own: StealQueue<u32>,
}

impl Thief {
    fn act(&self, call: &DequeCall) -> Option<DequeAnswer> {
        match *call {
            DequeCall::TakeOldest => match self.stealer.steal() {
                Steal::Success(value) => Some([value].into()),
                Steal::Empty => Some(Vec::new()),
                Steal::Retry => None,
            },
            DequeCall::TakeHalf => match self.stealer.steal_half(&self.own) {
                Steal::Success(_) => Some(core::iter::from_fn(|| self.own.pop_oldest()).collect()),
                Steal::Empty => Some(Vec::new()),
                Steal::Retry => None,
            },
            DequeCall::Push(_) | DequeCall::Pop => unreachable!("a thief only takes"),
        }
    }
}

fn owner_act(queue: &StealQueue<u32>, call: &DequeCall) -> Option<DequeAnswer> {
    Some(match *call {
        DequeCall::Push(value) => {
            assert_eq!(queue.push(value), Ok(()));
            Vec::new()
        }
        DequeCall::Pop => queue.pop().into_iter().collect(),
        DequeCall::TakeOldest => queue.pop_oldest().into_iter().collect(),
        DequeCall::TakeHalf => unreachable!("an owner takes one at a time"),
    })
}

/// An owner who starts with up to six items and makes two to six calls, and two thieves who take two or
/// three times. The smallest buffer holds two items under the checkers, so it grows and shrinks meanwhile.
fn try_deque() -> Trial<PlainDeque> {
    let (seed, mut dice) = Dice::for_schedule();
    let queue = StealQueue::new();
    let recorder = Recorder::<PlainDeque>::new();
    let mut value = 0;
    let mut push = || {
        value += 1;
        DequeCall::Push(value)
    };
    for _ in 0..dice.below(7) {
        recorder.note(push(), |call| owner_act(&queue, call));
    }
    let calls = 2 + dice.below(5);
    let program: Vec<DequeCall> = (0..calls)
        .map(|_| match dice.below(5) {
            0..2 => push(),
            2..4 => DequeCall::Pop,
            _ => DequeCall::TakeOldest,
        })
        .collect();
    let thieves: Vec<_> = (0..2)
        .map(|_| {
            let thief = Thief { stealer: queue.stealer(), own: StealQueue::new() };
            let takes = 2 + dice.below(2);
            let take = |_| if dice.below(3) == 0 { DequeCall::TakeHalf } else { DequeCall::TakeOldest };
            let program: Vec<DequeCall> = (0..takes).map(take).collect();
            let recorder = recorder.clone();
            thread::spawn(move || {
                program.into_iter().for_each(|call| recorder.note(call, |call| thief.act(call)))
            })
        })
        .collect();
    program.into_iter().for_each(|call| recorder.note(call, |call| owner_act(&queue, call)));
    for thief in thieves {
        thief.join().unwrap();
    }
    for _ in 0..=queue.len() {
        recorder.note(DequeCall::Pop, |call| owner_act(&queue, call));
    }
    Trial { seed, start: PlainDeque::default(), history: recorder.history() }
}

#[test]
fn the_answers_of_a_ring_fit_some_order() {
    explore_queue::<Ring<u32>>();
}

#[test]
fn the_answers_of_a_gate_fit_some_order() {
    explore_queue::<Gate<u32>>();
}

#[test]
fn the_answers_of_a_steal_queue_fit_some_order() {
    explore(PREEMPTIONS, || try_deque().assert_legal());
}
