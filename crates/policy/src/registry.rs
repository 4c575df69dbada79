//! Strategies by name: the one table of those that come with millpond, a register for others, and the swap of
//! one for another while tasks flow.
//!
//! A strategy decides about one task at a time, and a swap happens between two tasks. So each task is decided
//! by the old strategy or by the new one: none is lost, none is decided twice. What the old one knew is not
//! handed over; the new one is told of every worker there is, as if all had just come.
//!
//! Not here: what the strategies do (`choose.rs` and the files below it).

use crate::choose::{
    Choice, Choose, FairShare, InterleavedWeighted, LeastBusy, LeastUsed, LeastUtilised, PowerOfTwo, Random,
    RoundRobin, WeightedRoundRobin,
};
use crate::setting::unknown_name;
use crate::view::{Columns, TaskView, Views, WorkerState, WorkerView};
use crate::{BadSetting, Moment};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// A strategy that comes with millpond.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// What it is called.
    pub name: &'static str,
    /// Whom it chooses, in a few words.
    pub about: &'static str,
    /// What a choice among n workers costs.
    pub cost: &'static str,
    /// Makes one. The seed matters to those that draw at random.
    pub make: fn(seed: u64) -> Box<dyn Choose>,
}

/// The strategies that come with millpond: the source of help texts, pages and error messages.
pub const STRATEGIES: &[Strategy] = &[
    Strategy {
        name: RoundRobin::NAME,
        about: "workers take turns",
        cost: "O(1); O(n) past workers that take no tasks",
        make: |_| Box::new(RoundRobin::new()),
    },
    Strategy {
        name: LeastUsed::NAME,
        about: "the worker that has been given the fewest tasks",
        cost: "O(n); above 256 workers O(n / 64), and 64 for each that changed",
        make: |_| Box::new(LeastUsed::new()),
    },
    Strategy {
        name: LeastBusy::NAME,
        about: "the worker with the fewest tasks running and waiting",
        cost: "O(n), up to the first with none; above 256 workers O(n / 64), and 64 for each that changed",
        make: |_| Box::new(LeastBusy::new()),
    },
    Strategy {
        name: LeastUtilised::NAME,
        about: "the worker that was busy for the smallest share of the last while",
        cost: "O(n); above 256 workers O(n / 64), and 64 for each that changed",
        make: |_| Box::new(LeastUtilised::new()),
    },
    Strategy {
        name: WeightedRoundRobin::NAME,
        about: "workers take turns, heavy ones several tasks in a row",
        cost: "O(1) amortised; O(n) once a round",
        make: |_| Box::new(WeightedRoundRobin::new()),
    },
    Strategy {
        name: InterleavedWeighted::NAME,
        about: "as often as each worker weighs, evenly spread",
        cost: "O(heaviest / mean weight) amortised; O(n) once a round",
        make: |_| Box::new(InterleavedWeighted::new()),
    },
    Strategy {
        name: FairShare::NAME,
        about: "the worker that has had the least run time lately, counting what waits for it",
        cost: "O(n); above 256 workers O(n / 64), and 64 for each that changed; O(n) when time fades",
        make: |_| Box::new(FairShare::new()),
    },
    Strategy {
        name: PowerOfTwo::NAME,
        about: "the less loaded of two workers drawn at random",
        cost: "O(1); O(n) where most take no tasks",
        make: |seed| Box::new(PowerOfTwo::new(seed)),
    },
    Strategy {
        name: Random::NAME,
        about: "a worker drawn at random, to compare others with",
        cost: "O(1); O(n) where most take no tasks",
        make: |seed| Box::new(Random::new(seed)),
    },
];

/// Other names by which a strategy may be asked for, and its own.
pub const ALIASES: &[(&str, &str)] = &[("least-elu", LeastUtilised::NAME)];

/// The setting that errors speak of.
const SETTING: &str = "strategy";
/// The most strategies that may be registered.
pub const REGISTERED_MAX: usize = 256;
/// The longest name of a registered strategy, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A strategy that comes with millpond, by its name or an alias.
///
/// # Errors
///
/// An unknown name: the error lists those that are known, and the nearest of them.
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Choose>, BadSetting> {
    match built_in(name) {
        Some(strategy) => Ok((strategy.make)(seed)),
        None => {
            let names: Vec<_> = STRATEGIES.iter().map(|strategy| strategy.name).collect();
            Err(unknown_name(SETTING, &names, name))
        }
    }
}

fn built_in(name: &str) -> Option<&'static Strategy> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, own)| own);
    STRATEGIES.iter().find(|strategy| strategy.name == name)
}

