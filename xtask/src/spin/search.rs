//! One search: spin writes a C program from the model, the compiler builds it, and the program visits every state.
//!
//! Its answer is judged with suspicion. It must say that it searched all of the state space for what it was asked,
//! that it found no error, and nothing about a limit; whatever cannot be read that way proves nothing. A limit is
//! easily reached and easily overlooked: a search that ran out of depth or memory also says `errors: 0`.
//!
//! Not here: what a fault means for a mutant (`spin.rs`).

use super::plan::{Build, Check, Model};
use crate::process::{self, Ended};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A model, as it is or broken.
pub(super) struct Search {
    pub(super) model: &'static Model,
    pub(super) mutant: Option<&'static str>,
}

pub(super) struct Searched {
    pub(super) search: Search,
    pub(super) verdict: Verdict,
    pub(super) states: u64,
    pub(super) depth: u64,
    /// Of the search alone, without what was built for it.
    pub(super) elapsed: Duration,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Every state was seen, and none was wrong.
    Held,
    /// `trail` is the end of the run that leads to it.
    Violated { fault: Fault, what: String, trail: String },
    /// Nothing is known.
    Unproved { reason: String },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    Assertion,
    NoProgress,
    /// A process that cannot go on, an index out of bounds.
    Other,
}

/// Memory for one search. Two at a time stay below two gigabytes.
const MEGABYTES_MAX: u32 = 950;
/// Steps of one run. The longest run so far has less than 2,000.
const DEPTH_MAX: u32 = 100_000;
/// What spin runs its files through; by itself it would ask for gcc by name.
const PREPROCESSOR: &str = "-Pcc -E -x c";
const BUILD_LIMIT: Duration = Duration::from_secs(300);

impl Search {
    pub(super) fn name(&self) -> String {
        match self.mutant {
            Some(mutant) => format!("{mutant} of {}", self.model.name),
            None => self.model.name.to_owned(),
        }
    }

    fn again(&self) -> Self {
        Self { model: self.model, mutant: self.mutant }
    }

    /// spin, with the settings of this search.
    fn spin(&self, root: &Path, folder: &Path, options: &[&str]) -> Command {
        let mut command = Command::new("spin");
        command.arg(PREPROCESSOR).args(options).current_dir(folder);
        let settings = self.model.settings.iter().copied().chain(self.mutant);
        command.args(settings.map(|setting| format!("-D{setting}"))).arg(root.join(self.model.file));
        command
    }
}

/// Makes one search from the beginning.
pub(super) fn run(root: &Path, search: &Search, limit: Duration) -> Result<Searched, String> {
    let folder = make_folder(root, search)?;
    let unproved = |reason: String| Searched {
        search: search.again(),
        verdict: Verdict::Unproved { reason },
        states: 0,
        depth: 0,
        elapsed: Duration::ZERO,
    };
    if let Some(failure) = build(root, search, &folder)? {
        return Ok(unproved(failure));
    }
    let mut command = Command::new(folder.join("pan"));
    command.args([format!("-m{DEPTH_MAX}"), "-w24".to_owned()]).current_dir(&folder);
    if search.model.check == Check::Progress {
        command.arg("-l");
    }
    let ended = process::watch(root, &mut command, limit)?;
    let elapsed = ended.elapsed;
    let mut verdict = judge(search.model.check, &ended);
    let (states, depth) = extent(&ended.output).unwrap_or_default();
    if let (Verdict::Violated { trail, .. }, None) = (&mut verdict, search.mutant) {
        *trail = retrace(root, search, &folder)?;
    }
    Ok(Searched { search: search.again(), verdict, states, depth, elapsed })
}

