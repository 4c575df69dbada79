//! `cargo xtask models`: explores every model under every checker, then weakens the product name by name and sees
//! that a model fails each time.
//!
//! A model that passes proves little until one knows that it can fail. So each named ordering and step is a
//! *mutant*: the same executable is run with that one weakened, and a mutant that no model catches fails this
//! command. Nothing is remembered between runs; what is measured in the first part orders the second.
//!
//! Not here: building (`models/make.rs`), running one model (`models/explore.rs`), the hunt (`models/mutants.rs`), who
//! ran out of time (`models/reach.rs`).

mod explore;
mod make;
mod mutants;
mod reach;

use crate::process;
use crate::tree::Tree;
use clap::builder::RangedI64ValueParser;
use clap::{Args, ValueEnum};
use explore::{Explored, Explorer, Outcome};
use make::{Make, Suite};
use reach::Reach;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A crate with models beside its files.
pub(crate) struct Modelled {
    pub(crate) package: &'static str,
    pub(crate) folder: &'static str,
}

/// The crates that have models.
pub(crate) const MODELLED: &[Modelled] = &[
    Modelled { package: "millpond-queue", folder: "crates/queue" },
    Modelled { package: "millpond", folder: "crates/pool" },
];

/// What a model is worth to us under shuttle, unless another number is given.
const SCHEDULES: u32 = 100_000;
const MUTANT_SCHEDULES: u32 = 20_000;
const MODEL_SECONDS: u64 = 60;
/// `cargo xtask test` hunts one mutant in so many; its time is bounded, and over the runs all have their turn.
const ONE_MUTANT_IN_TEST: u64 = 12;
/// And explores one model in so many with shadowed atomics, which takes most of the time; loom and shuttle explore all.
const ONE_SHADOW_IN_TEST: u64 = 8;
/// What it asks of shuttle, for the same reason.
const SCHEDULES_TEST: u32 = 10_000;
/// What mutants are hunted with unless a seed is given.
const MUTANT_SEED: u64 = 20_260_101;

#[derive(Args)]
pub(crate) struct ModelArguments {
    /// The checker to use
    #[arg(long, value_enum, default_value_t = Choice::All)]
    make: Choice,
    /// Explore the models and leave the mutants alone
    #[arg(long)]
    no_mutants: bool,
    /// Go straight to the mutants
    #[arg(long, conflicts_with = "no_mutants")]
    only_mutants: bool,
    /// How many schedules shuttle tries per model, half of them random and half by priority
    #[arg(long, default_value_t = SCHEDULES, value_name = "N", value_parser = two_or_more())]
    schedules: u32,
    /// The same where a mutant is in force, which is caught early or not at all
    #[arg(long, default_value_t = MUTANT_SCHEDULES, value_name = "N", value_parser = two_or_more())]
    mutant_schedules: u32,
    /// Hunt one mutant in so many, drawn from the seed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    one_mutant_in: u64,
    /// Explore one model in so many with shadowed atomics, drawn from the seed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    one_shadow_in: u64,
    /// How long shuttle goes on with one exploration; a model that stops short is named in the last line
    #[arg(long, default_value_t = MODEL_SECONDS, value_name = "SECONDS")]
    model_seconds: u64,
    /// Draw shuttle's schedules from the seed an earlier run printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long one model may take; a model that takes longer is an error
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    time_limit: u64,
    /// How many models run at a time
    #[arg(long, default_value_t = 2, value_name = "N")]
    jobs: usize,
    /// Only models whose path, and mutants whose name or file, contain this (in either case)
    filter: Option<String>,
}

/// One schedule of each kind, or there is nothing to halve.
fn two_or_more() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(2..)
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Choice {
    /// Orderings, races, lost wake-ups
    Loom,
    /// loom with shadowed atomics, for the interleavings plain loom skips
    Shadow,
    /// Deep random schedules, sequentially consistent
    Shuttle,
    /// Each of them in turn
    All,
}

