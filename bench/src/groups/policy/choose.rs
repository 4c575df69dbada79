//! What does it cost to choose a worker, with 16 of them, with 1000 and with 10,000?
//!
//! Every worker takes tasks and has two, so nobody is idle and a strategy that compares all cannot stop
//! early. For each choice one task ends first, drawn from all that are under way; then the strategy
//! chooses, and the new task is put there. So the picture keeps moving, by two workers a choice, and stays
//! in balance. Of a large crew the strategies look only at those that may have changed; a picture that is
//! filled anew for every choice, as the pool does it, makes them look at all. They are called as the pool
//! calls them, through a table of functions, and are told a time that passes as if each task ran for 100
//! µs.
//!
//! The row `millpond` is `round-robin`. Limits: a counter modulo the number of workers, alone, and with the
//! same picture kept up to date, which every other row pays for too; and the smallest load by a plain loop,
//! which asks nobody whether it takes tasks and gives all equals to the first. There are no peers: what other
//! crates offer is part of a proxy and owns its connections, or is one of these loops.

use super::{Stopwatch, check_repeated, check_spread};
use crate::groups::measured;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use millpond_policy::registry;
use millpond_policy::view::{Columns, TaskView, Views, WorkerState, WorkerView};
use millpond_policy::{BadSetting, Moment};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

/// For those that draw at random.
const SEED: u64 = 20;
/// Tasks under way for each worker: one that runs and one that waits.
const TASKS_PER_WORKER: usize = 2;
const RUN_NS: u64 = 100_000;
/// So many choices are made before the clock runs, so that a strategy has sorted its notes.
const WARM_UP: u64 = 100;

/// How many workers a strategy looks at for one choice.
#[derive(Clone, Copy)]
enum Looks {
    Few,
    Changed,
    All,
}

/// Peer, strategy, and how many workers it looks at.
const ROWS: [(&str, &str, Looks); 9] = [
    ("millpond", "round-robin", Looks::Few),
    ("millpond least-used", "least-used", Looks::Changed),
    ("millpond least-busy", "least-busy", Looks::Changed),
    ("millpond least-utilised", "least-utilised", Looks::Changed),
    ("millpond weighted", "weighted-round-robin", Looks::Few),
    ("millpond interleaved", "interleaved-weighted", Looks::Few),
    ("millpond fair-share", "fair-share", Looks::Changed),
    ("millpond power-of-two", "power-of-two", Looks::Few),
    ("millpond random", "random", Looks::Few),
];

pub(super) fn groups() -> Vec<Group> {
    vec![
        group("policy-choose-16", "a worker out of 16, all busy; millpond is round-robin", 16),
        group("policy-choose-1000", "a worker out of 1000, all busy; millpond is round-robin", 1000),
        group("policy-choose-10000", "a worker out of 10,000, all busy; millpond is round-robin", 10_000),
    ]
}

fn group(name: &'static str, question: &'static str, workers: usize) -> Group {
    let ours = ROWS.map(|(peer, strategy, looks)| {
        Contestant::new(peer, move |round| {
            rehearsed(|| by_strategy(strategy, workers, choices(round, workers, looks)))
        })
    });
    let limits = [
        Contestant::new("~counter", move |round| counter_alone(workers, choices(round, workers, Looks::Few))),
        Contestant::new("~counter, with picture", move |round| {
            rehearsed(|| by_counter(workers, choices(round, workers, Looks::Few)))
        }),
        Contestant::new("~smallest load, loop", move |round| {
            rehearsed(|| by_plain_loop(workers, choices(round, workers, Looks::All)))
        }),
    ];
    measured(name, question, "ns/choice", ours.into_iter().chain(limits).collect())
}

/// Choices in a round: fewer where each goes through many workers.
fn choices(round: &Round, workers: usize, looks: Looks) -> u64 {
    let slower = match looks {
        Looks::Few => 1,
        Looks::Changed => (workers as u64 / 40).clamp(1, 25),
        Looks::All => (workers as u64 / 40).max(1),
    };
    (round.items / 4 / slower).max(1)
}

/// The figure and the checksum of one go.
type Went = Result<(f64, u64), String>;

fn rehearsed(go: impl Fn() -> Went) -> Result<f64, String> {
    let (_, rehearsed) = go()?;
    let (figure, timed) = go()?;
    check_repeated(rehearsed, timed)?;
    Ok(figure)
}

fn by_strategy(strategy: &str, workers: usize, choices: u64) -> Went {
    let mut strategy = registry::by_name(strategy, SEED).map_err(|error: BadSetting| error.to_string())?;
    let scene = Scene::of(workers, strategy.reads());
    scene.views.rows().for_each(|worker| strategy.worker_added(&worker, Moment::ZERO));
    go(scene, choices, |views, now| Some(strategy.choose(views, &TaskView::default(), now)?.at))
}

fn by_counter(workers: usize, choices: u64) -> Went {
    let counter = AtomicUsize::new(0);
    let scene = Scene::of(workers, Columns::NONE);
    go(scene, choices, |views, _| Some(counter.fetch_add(1, Ordering::Relaxed) % views.len()))
}

fn by_plain_loop(workers: usize, choices: u64) -> Went {
    go(Scene::of(workers, Columns::LOAD), choices, |views, _| {
        views.load().iter().enumerate().min_by_key(|(_, load)| **load).map(|(at, _)| at)
    })
}

