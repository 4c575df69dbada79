//! Whether what threads were told fits some order in which the calls came one after the other.
//!
//! A queue is linearizable if each call can be given one moment between its start and its end, so that a plain,
//! single-threaded queue that gets the calls at those moments gives the same answers. Models that count
//! items cannot see the lie of an *empty* told beside a waiting item; this can.
//!
//! The search is that of Wing and Gong: of the calls not yet placed, one that began before any other of them
//! ended must come next; try each, and go back when the plain queue would have answered otherwise. What was
//! tried is remembered (which calls are placed, and the state they led to), so that histories of a dozen
//! calls take microseconds.
//!
//! Not here: where histories come from (`linear_model.rs`).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;
use std::collections::HashSet;

/// A plain queue that the calls could have been made to, one by one.
pub(crate) trait Sequential: Clone + Eq + Hash {
    /// What is asked of it.
    type Call: fmt::Debug;
    /// What it answers.
    type Answer: PartialEq + fmt::Debug;

    /// Does what is asked and answers.
    fn act(&mut self, call: &Self::Call) -> Self::Answer;
}

/// One call as a thread saw it. Times are numbers of a clock that ticks with every start and every end.
#[derive(Debug)]
pub(crate) struct Operation<Call, Answer> {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) call: Call,
    pub(crate) answer: Answer,
}

/// The calls of one run, in any order.
pub(crate) type History<Model> = Vec<Operation<<Model as Sequential>::Call, <Model as Sequential>::Answer>>;

/// An order of the calls, by index, in which `start` would have given the same answers; `None` if there is none.
pub(crate) fn legal_order<Model: Sequential>(start: &Model, history: &History<Model>) -> Option<Vec<usize>> {
    assert!(history.len() <= 64, "a history of at most 64 calls, since which are placed is kept in one word");
    let mut search = Search { history, order: Vec::new(), dead_ends: HashSet::new() };
    search.place_rest(0, start).then_some(search.order)
}

struct Search<'a, Model: Sequential> {
    history: &'a History<Model>,
    /// The calls placed so far.
    order: Vec<usize>,
    /// Sets of placed calls and the states they led to, from which there was no way on.
    dead_ends: HashSet<(u64, Model)>,
}

impl<Model: Sequential> Search<'_, Model> {
    fn place_rest(&mut self, placed: u64, state: &Model) -> bool {
        let left = |index: &usize| placed & 1 << index == 0;
        let Some(first_end) =
            (0..self.history.len()).filter(left).map(|index| self.history[index].ended).min()
        else {
            return true;
        };
        if self.dead_ends.contains(&(placed, state.clone())) {
            return false;
        }
        for index in (0..self.history.len()).filter(left) {
            let operation = &self.history[index];
            // A call that began after another had ended cannot come before it.
            if operation.began > first_end {
                continue;
            }
            let mut next = state.clone();
            if next.act(&operation.call) == operation.answer {
                self.order.push(index);
                if self.place_rest(placed | 1 << index, &next) {
                    return true;
                }
                self.order.pop();
            }
        }
        self.dead_ends.insert((placed, state.clone()));
        false
    }
}

/// What is asked of a bounded queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueCall {
    Push(u32),
    Pop,
    Close,
}

/// What a bounded queue answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAnswer {
    Accepted,
    Full,
    Value(u32),
    Empty,
    Closed,
}

/// A bounded queue, first in, first out, that takes nothing more once it is closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlainQueue {
    capacity: usize,
    items: VecDeque<u32>,
    closed: bool,
}

impl PlainQueue {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { capacity, items: VecDeque::new(), closed: false }
    }
}

impl Sequential for PlainQueue {
    type Call = QueueCall;
    type Answer = QueueAnswer;

    fn act(&mut self, call: &QueueCall) -> QueueAnswer {
        match *call {
            QueueCall::Push(_) if self.closed => QueueAnswer::Closed,
            QueueCall::Push(_) if self.items.len() == self.capacity => QueueAnswer::Full,
            QueueCall::Push(value) => {
                self.items.push_back(value);
                QueueAnswer::Accepted
            }
            QueueCall::Pop => match self.items.pop_front() {
                Some(value) => QueueAnswer::Value(value),
                None if self.closed => QueueAnswer::Closed,
                None => QueueAnswer::Empty,
            },
            QueueCall::Close => {
                self.closed = true;
                QueueAnswer::Closed
            }
        }
    }
}

/// What is asked of a deque. Only the owner pushes and pops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DequeCall {
    Push(u32),
    /// The newest.
    Pop,
    /// The oldest, taken by the owner or by a thief.
    TakeOldest,
    /// The older half at once: of three items two.
    TakeHalf,
}

/// What a deque gives: nothing for a push, and for a take what was taken, the oldest first. No item means empty.
pub(crate) type DequeAnswer = Vec<u32>;

/// A deque without a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PlainDeque(VecDeque<u32>);

impl Sequential for PlainDeque {
    type Call = DequeCall;
    type Answer = DequeAnswer;