impl ModelArguments {
    /// What `cargo xtask test` runs: every model, some also with shadowed atomics, and a share of the mutants; or with
    /// `quick` the models alone and fewer schedules.
    pub(crate) fn for_test(quick: bool) -> Self {
        Self {
            make: Choice::All,
            no_mutants: quick,
            only_mutants: false,
            schedules: if quick { 2_000 } else { SCHEDULES_TEST },
            mutant_schedules: MUTANT_SCHEDULES,
            one_mutant_in: ONE_MUTANT_IN_TEST,
            one_shadow_in: ONE_SHADOW_IN_TEST,
            model_seconds: MODEL_SECONDS,
            seed: None,
            time_limit: 300,
            jobs: 2,
            filter: None,
        }
    }

    fn makes(&self) -> Vec<Make> {
        match self.make {
            Choice::Loom => vec![Make::Loom],
            Choice::Shadow => vec![Make::Shadow],
            Choice::Shuttle => vec![Make::Shuttle],
            Choice::All => vec![Make::Loom, Make::Shuttle, Make::Shadow],
        }
    }

    fn picks(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.filter.as_ref().is_none_or(|filter| name.contains(&filter.to_lowercase()))
    }
}

pub(crate) fn run(root: &Path, arguments: &ModelArguments) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let mut all_well = true;
    let mut picked = 0;
    let mut reach = Reach::new(arguments.schedules.into());
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    println!("schedules of shuttle are drawn from --seed {seed}");
    for modelled in MODELLED {
        let found = pick_mutants(&tree, modelled, arguments);
        let known = found.len();
        let mutants: Vec<_> = draw(found.into_iter(), arguments.one_mutant_in, seed).collect();
        if mutants.len() < known {
            println!("{} of {known} mutants are drawn; `cargo xtask models` hunts all", mutants.len());
        }
        let suites = make::build(root, modelled, &arguments.makes())?;
        let explorer = Explorer {
            root,
            schedules: arguments.schedules,
            mutant_schedules: arguments.mutant_schedules,
            model_seconds: arguments.model_seconds,
            seed,
            mutant_seed: arguments.seed.unwrap_or(MUTANT_SEED),
            limit: Duration::from_secs(arguments.time_limit),
            jobs: arguments.jobs.max(1),
        };
        let mut baseline = Vec::new();
        if !arguments.only_mutants {
            baseline = explore_all(&explorer, &suites, arguments)?;
            picked += baseline.len();
            all_well &= report_baseline(&baseline);
            reach.add(&baseline);
        }
        if !arguments.no_mutants {
            picked += mutants.len();
            all_well &= hunt(&explorer, &suites, &baseline, &mutants)?;
        }
    }
    if let Some(line) = reach.line() {
        println!("{line}");
    }
    match &arguments.filter {
        Some(filter) if picked == 0 => Err(format!("{filter}: no model and no mutant has this in its name")),
        _ => Ok(all_well),
    }
}

/// The mutants that the filter picks and the chosen makes can see.
fn pick_mutants(tree: &Tree, modelled: &Modelled, arguments: &ModelArguments) -> Vec<mutants::Mutant> {
    let sees_orderings = arguments.makes().iter().any(|make| make.sees_orderings());
    let found = mutants::find(tree, modelled).into_iter();
    let found = found.filter(|mutant| mutant.is_picked(|name| arguments.picks(name)));
    found.filter(|mutant| sees_orderings || !mutant.is_ordering()).collect()
}

/// Every so manieth, beginning where the seed says.
fn draw<T>(all: impl Iterator<Item = T>, one_in: u64, seed: u64) -> impl Iterator<Item = T> {
    let drawn = move |(place, one)| ((place as u64 + seed % one_in).is_multiple_of(one_in)).then_some(one);
    all.enumerate().filter_map(drawn)
}

/// Another one each time, so that the runs of many days see more than the runs of one.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

