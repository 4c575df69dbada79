//! `cargo xtask test`: the one test command. It prepares what it needs, runs every step, and sums up.
//!
//! A step that fails does not stop the others, since one run should tell all there is to mend; only `setup` does,
//! because without a compiler nothing else can run. The last line is `N passed, N failed`, in steps. A step that
//! had nothing to do is shown as skipped and counted as neither.
//!
//! Not here: what each step does (`test/`, `tidy.rs`, `models.rs`, `spin.rs`).

mod benches;
mod bindings;
mod browser;
mod cargo_steps;
mod examples;
mod npm;
mod scrape;
mod setup;

use crate::dist;
use crate::models::{self, ModelArguments};
use crate::spin::{self, SpinArguments};
use crate::tidy;
use clap::{Args, ValueEnum};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct TestArguments {
    /// Leave out what takes minutes: mutants, torture, examples and benches
    #[arg(long)]
    quick: bool,
    /// Run this step alone; may be given several times
    #[arg(long, value_enum, value_name = "STEP")]
    only: Vec<Step>,
}

/// The steps in their order: what fails fast comes first.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Step {
    /// Look for the tools, and install what Debian has
    Setup,
    /// cargo fmt --check
    Format,
    /// clippy with warnings as errors: all targets, without `std`, and as the models see it
    Clippy,
    /// cargo xtask tidy
    Tidy,
    /// Unit and integration tests of every crate
    Unit,
    /// Examples in the documentation, and the documentation itself
    Doc,
    /// cargo xtask models
    Models,
    /// cargo xtask spin
    Spin,
    /// The torture test at its own, short length
    Torture,
    /// Build and run every example
    Examples,
    /// cargo xtask dist: the C example built against it, archive and package taken apart, the daemon tried
    Dist,
    /// The Lua binding in LuaJIT
    Lua,
    /// The Python binding in CPython, as a wheel
    Python,
    /// The npm package: types, tests in Node and in a real browser, the tarball in an empty project
    Npm,
    /// The dashboard in a real browser
    Browser,
    /// schemathesis asks what the OpenAPI document allows, and more
    OpenApi,
    /// A real Prometheus parser reads what a pool says of itself
    Scrape,
    /// One quick bench, to see that the bench still runs
    BenchSmoke,
}

/// What became of a step.
#[derive(Debug, PartialEq)]
enum Verdict {
    Passed,
    /// What failed has been printed.
    Failed,
    /// There was nothing to do, and why.
    Skipped(String),
}

impl From<bool> for Verdict {
    fn from(all_well: bool) -> Self {
        if all_well { Verdict::Passed } else { Verdict::Failed }
    }
}

struct Done {
    step: Step,
    verdict: Verdict,
    elapsed: Duration,
}

pub(crate) fn run(root: &Path, arguments: &TestArguments) -> Result<bool, String> {
    let picked = |step: &&Step| arguments.only.is_empty() || arguments.only.contains(step);
    let steps: Vec<_> = Step::value_variants().iter().filter(picked).copied().collect();
    let mut done: Vec<Done> = Vec::new();
    for step in steps {
        println!("== {}", step.name());
        let started = Instant::now();
        let verdict = if stopped_by_setup(&done) {
            Verdict::Skipped("setup failed".to_owned())
        } else if arguments.quick && step.takes_minutes() {
            Verdict::Skipped("--quick leaves it out".to_owned())
        } else {
            run_step(root, step, arguments.quick).unwrap_or_else(|error| {
                println!("error: {error}");
                Verdict::Failed
            })
        };
        let ended = Done { step, verdict, elapsed: started.elapsed() };
        println!("-- {}", ended.line());
        done.push(ended);
    }
    Ok(sum_up(&done))
}

fn run_step(root: &Path, step: Step, quick: bool) -> Result<Verdict, String> {
    match step {
        Step::Setup => setup::run(root),
        Step::Format => cargo_steps::format(root),
        Step::Clippy => cargo_steps::clippy(root),
        Step::Tidy => tidy::run(root).map(Verdict::from),
        Step::Unit => cargo_steps::unit(root),
        Step::Doc => cargo_steps::doc(root),
        Step::Models => models::run(root, &ModelArguments::for_test(quick)).map(Verdict::from),
        Step::Spin => spin::run(root, &SpinArguments::for_test(quick)).map(Verdict::from),
        Step::Torture => cargo_steps::torture(root),
        Step::Examples => examples::run(root),
        Step::Dist => dist::make_and_check(root, dist::Build::Dev).map(Verdict::from),
        Step::Lua => bindings::lua(root),
        Step::Python => bindings::python(root),
        Step::Npm => npm::run(root),
        Step::Browser => browser::page(root),
        Step::OpenApi => browser::open_api(root),
        Step::Scrape => scrape::run(root),
        Step::BenchSmoke => benches::run(root),
    }
}

impl Step {
    /// As one writes it on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn takes_minutes(self) -> bool {
        matches!(
            self,
            Step::Torture
                | Step::Examples
                | Step::Dist
                | Step::Lua
                | Step::Python
                | Step::Npm
                | Step::Browser
                | Step::OpenApi
                | Step::Scrape
                | Step::BenchSmoke
        )
    }
}

impl Done {
    /// The step in one line.
    fn line(&self) -> String {
        let (word, why) = match &self.verdict {
            Verdict::Passed => ("passed", String::new()),
            Verdict::Failed => ("FAILED", String::new()),
            Verdict::Skipped(why) => ("skipped", format!("  ({why})")),
        };
        format!("{:<12} {word:<8} {:>7.1} s{why}", self.step.name(), self.elapsed.as_secs_f64())
    }
}

fn stopped_by_setup(done: &[Done]) -> bool {
    done.iter().any(|done| done.step == Step::Setup && done.verdict == Verdict::Failed)
}

/// Prints every step and the counts, and answers whether none failed.
fn sum_up(done: &[Done]) -> bool {
    println!("== summary");
    done.iter().for_each(|done| println!("{}", done.line()));
    let (passed, failed) = counts(done);
    println!("{passed} passed, {failed} failed");
    failed == 0
}

fn counts(done: &[Done]) -> (usize, usize) {
    let count = |wanted: Verdict| done.iter().filter(|done| done.verdict == wanted).count();
    (count(Verdict::Passed), count(Verdict::Failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(step: Step, verdict: Verdict) -> Done {
        Done { step, verdict, elapsed: Duration::ZERO }
    }

    #[test]
    fn one_failed_step_fails_the_command_and_a_skipped_one_does_not() {
        let mut steps =
            vec![done(Step::Format, Verdict::Passed), done(Step::Torture, Verdict::Skipped(String::new()))];
        assert_eq!(counts(&steps), (1, 0));
        assert!(sum_up(&steps));
        steps.push(done(Step::Unit, Verdict::Failed));
        assert_eq!(counts(&steps), (1, 1));
        assert!(!sum_up(&steps));
    }

    #[test]
    fn only_a_failed_setup_stops_the_rest() {
        assert!(stopped_by_setup(&[done(Step::Setup, Verdict::Failed)]));
        assert!(!stopped_by_setup(&[
            done(Step::Setup, Verdict::Passed),
            done(Step::Format, Verdict::Failed)
        ]));
    }
}
