//! The npm package: its types, its tests in Node and in a real browser, and the packed tarball in an empty project.
//!
//! The client is tried against the daemon as the other tests have built it. What the package needs for its tests comes
//! from its lock file by `npm ci`; what it needs to run comes from nowhere, since it has no dependencies.
//!
//! Not here: the tests themselves (`npm/test`), nor the bench against other pools (`npm/bench`).

use super::{Verdict, browser};
use crate::process;
use std::path::Path;
use std::process::Command;

/// Fetches, builds, checks the types, and runs every test of the package.
pub(super) fn run(root: &Path) -> Result<Verdict, String> {
    let program = browser::program(root)?;
    let npm = |arguments: &[&str]| {
        let mut command = Command::new("npm");
        command.args(arguments).current_dir(root.join("npm")).env("MILLPOND_BIN", &program);
        // What has to be built for the freshness check lies where everything else is built.
        command.env("MILLPOND_WASM_TARGET", process::target_folder(root).join("npm-wasm"));
        command
    };
    if !process::run_in_the_open(&mut npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"]))? {
        return Ok(Verdict::Failed);
    }
    browser::watched(root, &mut npm(&["test", "--silent"]))
}
