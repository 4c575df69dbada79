//! One model in a process of its own: how it is run, and what its end means.
//!
//! A process each, because a deadlock found by loom can end the process, and because a mutant is chosen by the
//! environment. The end is judged with suspicion: a run passes only if it says that one test passed and how much
//! it explored, and it fails only if the test failed or the process broke down. All else is an error, and never
//! counts as a catch.
//!
//! Not here: which models are run against which mutant (`mutants.rs`).

use super::make::{Make, Suite};
use crate::jobs;
use crate::process::{self, Ended};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What all runs have in common.
pub(crate) struct Explorer<'a> {
    pub(crate) root: &'a Path,
    pub(crate) schedules: u32,
    /// The same where a mutant is in force.
    pub(crate) mutant_schedules: u32,
    /// How long one exploration of shuttle goes on before it stops short.
    pub(crate) model_seconds: u64,
    /// What shuttle's schedules are drawn from when no mutant is in force.
    pub(crate) seed: u64,
    /// The same for mutants: whether one is caught must not hang on luck that changes from run to run.
    pub(crate) mutant_seed: u64,
    pub(crate) limit: Duration,
    pub(crate) jobs: usize,
}

/// One run of one model.
pub(crate) struct Explored<'a> {
    pub(crate) suite: &'a Suite,
    pub(crate) test: &'a str,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
}

/// How a run ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The model held; `extent` is what it says it explored.
    Held { extent: String },
    /// The model failed: an assertion, a race, a deadlock. `symptom` is one line.
    Failed { symptom: String, output: String },
    /// It did not end in time, which proves nothing either way.
    TimedOut { output: String },
    /// The run itself went wrong.
    Broken { reason: String },
}

impl<'a> Explored<'a> {
    pub(crate) fn passed(&self) -> bool {
        matches!(self.outcome, Outcome::Held { .. })
    }

    pub(crate) fn make(&self) -> Make {
        self.suite.make
    }

    /// The run in one line.
    pub(crate) fn line(&self) -> String {
        let what = match &self.outcome {
            Outcome::Held { extent } => extent.clone(),
            Outcome::Failed { symptom, .. } => format!("FAILED: {symptom}"),
            Outcome::TimedOut { .. } => "TIMED OUT".to_owned(),
            Outcome::Broken { reason } => format!("BROKEN: {reason}"),
        };
        format!("{:<7} {:<60} {:>6.1} s  {what}", self.make().name(), self.test, self.elapsed.as_secs_f64())
    }
}

impl Explorer<'_> {
    /// Runs one model, with `mutant` in force if there is one.
    pub(crate) fn explore<'a>(
        &self,
        suite: &'a Suite,
        test: &'a str,
        mutant: Option<&str>,
    ) -> Result<Explored<'a>, String> {
        let mut command = Command::new(&suite.executable);
        command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).current_dir(&suite.folder);
        command.env("MILLPOND_SCHEDULES", self.schedules.to_string()).env_remove("MILLPOND_MUTANT");
        command.env("MILLPOND_MODEL_SECONDS", self.model_seconds.to_string());
        // That it knows no weak orderings is why it is not the only checker here; it need not say so each time.
        command.env("SHUTTLE_SILENCE_WARNINGS", "1").env("SHUTTLE_RANDOM_SEED", self.seed.to_string());
        if let Some(mutant) = mutant {
            command.env("MILLPOND_MUTANT", mutant).env("SHUTTLE_RANDOM_SEED", self.mutant_seed.to_string());
            command.env("MILLPOND_SCHEDULES", self.mutant_schedules.to_string());
        }
        let ended = process::watch(self.root, &mut command, self.limit)?;
        let elapsed = ended.elapsed;
        Ok(Explored { suite, test, outcome: judge(ended), elapsed })
    }

    /// Runs several models, a few at a time, and shows each as it ends.
    pub(crate) fn explore_each<'a>(
        &self,
        runs: &[(&'a Suite, &'a str)],
        show: impl Fn(&Explored<'a>) + Sync,
    ) -> Result<Vec<Explored<'a>>, String> {
        jobs::for_each(self.jobs, runs, |(suite, test)| self.explore(suite, test, None), show)
    }
}

fn judge(ended: Ended) -> Outcome {
    let Some(status) = ended.status else { return Outcome::TimedOut { output: ended.output } };
    let output = ended.output;
    if status.success() {
        return match extent(&output) {
            _ if !output.contains("test result: ok. 1 passed") => {
                broken("expected one test to run, none did; was it renamed?")
            }
            None => broken("it passed without a word on what it explored; models call `explore`"),
            Some(extent) => Outcome::Held { extent },
        };
    }
    if output.contains("test result: FAILED") || broke_down(status) {
        return Outcome::Failed { symptom: symptom(&output, status), output };
    }
    broken(&format!("{status}, and no test result"))
}