    fn act(&mut self, call: &DequeCall) -> DequeAnswer {
        match *call {
            DequeCall::Push(value) => {
                self.0.push_back(value);
                vec![]
            }
            DequeCall::Pop => self.0.pop_back().into_iter().collect(),
            DequeCall::TakeOldest => self.0.pop_front().into_iter().collect(),
            DequeCall::TakeHalf => self.0.drain(..self.0.len().div_ceil(2)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history from (began, ended, call, answer).
    fn history<Call: Copy, Answer: Clone>(
        calls: &[(u64, u64, Call, Answer)],
    ) -> Vec<Operation<Call, Answer>> {
        let operation = |(began, ended, call, answer): &(u64, u64, Call, Answer)| Operation {
            began: *began,
            ended: *ended,
            call: *call,
            answer: answer.clone(),
        };
        calls.iter().map(operation).collect()
    }

    fn queue_order(calls: &[(u64, u64, QueueCall, QueueAnswer)]) -> Option<Vec<usize>> {
        legal_order(&PlainQueue::with_capacity(2), &history(calls))
    }

    #[test]
    fn calls_that_overlap_may_have_come_in_either_order() {
        use QueueAnswer::*;
        let order = queue_order(&[
            (1, 6, QueueCall::Push(1), Accepted),
            (2, 5, QueueCall::Push(2), Accepted),
            (3, 4, QueueCall::Pop, Value(2)),
            (7, 8, QueueCall::Pop, Value(1)),
        ]);
        assert_eq!(order, Some(vec![1, 0, 2, 3]));
    }

    #[test]
    fn calls_that_do_not_overlap_keep_their_order() {
        use QueueAnswer::*;
        let turned_round = [
            (1, 2, QueueCall::Push(1), Accepted),
            (3, 4, QueueCall::Push(2), Accepted),
            (5, 6, QueueCall::Pop, Value(2)),
        ];
        assert_eq!(queue_order(&turned_round), None);
    }

    #[test]
    fn empty_beside_a_finished_push_is_rejected() {
        use QueueAnswer::*;
        // The push of 2 was over before the pop began, and the pop of 1 took only 1.
        let lie = [
            (1, 8, QueueCall::Push(1), Accepted),
            (2, 3, QueueCall::Push(2), Accepted),
            (4, 5, QueueCall::Pop, Empty),
            (9, 10, QueueCall::Pop, Value(1)),
        ];
        assert_eq!(queue_order(&lie), None);
    }

    #[test]
    fn full_after_a_finished_pop_is_rejected() {
        use QueueAnswer::*;
        let lie = [
            (1, 2, QueueCall::Push(1), Accepted),
            (3, 4, QueueCall::Push(2), Accepted),
            (5, 9, QueueCall::Pop, Value(1)),
            (6, 7, QueueCall::Pop, Value(2)),
            (8, 10, QueueCall::Push(3), Full),
        ];
        assert_eq!(queue_order(&lie), None, "both pops had to come before the end of the second one");
    }

    #[test]
    fn an_item_taken_twice_or_never_pushed_is_rejected() {
        use QueueAnswer::*;
        let twice = [
            (1, 2, QueueCall::Push(1), Accepted),
            (3, 5, QueueCall::Pop, Value(1)),
            (4, 6, QueueCall::Pop, Value(1)),
        ];
        assert_eq!(queue_order(&twice), None);
        assert_eq!(queue_order(&[(1, 2, QueueCall::Pop, Value(7))]), None);
    }

    #[test]
    fn closed_is_told_only_after_closing_and_to_takers_only_when_drained() {
        use QueueAnswer::*;
        let drained = [
            (1, 2, QueueCall::Push(1), Accepted),
            (3, 8, QueueCall::Close, Closed),
            (4, 5, QueueCall::Push(2), Closed),
            (6, 7, QueueCall::Pop, Value(1)),
            (9, 10, QueueCall::Pop, Closed),
        ];
        assert!(queue_order(&drained).is_some());
        assert_eq!(queue_order(&drained[2..3]), None, "nobody closed it");
        let too_early =
            [drained[0], drained[1], (9, 10, QueueCall::Pop, Closed), (11, 12, QueueCall::Pop, Value(1))];
        assert_eq!(queue_order(&too_early), None, "an accepted item was left behind");
    }

    #[test]
    fn a_thief_may_not_find_nothing_and_then_something_nobody_pushed_meanwhile() {
        let calls = [
            (1, 2, DequeCall::Push(1), vec![]),
            (3, 10, DequeCall::Pop, vec![]),
            (4, 5, DequeCall::TakeOldest, vec![]),
            (6, 7, DequeCall::TakeOldest, vec![1]),
        ];
        assert_eq!(legal_order(&PlainDeque::default(), &history(&calls)), None);
        let honest = [calls[0].clone(), (3, 10, DequeCall::Pop, vec![1]), calls[2].clone()];
        assert!(legal_order(&PlainDeque::default(), &history(&honest)).is_some());
    }

    #[test]
    fn half_means_the_older_half_and_of_one_that_one() {
        let push = |at, value| (at, at + 1, DequeCall::Push(value), vec![]);
        let calls = [push(1, 1), push(3, 2), push(5, 3), (7, 8, DequeCall::TakeHalf, vec![1, 2])];
        assert!(legal_order(&PlainDeque::default(), &history(&calls)).is_some());
        let one = [push(1, 1), (3, 4, DequeCall::TakeHalf, vec![1]), (5, 6, DequeCall::TakeHalf, vec![])];
        assert!(legal_order(&PlainDeque::default(), &history(&one)).is_some());
        let newer = [push(1, 1), push(3, 2), (5, 6, DequeCall::TakeHalf, vec![2])];
        assert_eq!(legal_order(&PlainDeque::default(), &history(&newer)), None);
    }
}
