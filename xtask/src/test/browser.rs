//! The dashboard in a real browser, and the OpenAPI document put to the question by a generator of requests.
//!
//! Both ask the real daemon, the program that was built for the other tests. What they need beside it is fetched by
//! the clients of their own languages: `npm ci` from the lock file, schemathesis into a virtual environment below the
//! target folder.
//!
//! Not here: the tests themselves (`tests/browser`, `tests/openapi`).

use super::Verdict;
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Browsers are slow on a busy machine; hanging is slower.
const LIMIT: Duration = Duration::from_secs(900);

/// `node --test` drives chromium.
pub(super) fn page(root: &Path) -> Result<Verdict, String> {
    let program = program(root)?;
    let folder = root.join("tests/browser");
    let mut fetch = Command::new("npm");
    fetch.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
    if !process::run_in_the_open(&mut fetch)? {
        return Ok(Verdict::Failed);
    }
    let mut test = Command::new("npm");
    test.args(["test", "--silent"]).env("MILLPOND_BIN", program);
    test.current_dir(&folder).env("BROWSER_OUTPUT", process::target_folder(root).join("browser"));
    watched(root, &mut test)
}

/// schemathesis asks what the document allows, and much that it does not.
pub(super) fn open_api(root: &Path) -> Result<Verdict, String> {
    let mut test = Command::new("python3");
    test.arg(root.join("tests/openapi/run.py")).env("MILLPOND_BIN", program(root)?);
    test.env("CARGO_TARGET_DIR", process::target_folder(root));
    watched(root, &mut test)
}

/// Runs a test; what it printed is shown if it failed, and its end otherwise.
pub(super) fn watched(root: &Path, test: &mut Command) -> Result<Verdict, String> {
    let ended = process::watch(root, test, LIMIT)?;
    if ended.succeeded() {
        println!("{}", process::tail(&ended.output));
    } else {
        print!("{}", ended.output);
    }
    Ok(Verdict::from(ended.succeeded()))
}

/// The daemon, as the other tests have built it.
pub(super) fn program(root: &Path) -> Result<PathBuf, String> {
    let mut build = process::cargo(root);
    if !process::run_in_the_open(build.args(["build", "--quiet", "--package", "millpond-cli"]))? {
        return Err("the daemon could not be built".to_owned());
    }
    Ok(process::target_folder(root).join("debug/millpond"))
}