fn broken(reason: &str) -> Outcome {
    Outcome::Broken { reason: reason.to_owned() }
}

/// Whether the process ended itself by a fault that a test can cause: an abort, a bad address. A kill from outside,
/// as when memory runs out, is no such thing.
fn broke_down(status: std::process::ExitStatus) -> bool {
    const ILLEGAL: i32 = 4;
    const ABORT: i32 = 6;
    const BUS: i32 = 7;
    const SEGMENT: i32 = 11;
    use std::os::unix::process::ExitStatusExt;
    matches!(status.signal(), Some(ILLEGAL | ABORT | BUS | SEGMENT))
}

/// What the model says it explored; several explorations in one test are told one after the other.
fn extent(output: &str) -> Option<String> {
    let extents: Vec<_> =
        output.lines().filter_map(|line| line.find("explored ").map(|at| line[at..].trim())).collect();
    Some(extents.join(", ")).filter(|extent| !extent.is_empty())
}

/// The first panic, in one line.
fn symptom(output: &str, status: std::process::ExitStatus) -> String {
    const MESSAGE_CHARACTERS_MAX: usize = 90;
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at "));
    let place = lines.next().and_then(|line| line.split_once("panicked at ")).map(|(_, place)| place);
    let message = lines.find(|line| !line.trim().is_empty());
    let (Some(place), Some(message)) = (place, message) else { return status.to_string() };
    let message: String = message.trim().chars().take(MESSAGE_CHARACTERS_MAX).collect();
    format!("{message} ({})", short_place(place))
}

/// A place without its colon, and in a dependency without the folders above the dependency.
fn short_place(place: &str) -> &str {
    let inside = place.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/'));
    inside.map_or(place, |(_, rest)| rest).trim_end_matches(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn judged(raw_status: Option<i32>, output: &str) -> Outcome {
        let status = raw_status.map(ExitStatus::from_raw);
        judge(Ended { status, output: output.to_owned(), elapsed: Duration::ZERO })
    }

    const OK: &str = "test result: ok. 1 passed; 0 failed";

    #[test]
    fn a_model_holds_when_one_test_passed_and_said_what_it_explored() {
        let output = format!("test a_model::b ... explored 12 executions\n{OK}");
        assert_eq!(judged(Some(0), &output), Outcome::Held { extent: "explored 12 executions".to_owned() });
    }

    #[test]
    fn a_run_of_no_test_is_broken_and_so_is_one_that_explored_nothing() {
        let none = "running 0 tests\ntest result: ok. 0 passed; 0 failed";
        assert!(matches!(judged(Some(0), none), Outcome::Broken { .. }));
        assert!(matches!(judged(Some(0), OK), Outcome::Broken { .. }));
    }

    #[test]
    fn a_failed_test_shows_its_first_panic() {
        let output = "thread 'x' panicked at src/ring_model.rs:9:5:\nassertion failed: two takers\nnote: y\n\
                      test result: FAILED. 0 passed; 1 failed";
        let Outcome::Failed { symptom, .. } = judged(Some(101 << 8), output) else { panic!("not a failure") };
        assert_eq!(symptom, "assertion failed: two takers (src/ring_model.rs:9:5)");
    }

    #[test]
    fn a_place_in_a_dependency_begins_with_the_dependency() {
        assert_eq!(
            short_place("/home/me/.cargo/registry/src/index-1/loom-0.7.2/src/rt.rs:1:2:"),
            "loom-0.7.2/src/rt.rs:1:2"
        );
        assert_eq!(short_place("crates/queue/src/ring.rs:1:2:"), "crates/queue/src/ring.rs:1:2");
    }

    #[test]
    fn an_abort_is_a_failure_and_a_kill_from_outside_is_none() {
        assert!(matches!(judged(Some(6), "deadlock"), Outcome::Failed { .. }));
        assert!(matches!(judged(Some(9), ""), Outcome::Broken { .. }));
        assert!(matches!(judged(Some(1 << 8), "error: bad flag"), Outcome::Broken { .. }));
    }

    #[test]
    fn a_time_out_is_neither_held_nor_failed() {
        assert!(matches!(judged(None, ""), Outcome::TimedOut { .. }));
    }
}
