//! The hunt: each named ordering and each named step is weakened in turn, and a model must fail.
//!
//! A mutant is hunted by the models of the file it is used in: `ring.rs` by `ring_model`. A file without a model is
//! hunted by those of its kin, told by the first words of its name: `steal_buffer.rs` by `steal_model`, `v2_task.rs` by
//! `v2_ring_model` and `v2_slots_model`. Where there is no kin, the models of its folder hunt it, and else all.
//! loom comes first, since it sees most at once; then shuttle, for steps only; then shadowed loom, the slowest.
//! The fastest model goes first. The hunt of a mutant ends with the first catch.
//!
//! Not here: finding the names in the source (`edges.rs`), what counts as a failure (`explore.rs`).

use super::Modelled;
use super::explore::{Explored, Explorer, Outcome};
use super::make::{Make, Suite};
use crate::edges;
use crate::jobs;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One thing to weaken.
#[derive(Debug, PartialEq)]
pub(crate) struct Mutant {
    /// The value of `MILLPOND_MUTANT`.
    pub(crate) name: String,
    /// How the paths of the models begin that must catch it; empty for every model.
    hunters: BTreeSet<String>,
    exempt: Option<String>,
}

enum Fate<'a> {
    Caught { by: Explored<'a>, timed_out: usize },
    Exempt,
    Survived { runs: usize },
    Undecided { reason: String },
}

struct Hunted<'a> {
    mutant: &'a Mutant,
    fate: Fate<'a>,
}

impl Mutant {
    pub(crate) fn is_picked(&self, picks: impl Fn(&str) -> bool) -> bool {
        picks(&self.name) || self.hunters.iter().any(|hunter| picks(hunter))
    }

    /// An end of an edge has a point in its name, a step has none.
    pub(crate) fn is_ordering(&self) -> bool {
        self.name.contains('.')
    }

    fn is_hunted_by(&self, test: &str) -> bool {
        self.hunters.is_empty() || self.hunters.iter().any(|hunter| test.starts_with(hunter))
    }
}

/// The mutants of one crate, by name.
pub(crate) fn find(tree: &Tree, modelled: &Modelled) -> Vec<Mutant> {
    let source = format!("{}/src/", modelled.folder);
    let files: Vec<_> = tree.files.iter().filter_map(|file| file.path.strip_prefix(&source)).collect();
    let mut mutants: BTreeMap<String, Mutant> = BTreeMap::new();
    for found in edges::find(tree).used {
        let Some(path) = found.path.strip_prefix(&source) else { continue };
        let hunters = hunters(path, &files);
        let name = found.mutant.clone();
        let empty = Mutant { name: name.clone(), hunters: hunters.clone(), exempt: None };
        let mutant = mutants.entry(name).or_insert(empty);
        if hunters.is_empty() || mutant.hunters.is_empty() {
            mutant.hunters.clear();
        } else {
            mutant.hunters.extend(hunters);
        }
        mutant.exempt = mutant.exempt.take().or(found.exempt);
    }
    mutants.into_values().collect()
}

/// How the paths of the models begin that answer for the file at `path`; none if every model does.
fn hunters(path: &str, files: &[&str]) -> BTreeSet<String> {
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let (folder, stem) = module
        .rsplit_once('/')
        .map_or(("", module), |(_, stem)| (&module[..module.len() - stem.len()], stem));
    // From the whole name down to its first word, which is that of its kin: `v2_task`, then `v2`.
    let ends = [stem.len()].into_iter().chain(stem.rmatch_indices('_').map(|(at, _)| at));
    for name in ends.map(|end| &stem[..end]) {
        let models = files.iter().filter_map(|file| file.strip_prefix(folder)?.strip_suffix("_model.rs"));
        let is_kin = |rest: &str| rest.is_empty() || rest.starts_with('_');
        let kin = models.filter(|model| model.strip_prefix(name).is_some_and(is_kin));
        let paths: BTreeSet<_> = kin
            .flat_map(|model| [format!("{folder}{model}_model/"), format!("{folder}{model}/{model}_model/")])
            .map(|path| path.replace('/', "::"))
            .collect();
        if !paths.is_empty() {
            return paths;
        }
    }
    let has_models = files.iter().any(|file| file.starts_with(folder) && file.ends_with("_model.rs"));
    if !folder.is_empty() && has_models { [folder.replace('/', "::")].into() } else { BTreeSet::new() }
}

