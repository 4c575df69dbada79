//! Which worker gets a task: the strategy, its choice, and the reason when somebody asks.
//!
//! A choice is a worker's number. The reason is kept as a value until it is asked for, and JavaScript puts it into
//! words, so that a choice costs no text.

use crate::brain::{self, Brain, has_room};
use crate::number::{moment, nanos, whole, worker};
use millpond_policy::Moment;
use millpond_policy::choose::{
    Choice, Choose, FairShare, InterleavedWeighted, LeastBusy, LeastUsed, LeastUtilised, PowerOfTwo, Random,
    Reason, RoundRobin, WeightedRoundRobin,
};
use millpond_policy::view::{TaskView, Views, WorkerState, WorkerView};

/// What a strategy and its notes on each worker may take, in bytes.
const STRATEGY_BYTES: usize = 4096;
const NOTES_BYTES: usize = 128;

impl Brain {
    /// The place of the chosen worker.
    fn choose(&mut self, expected_ns: u64, now: f64) -> Option<usize> {
        let task = TaskView { expected_ns, ..TaskView::default() };
        self.choice = self.strategy.choose(&self.workers, &task, moment(now));
        self.choice.map(|choice| choice.at)
    }
}

/// A strategy, in the order of the table of `millpond_policy::registry`; that would bring its descriptions along. Not
/// behind a pointer: then each would come with all its functions, of which some are never called here.
#[derive(Debug)]
pub(crate) enum Strategy {
    RoundRobin(RoundRobin),
    LeastUsed(LeastUsed),
    LeastBusy(LeastBusy),
    LeastUtilised(LeastUtilised),
    WeightedRoundRobin(WeightedRoundRobin),
    InterleavedWeighted(InterleavedWeighted),
    FairShare(FairShare),
    PowerOfTwo(PowerOfTwo),
    Random(Random),
}

/// Does the same with whichever strategy it is.
macro_rules! with_strategy {
    ($which:expr, $strategy:ident => $act:expr) => {
        match $which {
            Strategy::RoundRobin($strategy) => $act,
            Strategy::LeastUsed($strategy) => $act,
            Strategy::LeastBusy($strategy) => $act,
            Strategy::LeastUtilised($strategy) => $act,
            Strategy::WeightedRoundRobin($strategy) => $act,
            Strategy::InterleavedWeighted($strategy) => $act,
            Strategy::FairShare($strategy) => $act,
            Strategy::PowerOfTwo($strategy) => $act,
            Strategy::Random($strategy) => $act,
        }
    };
}

impl Strategy {
    /// By its place in the table.
    fn at(place: u32, seed: u64) -> Option<Self> {
        Some(match place {
            0 => Self::RoundRobin(RoundRobin::new()),
            1 => Self::LeastUsed(LeastUsed::new()),
            2 => Self::LeastBusy(LeastBusy::new()),
            3 => Self::LeastUtilised(LeastUtilised::new()),
            4 => Self::WeightedRoundRobin(WeightedRoundRobin::new()),
            5 => Self::InterleavedWeighted(InterleavedWeighted::new()),
            6 => Self::FairShare(FairShare::new()),
            7 => Self::PowerOfTwo(PowerOfTwo::new(seed)),
            8 => Self::Random(Random::new(seed)),
            _ => return None,
        })
    }

    fn choose(&mut self, workers: &Views, task: &TaskView, now: Moment) -> Option<Choice> {
        with_strategy!(self, strategy => strategy.choose(workers, task, now))
    }

    /// A worker has come, of which strategies want no more to know than that.
    pub(crate) fn worker_added(&mut self, id: u32, now: Moment) {
        let worker = WorkerView { id, ..WorkerView::default() };
        with_strategy!(self, strategy => strategy.worker_added(&worker, now));
    }

    pub(crate) fn worker_removed(&mut self, id: u32) {
        with_strategy!(self, strategy => strategy.worker_removed(id));
    }
}

/// From now on this strategy chooses; 0 if there is none of this number or no memory for it. The seed is for those
/// that draw at random.
#[unsafe(no_mangle)]
pub extern "C" fn choose_use(number: u32, seed_low: u32, seed_high: u32, now: f64) -> u32 {
    brain::with(|brain| {
        if !has_room(STRATEGY_BYTES + NOTES_BYTES * brain.workers.len()) {
            return 0;
        }
        let Some(strategy) = Strategy::at(number, whole(seed_low, seed_high)) else { return 0 };
        brain.strategy = strategy;
        for at in 0..brain.workers.len() {
            if brain.workers.states()[at] != WorkerState::Terminated {
                brain.strategy.worker_added(brain.workers.ids()[at], moment(now));
            }
        }
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
        brain.slate.put_all(&numbers);
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;
    use crate::workers::{workers_add, workers_came, workers_gone, workers_remove};
    use millpond_policy::registry::STRATEGIES;

    #[test]
    fn strategies_have_the_places_of_the_table() {
        for (number, known) in STRATEGIES.iter().enumerate() {
            let strategy = Strategy::at(number as u32, 1).expect("it is there");
            assert_eq!(with_strategy!(strategy, strategy => strategy.name().to_owned()), known.name);
        }
        assert!(Strategy::at(STRATEGIES.len() as u32, 1).is_none(), "and no others");
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
    fn an_unknown_strategy_is_refused_and_the_old_one_goes_on() {
        assert_eq!((choose(0.0, 0.0), choose_reason()), (-1, -1), "nobody is there");
        assert_eq!(workers_add(4, 2, 0, 0.0), 1);
        assert_eq!(choose_use(99, 0, 0, 0.0), 0);
        assert_eq!(choose(0.0, 0.0), 4);
        workers_remove(0);
        assert_eq!(choose(0.0, 0.0), -1);
    }

    #[test]
    fn a_strategy_is_told_of_workers_without_a_picture() {
        assert_eq!(choose_use(6, 0, 0, 0.0), 1);
        workers_came(3, 0.0);
        workers_gone(3, 0.0);
        assert_eq!(choose(0.0, 0.0), -1);
    }
}
