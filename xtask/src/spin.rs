//! `cargo xtask spin`: searches every state of the spin models, then breaks them and sees that spin notices.
//!
//! loom and shuttle run the code itself, with a bound on switches or a number of schedules. spin runs a hand-made
//! picture of it, and all of that: every interleaving, every death, and every run without an end. So it is the one
//! checker that can say *lock-free*. A picture can be too rough to show a fault, which is what its mutants are for.
//!
//! Not here: which models and mutants there are (`spin/plan.rs`), searching one (`spin/search.rs`).

mod plan;
mod search;

use crate::jobs;
use clap::Args;
use plan::{MODELS, MUTANTS, Model};
use search::{Fault, Search, Searched, Verdict};
use std::path::Path;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct SpinArguments {
    /// Search the models and leave the mutants alone
    #[arg(long)]
    no_mutants: bool,
    /// Search the mutants, and of the models only those they are mutants of
    #[arg(long, conflicts_with = "no_mutants")]
    only_mutants: bool,
    /// How long one search may take; one that takes longer is an error
    #[arg(long, default_value_t = TIME_LIMIT_SECONDS, value_name = "SECONDS")]
    time_limit: u64,
    /// How many searches run at a time; each may use up to a gigabyte
    #[arg(long, default_value_t = 2, value_name = "N")]
    jobs: usize,
    /// Only models and mutants whose name contains this (in either case)
    filter: Option<String>,
}

const TIME_LIMIT_SECONDS: u64 = 300;

impl SpinArguments {
    /// What `cargo xtask test` runs: everything, or with `quick` the models alone.
    pub(crate) fn for_test(quick: bool) -> Self {
        Self { no_mutants: quick, only_mutants: false, time_limit: TIME_LIMIT_SECONDS, jobs: 2, filter: None }
    }

    fn picks(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.filter.as_ref().is_none_or(|filter| name.contains(&filter.to_lowercase()))
    }

    /// The searches to make: models first, since they take longest. A mutant brings its model along, for its
    /// rejection means nothing unless the model holds without it.
    fn searches(&self) -> Vec<Search> {
        let mutants: Vec<_> = MUTANTS
            .iter()
            .filter(|mutant| !self.no_mutants && (self.picks(mutant.name) || self.picks(mutant.of)))
            .collect();
        let is_wanted = |model: &&Model| {
            let is_broken = mutants.iter().any(|mutant| mutant.of == model.name);
            is_broken || (!self.only_mutants && self.picks(model.name))
        };
        let models = MODELS.iter().filter(is_wanted).map(|model| Search { model, mutant: None });
        let broken = mutants
            .iter()
            .filter_map(|mutant| Some(Search { model: plan::model(mutant.of)?, mutant: Some(mutant.name) }));
        models.chain(broken).collect()
    }
}

pub(crate) fn run(root: &Path, arguments: &SpinArguments) -> Result<bool, String> {
    let searches = arguments.searches();
    if searches.is_empty() {
        let filter = arguments.filter.as_deref().unwrap_or_default();
        return Err(format!("{filter}: no model and no mutant has this in its name"));
    }
    println!("{} searches", searches.len());
    let limit = Duration::from_secs(arguments.time_limit);
    let work = |search: &Search| search::run(root, search, limit);
    let searched =
        jobs::for_each(arguments.jobs, &searches, work, |searched| println!("{}", line(searched)))?;
    Ok(sum_up(&searched))
}

/// What a search means: a model must hold, and a mutant must be rejected by what its model is about.
#[derive(Debug, PartialEq)]
enum Meaning {
    Held,
    Failed,
    Rejected,
    Survived,
    Undecided,
}

fn meaning(searched: &Searched) -> Meaning {
    match (&searched.verdict, searched.search.mutant) {
        (Verdict::Unproved { .. }, _) => Meaning::Undecided,
        (Verdict::Held, None) => Meaning::Held,
        (Verdict::Violated { .. }, None) => Meaning::Failed,
        (Verdict::Held, Some(_)) => Meaning::Survived,
        (Verdict::Violated { fault, .. }, Some(_)) if *fault == searched.search.model.check.fault() => {
            Meaning::Rejected
        }
        // Broken some other way, so it shows nothing about what it was made for.
        (Verdict::Violated { .. }, Some(_)) => Meaning::Undecided,
    }
}

