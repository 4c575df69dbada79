//! The three makes of the atoms, and the test executable of a crate under each.
//!
//! A make is a set of `--cfg` flags. Each builds into a folder of its own, or every switch would build all anew.
//! What is run is the executable itself: one process per model, without cargo in between.
//!
//! Not here: running it (`explore.rs`).

use super::Modelled;
use crate::process;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Which checker the atoms are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Make {
    Loom,
    Shuttle,
    Shadow,
}

impl Make {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Make::Loom => "loom",
            Make::Shuttle => "shuttle",
            Make::Shadow => "shadow",
        }
    }

    fn flags(self) -> &'static str {
        match self {
            Make::Loom => "--cfg loom",
            Make::Shuttle => "--cfg shuttle",
            Make::Shadow => "--cfg loom --cfg shadow",
        }
    }

    /// Shuttle is sequentially consistent whatever ordering is asked for, so a weakened one cannot show there.
    pub(crate) fn sees_orderings(self) -> bool {
        self != Make::Shuttle
    }
}

/// One executable and the models in it.
pub(crate) struct Suite {
    pub(crate) make: Make,
    pub(crate) executable: PathBuf,
    /// Paths of the tests, as in `ring_model::the_last_item_goes_to_one_taker`.
    pub(crate) tests: Vec<String>,
    pub(crate) folder: PathBuf,
}

/// Builds the library tests of a crate under each of `makes`.
pub(crate) fn build(root: &Path, modelled: &Modelled, makes: &[Make]) -> Result<Vec<Suite>, String> {
    makes.iter().map(|make| build_one(root, modelled, *make)).collect()
}

fn build_one(root: &Path, modelled: &Modelled, make: Make) -> Result<Suite, String> {
    let started = Instant::now();
    let folder = process::target_folder(root).join(format!("models-{}", make.name()));
    let mut command = process::cargo(root);
    command.args([
        "test",
        "--quiet",
        "--no-run",
        "--release",
        "--lib",
        "--message-format",
        "json-render-diagnostics",
    ]);
    command.args(["--package", modelled.package, "--target-dir"]).arg(&folder).env("RUSTFLAGS", make.flags());
    let messages = process::output_of(&mut command)
        .map_err(|error| format!("{} under {}: {error}", modelled.package, make.name()))?;
    let executable = test_executable(&messages).ok_or_else(|| {
        format!(
            "{} under {}: expected one library test executable, cargo built none",
            modelled.package,
            make.name()
        )
    })?;
    let listed = process::output_of(Command::new(&executable).args(["--list", "--format", "terse"]))?;
    let tests = models(&listed);
    if tests.is_empty() {
        return Err(format!(
            "{} under {}: expected tests in a module named *_model, found none; check the `mod` lines",
            modelled.package,
            make.name()
        ));
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{} under {}: {} models, built in {seconds:.1} s", modelled.package, make.name(), tests.len());
    Ok(Suite { make, executable, tests, folder: root.join(modelled.folder) })
}

/// The one test executable of a library among cargo's messages.
fn test_executable(messages: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| {
        let is_test = message["profile"]["test"] == Value::Bool(true);
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    })
}

/// The models in the answer to `--list --format terse`.
fn models(listed: &str) -> Vec<String> {
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut models: Vec<_> = tests.filter(|test| test.contains("_model::")).map(str::to_owned).collect();
    models.sort();
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_in_a_model_module_are_models() {
        let listed =
            "ring_model::b: test\nring::tests::a: test\nwpol::v1_model::c: test\nring_model::b: benchmark\n";
        assert_eq!(models(listed), ["ring_model::b", "wpol::v1_model::c"]);
        assert!(models("ring::tests::a: test\n").is_empty());
    }

    #[test]
    fn the_executable_is_the_one_built_for_tests() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"profile\":{\"test\":false},\"executable\":\"/no\"}\n",
            "not json\n",
            "{\"reason\":\"compiler-artifact\",\"profile\":{\"test\":true},\"executable\":\"/yes\"}\n",
        );
        assert_eq!(test_executable(messages), Some(PathBuf::from("/yes")));
        assert_eq!(test_executable("{\"reason\":\"build-finished\",\"success\":true}\n"), None);
    }
}