fn explore_all<'a>(
    explorer: &Explorer<'_>,
    suites: &'a [Suite],
    arguments: &ModelArguments,
) -> Result<Vec<Explored<'a>>, String> {
    let mut runs = Vec::new();
    for suite in suites {
        let one_in = if suite.make == Make::Shadow { arguments.one_shadow_in } else { 1 };
        let picked = suite.tests.iter().filter(|test| arguments.picks(test));
        runs.extend(draw(picked, one_in, explorer.seed).map(|test| (suite, test.as_str())));
    }
    println!("{} model runs", runs.len());
    if arguments.one_shadow_in > 1 {
        let one_in = arguments.one_shadow_in;
        println!("one model in {one_in} is drawn for shadowed atomics; `cargo xtask models` explores all");
    }
    explorer.explore_each(&runs, |explored| {
        println!("  {}", explored.line());
        if let Outcome::Failed { output, .. } | Outcome::TimedOut { output } = &explored.outcome {
            println!("{}", process::tail(output));
        }
    })
}

fn report_baseline(baseline: &[Explored<'_>]) -> bool {
    let failed = baseline.iter().filter(|explored| !explored.passed()).count();
    println!("models: {} held, {failed} did not", baseline.len() - failed);
    failed == 0
}

/// Mutants mean nothing while a model fails anyway, so the hunt begins when all of them hold.
fn hunt(
    explorer: &Explorer<'_>,
    suites: &[Suite],
    baseline: &[Explored<'_>],
    mutants: &[mutants::Mutant],
) -> Result<bool, String> {
    if baseline.iter().any(|explored| !explored.passed()) {
        println!("mutants: not hunted, since a model fails without them; mend that first");
        return Ok(false);
    }
    mutants::hunt(explorer, suites, baseline, mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_picks_in_either_case_and_none_picks_all() {
        let mut arguments = ModelArguments::for_test(true);
        assert!(arguments.picks("ring_model::anything"));
        arguments.filter = Some("RING".to_owned());
        assert!(arguments.picks("ring_model::anything") && arguments.picks("RING_PUBLISH.release"));
        assert!(!arguments.picks("gate_model::anything"));
    }

    #[test]
    fn shuttle_alone_is_not_asked_about_orderings() {
        let tree = Tree::of(&[("crates/queue/src/ring.rs", "RING_A.release() left_out(\"RING_STEP\")")]);
        let mut arguments = ModelArguments::for_test(false);
        assert_eq!(pick_mutants(&tree, &MODELLED[0], &arguments).len(), 2);
        arguments.make = Choice::Shuttle;
        let picked = pick_mutants(&tree, &MODELLED[0], &arguments);
        assert_eq!(picked.iter().map(|mutant| mutant.name.as_str()).collect::<Vec<_>>(), ["RING_STEP"]);
    }

    #[test]
    fn over_the_seeds_every_mutant_is_drawn_once_and_one_in_one_is_all() {
        let tree = Tree::of(&[(
            "crates/queue/src/ring.rs",
            "RING_A.release() RING_B.release() left_out(\"RING_STEP\")",
        )]);
        let all = || pick_mutants(&tree, &MODELLED[0], &ModelArguments::for_test(false));
        let mut drawn: Vec<_> =
            (0..3).flat_map(|seed| draw(all().into_iter(), 3, seed)).map(|mutant| mutant.name).collect();
        drawn.sort();
        assert_eq!(drawn, all().into_iter().map(|mutant| mutant.name).collect::<Vec<_>>());
        assert_eq!(draw(all().into_iter(), 1, 7).count(), 3);
    }

    #[test]
    fn every_modelled_crate_is_in_the_tree() {
        let tree = Tree::read(&crate::repository_root()).unwrap();
        for modelled in MODELLED {
            let manifest = tree.get(&format!("{}/Cargo.toml", modelled.folder)).expect("no such crate");
            assert!(manifest.text.contains(&format!("name = \"{}\"", modelled.package)));
        }
    }
}
