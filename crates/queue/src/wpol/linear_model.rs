//! The rings of shared memory under the linearizability checker, and with them the checker's own test.
//!
//! Version 1 has an answer for "somebody else is in the middle of it": `Busy`. Taken for what it is, no answer, all
//! others fit some order. Folded into `Full` and `Empty`, as the specification has it, it is a lie, and a checker that
//! does not find it out proves nothing about the others. Version 2 has no such answer and needs none.
//!
//! Not here: how programs are drawn and recorded (`linear_model.rs` at the root of the crate).

use super::error::{PopError, PushError};
use super::layout::v2_control as control;
use super::memory::Memory;
use super::v1::{Entry, Queue, model_memory};
use super::v2_ring::{Ring, RingError};
use crate::linear::{QueueAnswer, QueueCall};
use crate::linear_model::{Dice, Subject, explore_lies, explore_queue};

/// Version 1 with `Busy` told as it is, or folded into an answer about the level.
struct VersionOne<const FOLDED: bool>(Queue);

impl<const FOLDED: bool> Subject for VersionOne<FOLDED> {
    fn new(dice: &mut Dice) -> (Self, usize) {
        let capacity = 1 << dice.below(2);
        (Self(Queue::create(model_memory(capacity), capacity).unwrap()), capacity as usize)
    }

    fn act(&self, call: &QueueCall) -> Option<QueueAnswer> {
        match *call {
            QueueCall::Push(value) => match self.0.push(Entry { priority: value, slot: 0 }) {
                Ok(()) => Some(QueueAnswer::Accepted),
                Err(PushError::Full) => Some(QueueAnswer::Full),
                Err(PushError::Busy) => FOLDED.then_some(QueueAnswer::Full),
                Err(refusal) => panic!("{refusal}"),
            },
            QueueCall::Pop => match self.0.pop() {
                Ok(entry) => Some(QueueAnswer::Value(entry.priority)),
                Err(PopError::Empty) => Some(QueueAnswer::Empty),
                Err(PopError::Busy) => FOLDED.then_some(QueueAnswer::Empty),
                Err(refusal) => panic!("{refusal}"),
            },
            QueueCall::Close => unreachable!("a ring cannot be closed"),
        }
    }
}

struct VersionTwo {
    memory: Memory,
    ring: Ring,
}

impl Subject for VersionTwo {
    fn new(dice: &mut Dice) -> (Self, usize) {
        let log2 = dice.below(2) as u32;
        let ring = Ring::new(0, control::BYTES, log2);
        (Self { memory: Memory::model(ring.words(), control::BYTES + (8 << log2)), ring }, 1 << log2)
    }

    fn act(&self, call: &QueueCall) -> Option<QueueAnswer> {
        Some(match *call {
            QueueCall::Push(value) => match self.ring.push(&self.memory, value) {
                Ok(()) => QueueAnswer::Accepted,
                Err(RingError::Full) => QueueAnswer::Full,
                Err(refusal) => panic!("{refusal:?}"),
            },
            QueueCall::Pop => match self.ring.pop(&self.memory) {
                Ok(value) => QueueAnswer::Value(value),
                Err(RingError::Empty) => QueueAnswer::Empty,
                Err(refusal) => panic!("{refusal:?}"),
            },
            QueueCall::Close => unreachable!("a ring cannot be closed"),
        })
    }
}

#[test]
fn the_answers_of_version_1_fit_some_order_while_busy_is_no_answer() {
    explore_queue::<VersionOne<false>>();
}

#[test]
fn busy_folded_into_full_and_empty_is_found_out() {
    explore_lies::<VersionOne<true>>();
}

#[test]
fn the_answers_of_version_2_fit_some_order() {
    explore_queue::<VersionTwo>();
}
