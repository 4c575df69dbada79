//! Which spin models there are, in which sizes, and which mutants must be found out in which of them.
//!
//! A size is what one search can see all of in seconds. What a larger one would show is told by the mutants: each
//! needs something that its model just has, a second reaper or a second life. The settings and the mutants are
//! explained at the head of each `.pml` file.
//!
//! Not here: how a search is made (`search.rs`).

use super::search::Fault;

/// What a search looks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Check {
    /// A broken assertion, or a process that cannot go on.
    Safety,
    /// A run without an end in which no call returns.
    Progress,
}

impl Check {
    /// What a mutant of such a model must be rejected for.
    pub(super) fn fault(self) -> Fault {
        match self {
            Check::Safety => Fault::Assertion,
            Check::Progress => Fault::NoProgress,
        }
    }
}

/// A file with the settings that give it its size.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) check: Check,
    pub(super) settings: &'static [&'static str],
    pub(super) build: Build,
}

/// How the program that searches is built. An optimised one is worth waiting for when there are millions of states.
#[derive(Debug, PartialEq)]
pub(super) enum Build {
    Quick,
    Optimised,
    /// Optimised, with states stored in pieces: slower, but it fits in memory.
    Compressed,
}

/// A model with one thing wrong.
pub(super) struct Mutant {
    /// The macro that breaks it.
    pub(super) name: &'static str,
    /// The model it is a mutant of.
    pub(super) of: &'static str,
}

const RING: &str = "crates/queue/spin/v2_ring.pml";
const SLOTS: &str = "crates/queue/spin/v2_slots.pml";

/// Every model, the longest searches first.
pub(super) const MODELS: &[Model] = &[
    Model {
        name: "slots-two-lives",
        file: SLOTS,
        check: Check::Safety,
        settings: &["LIVES=2", "SWEEPS=2", "DEATHS=2", "REQUEUE", "CANCEL"],
        build: Build::Compressed,
    },
    Model {
        name: "slots-two-submitters",
        file: SLOTS,
        check: Check::Safety,
        settings: &["SUBMITTERS=2", "DEATHS=1"],
        build: Build::Compressed,
    },
    Model {
        name: "slots-two-workers",
        file: SLOTS,
        check: Check::Safety,
        settings: &["WORKERS=2", "DEATHS=2", "REQUEUE"],
        build: Build::Optimised,
    },
    Model {
        name: "slots-full-lane",
        file: SLOTS,
        check: Check::Safety,
        settings: &["SLOTS=2", "LANE=1", "SUBMITTERS=2", "WORKERS=2", "REAPERS=0", "DEATHS=1", "REQUEUE"],
        build: Build::Optimised,
    },
    Model {
        name: "slots-two-reapers",
        file: SLOTS,
        check: Check::Safety,
        settings: &["WORKERS=0", "REAPERS=2", "LIVES=2", "DEATHS=1"],
        build: Build::Quick,
    },
    Model {
        name: "slots-reuse",
        file: SLOTS,
        check: Check::Safety,
        settings: &["SUBMITTERS=2", "WORKERS=2", "STARTS=2", "REAPERS=0", "CANCEL"],
        build: Build::Quick,
    },
    Model {
        name: "slots-leave",
        file: SLOTS,
        check: Check::Safety,
        settings: &["WORKERS=0", "LIVES=2", "DEATHS=1", "LEAVE", "CANCEL"],
        build: Build::Quick,
    },
    Model {
        name: "slots-progress",
        file: SLOTS,
        check: Check::Progress,
        settings: &["DEATHS=1", "REQUEUE", "CANCEL"],
        build: Build::Quick,
    },
    Model {
        name: "ring",
        file: RING,
        check: Check::Safety,
        settings: &["PRODUCERS=2", "CONSUMERS=2", "DEATHS=2"],
        build: Build::Optimised,
    },
    Model {
        name: "ring-one-place",
        file: RING,
        check: Check::Safety,
        settings: &["CAPACITY=1", "PRODUCERS=2", "CONSUMERS=2", "DEATHS=2"],
        build: Build::Optimised,
    },
    Model {
        name: "ring-batches",
        file: RING,
        check: Check::Safety,
        settings: &[
            "PRODUCERS=1",
            "BATCH_PRODUCERS=1",
            "CONSUMERS=1",
            "BATCH_CONSUMERS=1",
            "ITEMS=1",
            "DEATHS=2",
        ],
        build: Build::Optimised,
    },
    Model {
        name: "ring-progress",
        file: RING,
        check: Check::Progress,
        settings: &["PRODUCERS=2", "CONSUMERS=2", "DEATHS=2", "FOREVER"],
        build: Build::Optimised,
    },
    Model {
        name: "ring-one-place-progress",
        file: RING,
        check: Check::Progress,
        settings: &["CAPACITY=1", "PRODUCERS=2", "CONSUMERS=2", "DEATHS=2", "FOREVER"],
        build: Build::Optimised,
    },
    Model {
        name: "ring-batches-progress",
        file: RING,
        check: Check::Progress,
        settings: &[
            "PRODUCERS=1",
            "BATCH_PRODUCERS=1",
            "CONSUMERS=1",
            "BATCH_CONSUMERS=1",
            "ITEMS=1",
            "DEATHS=2",
            "FOREVER",
        ],
        build: Build::Optimised,
    },
];