/// A search in one line, with what led to a fault that should not be there.
fn line(searched: &Searched) -> String {
    let (word, remark) = match meaning(searched) {
        Meaning::Held => ("held", String::new()),
        Meaning::Failed => ("FAILED", String::new()),
        Meaning::Rejected => ("rejected", String::new()),
        Meaning::Survived => ("SURVIVED", "; the model is too weak to need this".to_owned()),
        Meaning::Undecided => ("UNDECIDED", String::new()),
    };
    let Searched { states, depth, elapsed, .. } = searched;
    let extent = match searched.verdict {
        Verdict::Held => "exhaustive",
        Verdict::Violated { .. } => "until the fault",
        Verdict::Unproved { .. } => "incomplete",
    };
    let what = match &searched.verdict {
        Verdict::Held => String::new(),
        Verdict::Violated { what, fault: Fault::Other, .. } => format!(": unexpected: {what}"),
        Verdict::Violated { what, .. } => format!(": {what}"),
        Verdict::Unproved { reason } => format!(": {reason}"),
    };
    let trail = match &searched.verdict {
        Verdict::Violated { trail, .. } if meaning(searched) == Meaning::Failed => format!("\n{trail}"),
        _ => String::new(),
    };
    let name = searched.search.name();
    let seconds = elapsed.as_secs_f64();
    let found = format!("{states:>9} states, depth {depth:>4}, {extent}");
    format!("  {word:<9} {name:<44} {seconds:>5.1} s  {found}{what}{remark}{trail}")
}

/// Prints the counts, and answers whether every model held and every mutant was rejected.
fn sum_up(searched: &[Searched]) -> bool {
    let count = |is_mutant: bool, wanted: Meaning| {
        let of_kind = searched.iter().filter(|one| one.search.mutant.is_some() == is_mutant);
        of_kind.filter(|one| meaning(one) == wanted).count()
    };
    let (held, failed, unproved) =
        (count(false, Meaning::Held), count(false, Meaning::Failed), count(false, Meaning::Undecided));
    let states: u64 = searched.iter().filter(|one| meaning(one) == Meaning::Held).map(|one| one.states).sum();
    println!("models: {held} held in all of {states} states, {failed} failed, {unproved} undecided");
    let (rejected, survived, undecided) =
        (count(true, Meaning::Rejected), count(true, Meaning::Survived), count(true, Meaning::Undecided));
    if rejected + survived + undecided > 0 {
        println!("mutants: {rejected} rejected, {survived} survived, {undecided} undecided");
    }
    held + rejected == searched.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Check;

    fn searched(check: Check, mutant: Option<&'static str>, verdict: Verdict) -> Searched {
        let model = MODELS.iter().find(|model| model.check == check).expect("a model of each kind");
        let search = Search { model, mutant };
        Searched { search, verdict, states: 7, depth: 3, elapsed: Duration::ZERO }
    }

    fn violated(fault: Fault) -> Verdict {
        Verdict::Violated { fault, what: "what".to_owned(), trail: "the way there".to_owned() }
    }

    fn unproved() -> Verdict {
        Verdict::Unproved { reason: "out of memory".to_owned() }
    }

    #[test]
    fn a_model_must_hold_and_a_failure_shows_the_way_there() {
        let held = searched(Check::Safety, None, Verdict::Held);
        assert!(line(&held).contains("exhaustive") && sum_up(&[held]));
        let failed = searched(Check::Safety, None, violated(Fault::Assertion));
        assert!(line(&failed).contains("FAILED") && line(&failed).ends_with("the way there"));
        assert!(!sum_up(&[failed]));
        assert!(!sum_up(&[searched(Check::Safety, None, unproved())]));
    }

    #[test]
    fn a_mutant_must_be_rejected_and_for_the_right_reason() {
        let fate = |check, verdict| meaning(&searched(check, Some("MUTANT_X"), verdict));
        assert_eq!(fate(Check::Safety, violated(Fault::Assertion)), Meaning::Rejected);
        assert_eq!(fate(Check::Progress, violated(Fault::NoProgress)), Meaning::Rejected);
        assert_eq!(fate(Check::Progress, violated(Fault::Assertion)), Meaning::Undecided);
        assert_eq!(fate(Check::Safety, violated(Fault::Other)), Meaning::Undecided);
        assert_eq!(fate(Check::Safety, unproved()), Meaning::Undecided);
        assert_eq!(fate(Check::Safety, Verdict::Held), Meaning::Survived);
        assert!(!sum_up(&[searched(Check::Safety, Some("MUTANT_X"), Verdict::Held)]));
    }

    #[test]
    fn a_mutant_brings_its_model_along() {
        let mut arguments = SpinArguments::for_test(false);
        assert_eq!(arguments.searches().len(), MODELS.len() + MUTANTS.len());
        arguments.only_mutants = true;
        arguments.filter = Some(MUTANTS[0].name.to_lowercase());
        let names: Vec<_> = arguments.searches().iter().map(Search::name).collect();
        assert_eq!(names, [MUTANTS[0].of.to_owned(), format!("{} of {}", MUTANTS[0].name, MUTANTS[0].of)]);
        assert!(SpinArguments::for_test(true).searches().iter().all(|search| search.mutant.is_none()));
    }
}
