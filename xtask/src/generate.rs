//! `cargo xtask gen`: writes the files that are made from a table in Rust, or checks that they are fresh.
//!
//! A fact seen on several surfaces is one table in the product. What is made from it is checked in, so that
//! readers need no tool to see it, and tidy asks here whether it still says what the table says.
//!
//! The pages of `millpond-tasks` and the C headers of `millpond-ffi` are written and held against the code by their own
//! tests: to link those crates here, with all they need to run a daemon, would make every chore wait for them.
//!
//! Not here: the tables and how they are put into words; that stands beside each table.

use crate::process;
use clap::Args;
use std::fs;
use std::path::Path;

/// A file that nobody edits by hand.
pub(crate) struct Generated {
    /// From the root of the repository.
    pub(crate) path: &'static str,
    /// What the file must hold.
    pub(crate) contents: fn() -> String,
}

/// All of them.
pub(crate) const GENERATED: &[Generated] =
    &[Generated { path: "docs/WPOL.md", contents: millpond_queue::wpol::layout::markdown }];

/// Packages whose own tests write their pages and headers, and which tests those are.
const WRITTEN_BY_TESTS: &[(&str, &[&str])] =
    &[("millpond-tasks", &["--lib", "config::pages"]), ("millpond-ffi", &["--test", "it", "headers::"])];

#[derive(Args)]
pub(crate) struct GenArguments {
    /// Write nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(root: &Path, arguments: &GenArguments) -> Result<bool, String> {
    let stale = stale(root, GENERATED)?;
    for generated in &stale {
        if arguments.check {
            println!("{}: stale; run `cargo xtask gen`", generated.path);
        } else {
            write(root, generated)?;
            println!("{}: written", generated.path);
        }
    }
    if stale.is_empty() {
        println!("{} generated files, all fresh", GENERATED.len());
    }
    if arguments.check {
        return Ok(stale.is_empty());
    }
    let mut all_well = true;
    for (package, tests) in WRITTEN_BY_TESTS {
        let mut by_tests = process::cargo(root);
        by_tests.args(["test", "--quiet", "--package", package]).args(*tests);
        all_well &= process::run_in_the_open(by_tests.env("MILLPOND_WRITE_PAGES", "1"))?;
    }
    Ok(all_well)
}

/// Whether `path` is written by `cargo xtask gen`.
pub(crate) fn is_generated(path: &str) -> bool {
    GENERATED.iter().any(|generated| generated.path == path)
}

/// Those of `table` that are missing or do not hold what they must.
pub(crate) fn stale<'a>(root: &Path, table: &'a [Generated]) -> Result<Vec<&'a Generated>, String> {
    let mut stale = Vec::new();
    for generated in table {
        let path = root.join(generated.path);
        let present = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{}: cannot be read: {error}", generated.path)),
        };
        if present.as_deref() != Some((generated.contents)().as_str()) {
            stale.push(generated);
        }
    }
    Ok(stale)
}

fn write(root: &Path, generated: &Generated) -> Result<(), String> {
    let path = root.join(generated.path);
    let failed = |error| format!("{}: cannot be written: {error}", generated.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(&path, (generated.contents)()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_something_to_say() {
        for generated in GENERATED {
            let contents = (generated.contents)();
            assert!(contents.ends_with('\n') && contents.lines().count() > 1, "{}", generated.path);
        }
    }

    #[test]
    fn a_missing_or_edited_file_is_stale_until_it_is_written_again() {
        let table = [Generated { path: "docs/TABLE.md", contents: || "one\n".to_owned() }];
        let root = process::target_folder(&crate::repository_root());
        let root = root.join(format!("xtask/generate-{}", std::process::id()));
        assert_eq!(stale(&root, &table).unwrap().len(), 1, "missing");
        write(&root, &table[0]).unwrap();
        assert_eq!(stale(&root, &table).unwrap().len(), 0, "fresh");
        fs::write(root.join("docs/TABLE.md"), "two\n").unwrap();
        assert_eq!(stale(&root, &table).unwrap().len(), 1, "edited");
        write(&root, &table[0]).unwrap();
        assert_eq!(fs::read_to_string(root.join("docs/TABLE.md")).unwrap(), "one\n");
        fs::remove_dir_all(&root).unwrap();
    }
}