/// An empty folder for what one search leaves behind.
fn make_folder(root: &Path, search: &Search) -> Result<PathBuf, String> {
    let folder = process::target_folder(root).join("spin").join(search.name().replace(' ', "-"));
    let failed = |error| format!("{}: cannot be made: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

/// Builds the program that searches. An answer is what went wrong.
fn build(root: &Path, search: &Search, folder: &Path) -> Result<Option<String>, String> {
    let mut compiler = Command::new("cc");
    compiler.args(match search.model.build {
        // A mutant is found out soon, and then the compiler is what takes longest.
        _ if search.mutant.is_some() => ["-O0"].as_slice(),
        Build::Quick => &["-O0"],
        Build::Optimised => &["-Og"],
        Build::Compressed => &["-Og", "-DCOLLAPSE"],
    });
    compiler.arg(match search.model.check {
        Check::Safety => "-DSAFETY",
        Check::Progress => "-DNP",
    });
    compiler.args([&format!("-DMEMLIM={MEGABYTES_MAX}"), "-o", "pan", "pan.c"]);
    compiler.current_dir(folder);
    for mut command in [search.spin(root, folder, &["-a"]), compiler] {
        let ended = process::watch(root, &mut command, BUILD_LIMIT)?;
        if !ended.succeeded() {
            return Ok(Some(format!(
                "{} failed:\n{}",
                process::shown(&command),
                process::tail(&ended.output)
            )));
        }
    }
    Ok(None)
}

/// The end of the run that leads to a fault, step by step.
fn retrace(root: &Path, search: &Search, folder: &Path) -> Result<String, String> {
    let file = Path::new(search.model.file).file_name().unwrap_or_default().to_string_lossy();
    let mut command = search.spin(root, folder, &["-p", "-g", "-k", &format!("{file}.trail")]);
    Ok(process::tail(&process::watch(root, &mut command, BUILD_LIMIT)?.output))
}

fn judge(check: Check, ended: &Ended) -> Verdict {
    let unproved = |reason: &str| Verdict::Unproved { reason: reason.to_owned() };
    if ended.status.is_none() {
        return unproved("it did not end in time; raise --time-limit or make the model smaller");
    }
    let words = ended.output.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(limit) = LIMITS.iter().find(|limit| words.contains(**limit)) {
        return unproved(&format!("a limit was reached: {limit}; make the model smaller"));
    }
    let Some(errors) = after(&words, "errors: ") else {
        return unproved("no count of errors could be read in its answer");
    };
    if extent(&ended.output).is_none() {
        return unproved("no number of states and depth could be read in its answer");
    }
    if errors != "0" {
        return violated(&ended.output)
            .unwrap_or_else(|| unproved("it counts an error and does not say which"));
    }
    if words.contains("Search not completed") {
        return unproved("it says that the search was not completed");
    }
    let asked: &[&str] = match check {
        Check::Safety => &["assertion violations +", "invalid end states +"],
        Check::Progress => &["assertion violations +", "non-progress cycles + (fairness disabled)"],
    };
    let asked = ["Full statespace search for:"].iter().chain(asked);
    match asked.into_iter().find(|wanted| !words.contains(**wanted)) {
        Some(missing) => unproved(&format!("expected \"{missing}\" in its answer, found none")),
        None => Verdict::Held,
    }
}

/// What it says when it could not see everything.
const LIMITS: &[&str] = &["max search depth too small", "MEMLIM", "out of memory", "Interrupted"];

/// The first error, which ends the search.
fn violated(output: &str) -> Option<Verdict> {
    let what = output.lines().find_map(|line| line.strip_prefix("pan:1: "))?;
    let what = what.split(" (at depth").next().unwrap_or(what).to_owned();
    let fault = match what.as_str() {
        what if what.starts_with("assertion violated") => Fault::Assertion,
        what if what.starts_with("non-progress cycle") => Fault::NoProgress,
        _ => Fault::Other,
    };
    Some(Verdict::Violated { fault, what, trail: String::new() })
}

/// How many states were stored and how deep the search went.
fn extent(output: &str) -> Option<(u64, u64)> {
    let states = output.lines().find(|line| line.contains(" states, stored"))?;
    // Large numbers are written with an exponent.
    let states: f64 = states.split_whitespace().next()?.parse().ok()?;
    let depth = after(output, "depth reached ")?.trim_end_matches(',').parse().ok()?;
    Some((states as u64, depth))
}

/// The word behind `mark`.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark)?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    const HELD: &str = "
(Spin Version 6.5.2 -- 6 December 2019)
Full statespace search for:
\tnever claim         \t- (none specified)
\tassertion violations\t+
\tcycle checks       \t- (disabled by -DSAFETY)
\tinvalid end states\t+

State-vector 64 byte, depth reached 165, errors: 0
1.15245e+08 states, stored
";

    fn judged(check: Check, output: &str) -> Verdict {
        let status = Some(ExitStatus::from_raw(0));
        judge(check, &Ended { status, output: output.to_owned(), elapsed: Duration::ZERO })
    }

    fn is_unproved(output: &str) -> bool {
        matches!(judged(Check::Safety, output), Verdict::Unproved { .. })
    }

    #[test]
    fn a_full_search_without_errors_holds() {
        assert_eq!(judged(Check::Safety, HELD), Verdict::Held);
        assert_eq!(extent(HELD), Some((115_245_000, 165)));
        let progress = HELD.replace("invalid end states\t+", "non-progress cycles \t+ (fairness disabled)");
        assert_eq!(judged(Check::Progress, &progress), Verdict::Held);
    }

    #[test]
    fn a_search_that_did_not_see_everything_proves_nothing() {
        assert!(is_unproved(&format!("error: max search depth too small\n{HELD}")));
        assert!(is_unproved(&format!("pan: reached -DMEMLIM bound\n{HELD}")));
        assert!(is_unproved(&format!("{HELD}\nWarning: Search not completed\n")));
        assert!(is_unproved(&HELD.replace("Full statespace", "Bit statespace")));
        let timed_out = Ended { status: None, output: HELD.to_owned(), elapsed: Duration::ZERO };
        assert!(matches!(judge(Check::Safety, &timed_out), Verdict::Unproved { .. }));
    }

    #[test]
    fn a_search_for_something_else_proves_nothing() {
        assert!(matches!(judged(Check::Progress, HELD), Verdict::Unproved { .. }));
        assert!(is_unproved(&HELD.replace("assertion violations\t+", "assertion violations\t- (disabled)")));
    }

    #[test]
    fn an_answer_that_cannot_be_read_proves_nothing() {
        assert!(is_unproved(""));
        assert!(is_unproved(&HELD.replace("states, stored", "states")));
        assert!(is_unproved(&HELD.replace("depth reached 165", "depth reached far")));
        assert!(is_unproved(&HELD.replace("errors: 0", "errors: 1")), "an error without a word on it");
    }

    #[test]
    fn an_error_is_told_by_its_kind() {
        let fault = |message: &str| {
            let output =
                format!("pan:1: {message} (at depth 33)\n{}", HELD.replace("errors: 0", "errors: 1"));
            match judged(Check::Safety, &format!("{output}\nWarning: Search not completed")) {
                Verdict::Violated { fault, what, .. } => (fault, what),
                verdict => panic!("expected a fault, got {verdict:?}"),
            }
        };
        let assertion = fault("assertion violated (filled==emptied)");
        assert_eq!(assertion, (Fault::Assertion, "assertion violated (filled==emptied)".to_owned()));
        assert_eq!(fault("non-progress cycle").0, Fault::NoProgress);
        assert_eq!(fault("invalid end state").0, Fault::Other);
    }
}