/// Makes a strategy from a seed.
pub type Make = Box<dyn Fn(u64) -> Box<dyn Choose> + Send + Sync>;

/// Strategies by name: those that come with millpond, and others that users add.
#[derive(Default)]
pub struct Registry {
    added: Vec<(String, Make)>,
}

impl Registry {
    /// Only those that come with millpond.
    pub const fn new() -> Self {
        Self { added: Vec::new() }
    }

    /// Adds a strategy. It is made anew whenever it is asked for.
    ///
    /// # Errors
    ///
    /// A name that is taken, empty, longer than [`NAME_BYTES_MAX`], or not made of small letters, digits and
    /// hyphens; or more than [`REGISTERED_MAX`] strategies.
    pub fn register(
        &mut self,
        name: &str,
        make: impl Fn(u64) -> Box<dyn Choose> + Send + Sync + 'static,
    ) -> Result<(), BadSetting> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let bad = |expected, got| Err(BadSetting { setting: SETTING, expected, got });
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            let expected = format!("a name of 1 to {NAME_BYTES_MAX} small letters, digits and hyphens");
            return bad(expected, format!("{name:?}"));
        }
        if built_in(name).is_some() || self.added.iter().any(|(taken, _)| taken == name) {
            return bad("a name that is not taken".to_owned(), format!("{name:?}, which is"));
        }
        if self.added.len() >= REGISTERED_MAX {
            return bad(format!("at most {REGISTERED_MAX} registered strategies"), "one more".to_owned());
        }
        self.added.push((name.to_owned(), Box::new(make)));
        Ok(())
    }

    /// The names of all strategies, first those that come with millpond.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        STRATEGIES
            .iter()
            .map(|strategy| strategy.name)
            .chain(self.added.iter().map(|(name, _)| name.as_str()))
    }

    /// A strategy by its name or an alias.
    ///
    /// # Errors
    ///
    /// An unknown name: the error lists those that are known, and the nearest of them.
    pub fn by_name(&self, name: &str, seed: u64) -> Result<Box<dyn Choose>, BadSetting> {
        if let Some((_, make)) = self.added.iter().find(|(added, _)| added == name) {
            return Ok(make(seed));
        }
        match built_in(name) {
            Some(strategy) => Ok((strategy.make)(seed)),
            None => Err(unknown_name(SETTING, &self.names().collect::<Vec<_>>(), name)),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The present strategy, which can be swapped for another.
#[derive(Debug)]
pub struct Chooser {
    strategy: Box<dyn Choose>,
}

impl Chooser {
    /// Begins with this strategy. Workers that are there already are told with [`Choose::worker_added`], or
    /// by [`Chooser::swap`].
    pub fn new(strategy: Box<dyn Choose>) -> Self {
        Self { strategy }
    }

    /// From now on `strategy` chooses. It forgets what it knew and is told of every worker in the picture,
    /// except those that are gone; the strategy that chose until now is handed back.
    pub fn swap(&mut self, mut strategy: Box<dyn Choose>, workers: &Views, now: Moment) -> Box<dyn Choose> {
        strategy.reset();
        for worker in workers.rows().filter(|worker| worker.state != WorkerState::Terminated) {
            strategy.worker_added(&worker, now);
        }
        core::mem::replace(&mut self.strategy, strategy)
    }
}

impl Choose for Chooser {
    fn name(&self) -> &str {
        self.strategy.name()
    }

    fn reads(&self) -> Columns {
        self.strategy.reads()
    }

    fn choose(&mut self, workers: &Views, task: &TaskView, now: Moment) -> Option<Choice> {
        self.strategy.choose(workers, task, now)
    }

    fn wants_task_done(&self) -> bool {
        self.strategy.wants_task_done()
    }

    fn task_done(&mut self, worker: u32, ran: Duration, now: Moment) {
        self.strategy.task_done(worker, ran, now);
    }

    fn worker_added(&mut self, worker: &WorkerView, now: Moment) {
        self.strategy.worker_added(worker, now);
    }

    fn worker_removed(&mut self, worker: u32) {
        self.strategy.worker_removed(worker);
    }

    fn reset(&mut self) {
        self.strategy.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn crew(workers: u32) -> Views {
        let mut views = Views::default();
        (0..workers)
            .for_each(|id| views.push(WorkerView { id, state: WorkerState::Ready, ..WorkerView::default() }));
        views
    }

    #[test]
    fn every_strategy_is_found_by_the_name_it_goes_by() {
        for strategy in STRATEGIES {
            let made = by_name(strategy.name, 1).expect("it is in the table");
            assert_eq!(made.name(), strategy.name);
        }
        assert_eq!(by_name("least-elu", 1).expect("an alias").name(), "least-utilised");
        assert!(ALIASES.iter().all(|(alias, own)| built_in(own).is_some_and(|found| found.name != *alias)));
    }

    #[test]
    fn an_unknown_name_lists_what_is_known_and_guesses_what_was_meant() {
        let error = by_name("leest-bussy", 1).unwrap_err();
        let all = "one of round-robin, least-used, least-busy, least-utilised, weighted-round-robin, \
                   interleaved-weighted, fair-share, power-of-two, random";
        assert_eq!((error.setting, error.expected.as_str()), ("strategy", all));
        assert_eq!(error.got, "\"leest-bussy\"; did you mean \"least-busy\"?");
        for name in ["", "fastest", &"x".repeat(100_000)] {
            let error = by_name(name, 1).unwrap_err();
            assert!(!error.got.contains("did you mean") && error.got.len() < 80, "{error}");
        }
    }

    #[test]
    fn a_registered_strategy_is_made_by_its_name_and_listed_in_errors() {
        let mut registry = Registry::new();
        registry.register("mine", |seed| Box::new(Random::new(seed))).expect("a free name");
        assert_eq!(registry.by_name("mine", 3).expect("it is there").name(), "random");
        assert_eq!(registry.by_name("least-elu", 3).expect("built in").name(), "least-utilised");
        assert!(registry.by_name("mime", 3).unwrap_err().to_string().ends_with("did you mean \"mine\"?"));
    }

    #[test]
    fn names_that_are_taken_or_no_names_are_refused() {
        let mut registry = Registry::new();
        let mut refusal = |name: &str| {
            registry.register(name, |_| Box::new(RoundRobin::new())).expect_err("refused").to_string()
        };
        for name in ["", " ", "Mine", "mi ne", &"m".repeat(NAME_BYTES_MAX + 1)] {
            assert!(refusal(name).contains("a name of 1 to 64 small letters"), "{name:?}");
        }
        for name in ["round-robin", "least-elu"] {
            assert!(refusal(name).contains("a name that is not taken"), "{name:?}");
        }
        registry.register("mine", |_| Box::new(RoundRobin::new())).expect("a free name");
        assert!(registry.register("mine", |_| Box::new(RoundRobin::new())).is_err(), "twice");
        for at in registry.added.len()..REGISTERED_MAX {
            registry
                .register(&format!("mine-{at}"), |_| Box::new(RoundRobin::new()))
                .expect("below the limit");
        }
        assert!(registry.register("one-more", |_| Box::new(RoundRobin::new())).is_err(), "above the limit");
    }

    /// Counts what it is told.
    #[derive(Debug, Default)]
    struct Told {
        added: Vec<u32>,
        resets: u32,
    }

    impl Choose for Told {
        fn name(&self) -> &str {
            "told"
        }

        fn reads(&self) -> Columns {
            Columns::NONE
        }

        fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
            let why = if self.added == workers.ids() && self.resets == 1 {
                "told of all"
            } else {
                "not told of all"
            };
            Some(Choice { at: 0, worker: workers.ids()[0], reason: crate::choose::Reason::Custom(why) })
        }

        fn worker_added(&mut self, worker: &WorkerView, _now: Moment) {
            self.added.push(worker.id);
        }

        fn reset(&mut self) {
            self.resets += 1;
            self.added.clear();
        }
    }

    #[test]
    fn a_swapped_strategy_knows_all_workers_and_every_task_is_decided_once() {
        let workers = crew(3);
        let mut chooser = Chooser::new(Box::new(RoundRobin::new()));
        let next = |chooser: &mut Chooser| chooser.choose(&workers, &TaskView::default(), Moment::ZERO);
        assert_eq!(next(&mut chooser).map(|choice| choice.worker), Some(0));
        let old = chooser.swap(Box::new(Told::default()), &workers, Moment::ZERO);
        assert_eq!((old.name(), chooser.name()), ("round-robin", "told"));
        let reason = next(&mut chooser).map(|choice| choice.reason.to_string());
        assert_eq!(reason.as_deref(), Some("told of all"));
        chooser.swap(old, &workers, Moment::ZERO);
        assert_eq!(next(&mut chooser).map(|choice| choice.worker), Some(0), "it begins anew");
        assert_eq!(next(&mut chooser).map(|choice| choice.worker), Some(1));
    }
}