/// What nobody can choose for less: an atomic step, a division, and no picture.
fn counter_alone(workers: usize, choices: u64) -> Result<f64, String> {
    let (counter, workers) = (AtomicUsize::new(0), black_box(workers));
    let mut checksum = 0;
    let start = Stopwatch::start();
    for _ in 0..choices {
        checksum += black_box(counter.fetch_add(1, Ordering::Relaxed) % workers) as u64;
    }
    let elapsed = start.elapsed();
    check_repeated((0..choices).map(|turn| turn % workers as u64).sum(), checksum)?;
    Ok(ns_per_item(elapsed, choices))
}

/// Chooses so often, then looks whether every task went to somebody and whether they were spread.
fn go(mut scene: Scene, choices: u64, mut choose: impl FnMut(&Views, Moment) -> Option<usize>) -> Went {
    scene.give(WARM_UP, &mut choose)?;
    let start = Stopwatch::start();
    let checksum = scene.give(choices, &mut choose)?;
    let elapsed = start.elapsed();
    scene.check(WARM_UP + choices)?;
    Ok((ns_per_item(elapsed, choices), checksum))
}

/// The workers and the tasks they have.
struct Scene {
    views: Views,
    /// What of the picture is kept up to date, besides load and completed tasks.
    reads: Columns,
    /// Where each task under way was put.
    under_way: Vec<u32>,
    draws: u64,
    now: Moment,
    step_ns: u64,
}

impl Scene {
    fn of(workers: usize, reads: Columns) -> Self {
        let mut views = Views::with_capacity(workers);
        for id in 0..workers as u32 {
            views.push(WorkerView {
                id,
                state: WorkerState::Busy,
                running: 1,
                queued: TASKS_PER_WORKER as u32 - 1,
                run_mean_ns: RUN_NS,
                utilisation: busy_share(TASKS_PER_WORKER as u32),
                ..WorkerView::default()
            });
        }
        let under_way = (0..workers as u32).cycle().take(workers * TASKS_PER_WORKER).collect();
        Self { views, reads, under_way, draws: SEED, now: Moment::ZERO, step_ns: RUN_NS / workers as u64 }
    }

    /// Lets one task end and gives one, so many times. The sum of the chosen places, each times its turn, so
    /// that the order counts.
    #[inline(never)]
    fn give(
        &mut self,
        choices: u64,
        choose: &mut impl FnMut(&Views, Moment) -> Option<usize>,
    ) -> Result<u64, String> {
        let mut checksum = 0_u64;
        for turn in 1..=choices {
            self.now = Moment::from_nanos(self.now.as_nanos() + self.step_ns);
            let place = self.end_one();
            let Some(at) = choose(&self.views, self.now) else {
                return Err(format!("choice {turn} fell on nobody, though all take tasks"));
            };
            self.set_load(at, self.views.load()[at] + 1);
            self.under_way[place] = at as u32;
            checksum = checksum.wrapping_add(turn.wrapping_mul(at as u64));
        }
        Ok(checksum)
    }

    /// A task drawn from all under way ends. Gives the place that it leaves free.
    #[inline(always)]
    fn end_one(&mut self) -> usize {
        self.draws = self.draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = (((self.draws >> 32) * self.under_way.len() as u64) >> 32) as usize;
        let at = self.under_way[place] as usize;
        self.set_load(at, self.views.load()[at] - 1);
        self.views.set_completed(at, self.views.completed()[at] + 1);
        if self.reads.contain(Columns::RUN_TIME) {
            self.views.set_run_time(at, self.views.run_total_ns()[at] + RUN_NS, RUN_NS);
        }
        place
    }

    #[inline(always)]
    fn set_load(&mut self, at: usize, load: u32) {
        self.views.set_load(at, load.min(1), load.saturating_sub(1));
        if self.reads.contain(Columns::UTILISATION) {
            // What is measured is never twice the same.
            self.views.set_utilisation(at, busy_share(load) + (self.draws >> 54) as u16);
        }
    }

    /// Fails unless so many tasks were given, none was lost, and they were spread.
    fn check(&self, choices: u64) -> Result<(), String> {
        let rows = self.views.load().iter().zip(self.views.completed());
        let given: Vec<u64> = rows.map(|(load, completed)| u64::from(*load) + completed).collect();
        let (got, expected) = (given.iter().sum::<u64>(), choices + self.under_way.len() as u64);
        if got != expected {
            return Err(format!("the workers have had {got} tasks, {expected} were given"));
        }
        check_spread(&given)
    }
}

/// Of 10,000: a busy share that follows the load, since one that did not would draw every task to one worker.
fn busy_share(load: u32) -> u16 {
    load.min(4) as u16 * 2000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_row() {
        let mut rows = ROWS.map(|(_, strategy, _)| strategy);
        let mut known: Vec<_> = registry::STRATEGIES.iter().map(|strategy| strategy.name).collect();
        rows.sort_unstable();
        known.sort_unstable();
        assert_eq!(rows.as_slice(), known);
    }

    #[test]
    fn round_robin_and_a_counter_choose_the_same_workers_in_the_same_order() {
        let (_, ours) = by_strategy("round-robin", 16, 1000).unwrap();
        let (_, counter) = by_counter(16, 1000).unwrap();
        assert_eq!(ours, counter);
    }

    #[test]
    fn whoever_names_nobody_or_always_the_same_is_found() {
        let scene = || Scene::of(16, Columns::NONE);
        assert!(go(scene(), 1000, |_, _| None).unwrap_err().contains("fell on nobody"));
        assert!(go(scene(), 1000, |_, _| Some(3)).unwrap_err().starts_with("worker 3 got "));
    }
}