/// Hunts every mutant and reports its fate. All is well if each one not exempt is caught.
pub(crate) fn hunt(
    explorer: &Explorer<'_>,
    suites: &[Suite],
    baseline: &[Explored<'_>],
    mutants: &[Mutant],
) -> Result<bool, String> {
    println!("{} mutants", mutants.len());
    let hunted = jobs::for_each(
        explorer.jobs,
        mutants,
        |mutant| hunt_one(explorer, suites, baseline, mutant).map(|fate| Hunted { mutant, fate }),
        |hunted| println!("  {}", hunted.line()),
    )?;
    let innocent = catchers_hold(explorer, baseline, &hunted)?;
    let count = |wanted: fn(&Fate<'_>) -> bool| hunted.iter().filter(|hunted| wanted(&hunted.fate)).count();
    let survived = count(|fate| matches!(fate, Fate::Survived { .. }));
    let undecided = count(|fate| matches!(fate, Fate::Undecided { .. }));
    println!(
        "mutants: {} caught, {} exempt, {survived} survived, {undecided} undecided",
        count(|fate| matches!(fate, Fate::Caught { .. })),
        count(|fate| matches!(fate, Fate::Exempt)),
    );
    Ok(innocent && survived == 0 && undecided == 0)
}

fn hunt_one<'a>(
    explorer: &Explorer<'_>,
    suites: &'a [Suite],
    baseline: &[Explored<'_>],
    mutant: &Mutant,
) -> Result<Fate<'a>, String> {
    if mutant.exempt.is_some() {
        return Ok(Fate::Exempt);
    }
    let mut timed_out = Vec::new();
    let runs = candidates(suites, baseline, mutant);
    for (suite, test) in &runs {
        let explored = explorer.explore(suite, test, Some(&mutant.name))?;
        match &explored.outcome {
            Outcome::Held { .. } => {}
            Outcome::Failed { .. } => return Ok(Fate::Caught { by: explored, timed_out: timed_out.len() }),
            Outcome::TimedOut { .. } => timed_out.push(format!("{test} under {}", suite.make.name())),
            Outcome::Broken { reason } => {
                let reason = format!("{test} under {}: {reason}", suite.make.name());
                return Ok(Fate::Undecided { reason });
            }
        }
    }
    if runs.is_empty() {
        return Ok(Fate::Undecided { reason: "no model hunts it under this make".to_owned() });
    }
    if timed_out.is_empty() {
        return Ok(Fate::Survived { runs: runs.len() });
    }
    Ok(Fate::Undecided { reason: format!("timed out, which is no catch: {}", timed_out.join(", ")) })
}

/// The runs that may catch `mutant`: makes in their order, within a make the fastest model first. What has not been
/// measured keeps its order by name.
fn candidates<'a>(
    suites: &'a [Suite],
    baseline: &[Explored<'_>],
    mutant: &Mutant,
) -> Vec<(&'a Suite, &'a str)> {
    let mut runs: Vec<(Make, Duration, &Suite, &str)> = Vec::new();
    for suite in suites.iter().filter(|suite| suite.make.sees_orderings() || !mutant.is_ordering()) {
        for test in suite.tests.iter().filter(|test| mutant.is_hunted_by(test)) {
            let measured = baseline.iter().find(|run| run.make() == suite.make && run.test == test);
            runs.push((suite.make, measured.map_or(Duration::MAX, |run| run.elapsed), suite, test));
        }
    }
    runs.sort_by_key(|(make, elapsed, ..)| (*make, *elapsed));
    runs.into_iter().map(|(_, _, suite, test)| (suite, test)).collect()
}

/// A model that fails anyway would seem to catch everything. So whatever caught a mutant and was not run by itself
/// before is run once without one, and must hold.
fn catchers_hold(
    explorer: &Explorer<'_>,
    baseline: &[Explored<'_>],
    hunted: &[Hunted<'_>],
) -> Result<bool, String> {
    let mut catchers = BTreeMap::new();
    for one in hunted {
        if let Fate::Caught { by, .. } = &one.fate
            && !baseline.iter().any(|run| (run.make(), run.test) == (by.make(), by.test))
        {
            catchers.insert((by.make(), by.test), by.suite);
        }
    }
    let runs: Vec<_> = catchers.into_iter().map(|((_, test), suite)| (suite, test)).collect();
    if runs.is_empty() {
        return Ok(true);
    }
    println!("{} models caught a mutant and must now hold without one", runs.len());
    let explored = explorer.explore_each(&runs, |explored| {
        if !explored.passed() {
            println!("  {}", explored.line());
        }
    })?;
    Ok(explored.iter().all(Explored::passed))
}

impl Hunted<'_> {
    fn line(&self) -> String {
        let name = &self.mutant.name;
        match &self.fate {
            Fate::Caught { by, timed_out } => {
                let symptom = if let Outcome::Failed { symptom, .. } = &by.outcome { symptom } else { "" };
                let late = if *timed_out > 0 {
                    format!(" (after {timed_out} that timed out)")
                } else {
                    String::new()
                };
                format!("caught    {name:<32} by {} under {}{late}: {symptom}", by.test, by.make().name())
            }
            Fate::Exempt => {
                format!("exempt    {name:<32} {}", self.mutant.exempt.as_deref().unwrap_or_default())
            }
            Fate::Survived { runs } => {
                format!("SURVIVED  {name:<32} {runs} runs held; write a model that needs it, or take it out")
            }
            Fate::Undecided { reason } => format!("UNDECIDED {name:<32} {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const QUEUE: Modelled = Modelled { package: "millpond-queue", folder: "crates/queue" };

    fn tree() -> Tree {
        Tree::of(&[
            ("crates/queue/src/ring.rs", "RING_A.release() SLOT_B.acquire()"),
            ("crates/queue/src/ring_model.rs", ""),
            ("crates/queue/src/ring_buffer.rs", "left_out(\"BUFFER_STEP\")"),
            (
                "crates/queue/src/slots.rs",
                "SLOT_B.acquire() SLOT_B.release() // mutant-exempt(SLOT_B.release): why",
            ),
            ("crates/queue/src/wpol/v1.rs", "left_out(\"V1_STEP\")"),
            ("crates/queue/src/wpol/v1_model.rs", ""),
            ("crates/queue/src/wpol/v1_task.rs", "left_out(\"TASK_STEP\")"),
            ("crates/queue/src/wpol/v2.rs", "left_out(\"V2_STEP\")"),
            ("crates/queue/src/wpol/v2_ring_model.rs", ""),
            ("crates/queue/src/wpol/memory.rs", "left_out(\"MEMORY_STEP\")"),
            ("crates/pool/src/park.rs", "PARK_A.release()"),
        ])
    }

    fn mutant(name: &str) -> Mutant {
        find(&tree(), &QUEUE).into_iter().find(|mutant| mutant.name == name).expect("no such mutant")
    }

    #[test]
    fn a_mutant_is_hunted_by_the_models_of_its_file() {
        assert!(mutant("RING_A.release").is_hunted_by("ring_model::a"));
        assert!(!mutant("RING_A.release").is_hunted_by("wpol::v1_model::a"));
        assert!(mutant("V1_STEP").is_hunted_by("wpol::v1_model::a"));
        assert!(mutant("V1_STEP").is_hunted_by("wpol::v1::v1_model::a"));
        assert!(!mutant("V1_STEP").is_hunted_by("ring_model::a"));
    }

    #[test]
    fn a_file_without_a_model_is_hunted_by_its_kin() {
        assert!(mutant("BUFFER_STEP").is_hunted_by("ring_model::a"));
        assert!(!mutant("BUFFER_STEP").is_hunted_by("wpol::v1_model::a"));
        assert!(mutant("TASK_STEP").is_hunted_by("wpol::v1_model::a"));
        assert!(!mutant("TASK_STEP").is_hunted_by("wpol::v2_ring_model::a"));
        assert!(mutant("V2_STEP").is_hunted_by("wpol::v2_ring_model::a"));
        assert!(!mutant("V2_STEP").is_hunted_by("wpol::v1_model::a"));
    }

    #[test]
    fn a_shared_file_is_hunted_by_its_folder_or_by_all() {
        assert!(mutant("SLOT_B.acquire").is_hunted_by("wpol::v1_model::a"));
        assert!(mutant("SLOT_B.acquire").is_hunted_by("ring_model::a"));
        assert!(mutant("MEMORY_STEP").is_hunted_by("wpol::v1_model::a"));
        assert!(!mutant("MEMORY_STEP").is_hunted_by("ring_model::a"));
    }

    #[test]
    fn mutants_are_those_of_the_crate_each_once() {
        let names: Vec<_> = find(&tree(), &QUEUE).into_iter().map(|mutant| mutant.name).collect();
        let orderings = ["RING_A.release", "SLOT_B.acquire", "SLOT_B.release"];
        assert_eq!(names.iter().filter(|name| name.contains('.')).collect::<Vec<_>>(), orderings.each_ref());
        assert_eq!(names.len(), orderings.len() + 5, "and five steps");
        assert_eq!(mutant("SLOT_B.release").exempt.as_deref(), Some("why"));
        assert_eq!(mutant("SLOT_B.acquire").exempt, None);
    }

    fn suite(make: Make, script: &str) -> Suite {
        let tests = vec!["ring_model::a".to_owned(), "ring_model::b".to_owned()];
        Suite { make, executable: PathBuf::from(script), tests, folder: crate::repository_root() }
    }

    #[test]
    fn the_fastest_model_goes_first_and_orderings_are_not_hunted_under_shuttle() {
        let suites = [suite(Make::Shadow, ""), suite(Make::Shuttle, ""), suite(Make::Loom, "")];
        let run = |test, millis| Explored {
            suite: &suites[2],
            test,
            outcome: Outcome::Held { extent: String::new() },
            elapsed: Duration::from_millis(millis),
        };
        let baseline = [run("ring_model::a", 20), run("ring_model::b", 10)];
        let order: Vec<_> = candidates(&suites, &baseline, &mutant("RING_A.release"))
            .into_iter()
            .map(|(suite, test)| (suite.make, test))
            .collect();
        let (a, b) = ("ring_model::a", "ring_model::b");
        assert_eq!(order, [(Make::Loom, b), (Make::Loom, a), (Make::Shadow, a), (Make::Shadow, b)]);
        let step = Mutant { name: "RING_STEP".to_owned(), hunters: BTreeSet::new(), exempt: None };
        assert_eq!(candidates(&suites, &baseline, &step).len(), 6);
    }

    /// Hunts one mutant with a pretended executable, whose behaviour hangs on the mutant's name.
    fn fate_of(name: &str) -> (bool, String) {
        let root = crate::repository_root();
        let pretended = root.join("xtask/src/models/pretend_models.sh");
        let mut suites = [suite(Make::Loom, &pretended.to_string_lossy())];
        if name.starts_with("FAILS_ANYWAY") {
            suites[0].tests = vec!["ring_model::fails_anyway".to_owned()];
        }
        let limit =
            if name.starts_with("STUCK") { Duration::from_millis(200) } else { Duration::from_secs(60) };
        let explorer = Explorer {
            root: &root,
            schedules: 1,
            mutant_schedules: 1,
            model_seconds: 1,
            seed: 1,
            mutant_seed: 1,
            limit,
            jobs: 1,
        };
        let mutants = [Mutant { name: name.to_owned(), hunters: BTreeSet::new(), exempt: None }];
        let fate = hunt_one(&explorer, &suites, &[], &mutants[0]).unwrap();
        let line = Hunted { mutant: &mutants[0], fate }.line();
        (hunt(&explorer, &suites, &[], &mutants).unwrap(), line)
    }

    #[test]
    fn a_caught_mutant_names_its_catcher_and_the_symptom() {
        let (well, line) = fate_of("CAUGHT_BY_B.release");
        assert!(well && line.ends_with("by ring_model::b under loom: two takers (here:1:1)"), "{line}");
    }

    #[test]
    fn a_mutant_that_no_model_catches_fails_the_hunt() {
        let (well, line) = fate_of("NEVER_CAUGHT.release");
        assert!(!well && line.starts_with("SURVIVED"), "{line}");
    }

    #[test]
    fn a_model_that_fails_anyway_catches_nothing() {
        let (well, line) = fate_of("FAILS_ANYWAY.release");
        assert!(!well && line.starts_with("caught"), "{line}");
    }

    #[test]
    fn a_time_out_is_no_catch() {
        let (well, line) = fate_of("STUCK.release");
        assert!(!well && line.starts_with("UNDECIDED") && line.contains("timed out"), "{line}");
    }

    #[test]
    fn a_run_of_no_test_is_no_catch() {
        let (well, line) = fate_of("RUNS_NOTHING.release");
        assert!(!well && line.starts_with("UNDECIDED"), "{line}");
    }
}
