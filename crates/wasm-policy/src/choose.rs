//! Which worker gets a task: the strategy, its choice, and the reason when somebody asks.
//!
//! A choice is a worker's number. The reason is kept as a value until it is asked for, and JavaScript puts it into
//! words, so that a choice costs no text.

use crate::brain::{self, Brain, has_room};
use crate::number::{moment, nanos, whole, worker};
use alloc::boxed::Box;
use millpond_policy::choose::{
    Choose, FairShare, InterleavedWeighted, LeastBusy, LeastUsed, LeastUtilised, PowerOfTwo, Random, Reason,
    RoundRobin, WeightedRoundRobin,
};
use millpond_policy::view::TaskView;

/// What a strategy and its notes on each worker may take, in bytes.
const STRATEGY_BYTES: usize = 4096;
const NOTES_BYTES: usize = 128;

impl Brain {
    /// The place of the chosen worker.
    fn choose(&mut self, expected_ns: u64, now: f64) -> Option<usize> {
        let task = TaskView { expected_ns, ..TaskView::default() };
        self.choice = self.chooser.choose(&self.workers, &task, moment(now));
        self.choice.map(|choice| choice.at)
    }
}

/// A strategy by its place in the table of `millpond_policy::registry`, which would bring its descriptions along.
fn strategy(number: u32, seed: u64) -> Option<Box<dyn Choose>> {
    Some(match number {
        0 => Box::new(RoundRobin::new()),
        1 => Box::new(LeastUsed::new()),
        2 => Box::new(LeastBusy::new()),
        3 => Box::new(LeastUtilised::new()),
        4 => Box::new(WeightedRoundRobin::new()),
        5 => Box::new(InterleavedWeighted::new()),
        6 => Box::new(FairShare::new()),
        7 => Box::new(PowerOfTwo::new(seed)),
        8 => Box::new(Random::new(seed)),
        _ => return None,
    })
}

/// From now on this strategy chooses; 0 if there is none of this number or no memory for it. The seed is for those
/// that draw at random.
#[unsafe(no_mangle)]
pub extern "C" fn choose_use(number: u32, seed_low: u32, seed_high: u32, now: f64) -> u32 {
    brain::with(|brain| {
        if !has_room(STRATEGY_BYTES + NOTES_BYTES * brain.workers.len()) {
            return 0;
        }
        let Some(strategy) = strategy(number, whole(seed_low, seed_high)) else { return 0 };
        brain.chooser.swap(strategy, &brain.workers, moment(now));
        brain.choice = None;
        1
    })
}

/// The number of a worker for a task that will probably run so long (0: not known), or -1 if none takes tasks.
#[unsafe(no_mangle)]
pub extern "C" fn choose(now: f64, expected: f64) -> i32 {
    brain::with(|brain| {
        brain.choose(nanos(expected), now);
        worker(brain.choice.map(|choice| choice.worker))
    })
}

/// As [`choose`], and from now on the task waits for that worker.
#[unsafe(no_mangle)]
pub extern "C" fn choose_and_queue(now: f64, expected: f64) -> i32 {
    brain::with(|brain| {
        if let Some(at) = brain.choose(nanos(expected), now) {
            brain.queue(at);
        }
        worker(brain.choice.map(|choice| choice.worker))
    })
}

/// Why the last choice was made: the place of the reason among those of `millpond_policy::choose`, with its numbers
/// on the slate; -1 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn choose_reason() -> i32 {
    brain::with(|brain| {
        let Some(choice) = brain.choice else { return -1 };
        let (place, numbers) = match choice.reason {
            Reason::Turn => (0, [0, 0]),
            Reason::WeightedTurn { weight, left } => (1, [weight.into(), left.into()]),
            Reason::FewestGiven { given } => (2, [given, 0]),
            Reason::LowestLoad { load } => (3, [load.into(), 0]),
            Reason::LeastUtilised { utilisation, load } => (4, [utilisation.into(), load.into()]),
            Reason::SmallestShare { share } => (5, [share.into(), 0]),
            Reason::BetterOfTwo { load, other } => (6, [load.into(), other.into()]),
            Reason::Drawn => (7, [0, 0]),
            Reason::OnlyOne => (8, [0, 0]),
            _ => return -1,
        };
        brain.slate.put_all(numbers);
        place
    })
}

/// The strategy forgets everything.
#[unsafe(no_mangle)]
pub extern "C" fn choose_reset() {
    brain::with(|brain| brain.chooser.reset());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;
    use crate::workers::{workers_add, workers_came, workers_gone, workers_len, workers_remove};
    use millpond_policy::registry::STRATEGIES;

    const LEAST_BUSY: u32 = 2;

    #[test]
    fn strategies_have_the_places_of_the_table() {
        for (number, known) in STRATEGIES.iter().enumerate() {
            assert_eq!(strategy(number as u32, 1).expect("it is there").name(), known.name);
        }
        assert!(strategy(STRATEGIES.len() as u32, 1).is_none(), "and no others");
    }

    #[test]
    fn every_strategy_chooses_somebody_and_says_why() {
        assert_ne!(slate_at(0), 0);
        (0..3).for_each(|id| assert_eq!(workers_add(id, 2, 0, 0.0), 1));
        let reasons = [0, 2, 3, 4, 1, 1, 5, 6, 7];
        for (number, reason) in reasons.into_iter().enumerate() {
            assert_eq!(choose_use(number as u32, 1, 0, 0.0), 1);
            assert_eq!(choose_reason(), -1, "a new strategy has chosen nobody yet");
            assert!((0..3).contains(&choose(1.0, 0.0)));
            assert_eq!(choose_reason(), reason, "strategy {number}");
        }
    }

    #[test]
    fn the_numbers_of_a_reason_stand_on_the_slate() {
        assert_ne!(slate_at(0), 0);
        (0..2).for_each(|id| assert_eq!(workers_add(id, 2, 3 - 2 * id, 0.0), 1));
        assert_eq!(choose_use(4, 0, 0, 0.0), 1);
        assert_eq!((choose(0.0, 0.0), choose_reason()), (0, 1));
        assert_eq!(brain::with(|brain| (brain.slate.read(0), brain.slate.read(1))), (3, 2));
    }

    #[test]
    fn a_choice_that_is_queued_counts_at_the_next() {
        (0..2).for_each(|id| assert_eq!(workers_add(id, 2, 0, 0.0), 1));
        assert_eq!(choose_use(LEAST_BUSY, 0, 0, 0.0), 1);
        let chosen: Vec<i32> = (0..4).map(|_| choose_and_queue(0.0, 0.0)).collect();
        assert_eq!(chosen, [0, 1, 0, 1]);
        assert_eq!(brain::with(|brain| brain.workers.queued().to_vec()), [2, 2]);
    }

    #[test]
    fn an_unknown_strategy_is_refused_and_the_old_one_goes_on() {
        assert_eq!((choose(0.0, 0.0), choose_reason()), (-1, -1), "nobody is there");
        assert_eq!(workers_add(4, 2, 0, 0.0), 1);
        assert_eq!(choose_use(99, 0, 0, 0.0), 0);
        assert_eq!(choose(0.0, 0.0), 4);
        workers_remove(0);
        assert_eq!((workers_len(), choose(0.0, 0.0)), (0, -1));
    }

    #[test]
    fn a_strategy_is_told_of_workers_without_a_picture() {
        assert_eq!(choose_use(6, 0, 0, 0.0), 1);
        workers_came(3, 0.0);
        workers_gone(3, 0.0);
        choose_reset();
        assert_eq!(choose(0.0, 0.0), -1);
    }
}