/// Every mutant.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant { name: "MUTANT_ANY_OWNER", of: "slots-two-lives" },
    Mutant { name: "MUTANT_BURY_FIRST", of: "slots-two-lives" },
    Mutant { name: "MUTANT_NO_ROLE", of: "slots-two-reapers" },
    Mutant { name: "MUTANT_NO_EPOCH", of: "slots-leave" },
    Mutant { name: "MUTANT_NO_RELIST", of: "slots-full-lane" },
    Mutant { name: "MUTANT_LEAVE_RUNNING", of: "slots-full-lane" },
    Mutant { name: "MUTANT_NO_GENERATION", of: "slots-reuse" },
    Mutant { name: "MUTANT_READ_EARLY", of: "slots-reuse" },
    Mutant { name: "MUTANT_BLIND_START", of: "slots-reuse" },
    Mutant { name: "MUTANT_HINTS_ARE_TRUTH", of: "ring" },
    Mutant { name: "MUTANT_NO_SEQUENCE", of: "ring" },
    Mutant { name: "MUTANT_HINT_AHEAD", of: "ring" },
    Mutant { name: "MUTANT_BLIND_EMPTY", of: "ring" },
    Mutant { name: "MUTANT_RAISE_TOO_FAR", of: "ring-batches" },
    Mutant { name: "MUTANT_TWO_STEPS", of: "ring-progress" },
    Mutant { name: "MUTANT_HELP_ONE", of: "ring-progress" },
];

pub(super) fn model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use std::collections::BTreeSet;

    fn macros(text: &str) -> BTreeSet<String> {
        let is_part = |character: char| character.is_ascii_uppercase() || character == '_';
        let code = text.lines().filter(|line| line.starts_with("#if")).collect::<Vec<_>>().join("\n");
        let words = code.split(|character: char| !is_part(character)).map(str::to_owned);
        words.filter(|word| word.starts_with("MUTANT_")).collect()
    }

    #[test]
    fn every_mutant_of_the_files_is_searched_and_no_other() {
        let tree = Tree::read(&crate::repository_root()).unwrap();
        let files = tree.files.iter().filter(|file| file.path.ends_with(".pml"));
        let written: BTreeSet<_> = files.flat_map(|file| macros(&file.text)).collect();
        let planned: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.name.to_owned()).collect();
        assert_eq!(written, planned);
        assert!(MUTANTS.iter().all(|mutant| model(mutant.of).is_some()));
    }

    #[test]
    fn every_setting_is_known_to_its_file_and_names_are_used_once() {
        let tree = Tree::read(&crate::repository_root()).unwrap();
        for model in MODELS {
            assert_eq!(MODELS.iter().filter(|other| other.name == model.name).count(), 1, "{}", model.name);
            let file = tree.get(model.file).expect("no such file");
            let included = tree.get(&model.file.replace("v2_slots", "v2_reaper")).expect("no such file");
            for setting in model.settings {
                let name = setting.split('=').next().unwrap_or(setting);
                let asked = |line: &str| line.starts_with("#if") && line.ends_with(&format!(" {name}"));
                let is_known = file.text.lines().chain(included.text.lines()).any(asked);
                assert!(is_known, "{}: no {name} in {}", model.name, model.file);
            }
        }
    }
}
