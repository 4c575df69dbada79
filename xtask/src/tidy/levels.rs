//! Which crate may name which: a crate depends on crates of lower levels, and on no other of ours.
//!
//! The levels are a table here. A crate that is not in it is a finding, so that a new crate gets its place by
//! decision and not by accident. Manifests are read line by line: their form is plain, and cargo checks the rest.
//!
//! Not here: dependencies from outside; those are a matter for review.

use super::Finding;
use crate::tree::{File, Tree};
use std::collections::BTreeMap;

/// Folder under `crates/`, and level.
const LEVELS: &[(&str, u8)] = &[
    ("queue", 0),
    ("policy", 0),
    ("journal", 0),
    ("pool", 1),
    ("sim", 1),
    ("tasks", 2),
    ("load", 3),
    ("local", 3),
    ("native", 3),
    ("otel", 3),
    ("shm", 3),
    ("http", 3),
    ("nats", 3),
    ("ffi", 4),
    ("wasm-policy", 4),
    ("wasm-ring", 4),
    ("cli", 4),
];

/// One dependency as a manifest names it.
struct Dependency {
    package: String,
    line: usize,
}

pub(super) fn direction(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let packages: BTreeMap<_, _> =
        manifests.filter_map(|file| package_name(&file.text).map(|name| (name, folder(file)))).collect();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|_| crate_name(folder(file))) else {
            continue;
        };
        let Some(level) = level_of(name) else {
            let remedy = "give it one in xtask/src/tidy/levels.rs";
            findings.push(Finding::new(&file.path, 1, format!("crate {name} has no level"), remedy));
            continue;
        };
        for dependency in dependencies(&file.text) {
            let Some(other) = packages.get(dependency.package.as_str()) else { continue };
            let lower = crate_name(other).and_then(level_of).is_some_and(|other| other < level);
            if !lower && *other != folder(file) {
                let wrong = format!("{name} (level {level}) depends on {other}, which is not below it");
                findings.push(Finding::new(
                    &file.path,
                    dependency.line,
                    wrong,
                    "turn the dependency round or pass a value",
                ));
            }
        }
    }
    findings
}

fn folder(file: &File) -> &str {
    file.path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last part of `crates/queue`; none for a folder elsewhere.
fn crate_name(folder: &str) -> Option<&str> {
    folder.strip_prefix("crates/")
}

fn level_of(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
}

fn package_name(manifest: &str) -> Option<&str> {
    let package = manifest.lines().skip_while(|line| line.trim() != "[package]").skip(1);
    let mut package = package.take_while(|line| !line.starts_with('['));
    package.find_map(|line| value(line, "name"))
}

/// The string after `key =` at the start of a line.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

/// The packages under any heading that ends in `dependencies`, under their own name if they were renamed.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut heading = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            heading = rest.trim_end_matches(']');
            if let Some((_, name)) = heading.rsplit_once("dependencies.") {
                found.push(Dependency { package: name.trim_matches('"').to_owned(), line: index + 1 });
            }
        } else if heading.contains("dependencies.") {
            if let (Some(last), Some(package)) = (found.last_mut(), value(line, "package")) {
                last.package = package.to_owned();
            }
        } else if heading.ends_with("dependencies") && heading != "workspace.dependencies" {
            let renamed = line.find("package =").and_then(|at| value(&line[at..], "package"));
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                found.push(Dependency { package: renamed.unwrap_or(name).to_owned(), line: index + 1 });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(queue: &str, pool: &str) -> Vec<(String, usize)> {
        let queue = format!("[package]\nname = \"millpond-queue\"\n{queue}");
        let pool = format!("[package]\nname = \"millpond\"\n{pool}");
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace.dependencies]\nmillpond = { path = \"crates/pool\" }\n"),
            (
                "bench/Cargo.toml",
                "[package]\nname = \"millpond-bench\"\n[dependencies]\nmillpond-queue.workspace = true\n",
            ),
            ("crates/queue/Cargo.toml", &queue),
            ("crates/pool/Cargo.toml", &pool),
        ]);
        direction(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn a_crate_may_depend_on_one_below_it_and_on_strangers() {
        let pool =
            "[dependencies]\nmillpond-queue = { path = \"../queue\" }\n# millpond-cli\nlibc = \"0.2\"\n";
        assert!(findings("", pool).is_empty());
    }

    #[test]
    fn a_dependency_upwards_is_found_in_every_form() {
        for dependency in [
            "[dependencies]\nmillpond = { path = \"../pool\" }\n",
            "[dev-dependencies]\nmillpond.workspace = true\n",
            "[target.'cfg(loom)'.dependencies]\nother = { package = \"millpond\", path = \"../pool\" }\n",
            "[dependencies.millpond]\npath = \"../pool\"\n",
        ] {
            let found = findings(dependency, "");
            assert_eq!(found.len(), 1, "{dependency}");
            assert_eq!(found[0].0, "crates/queue/Cargo.toml");
        }
        assert_eq!(findings("[dependencies.other]\npackage = \"millpond\"\n", "").len(), 1);
    }

    #[test]
    fn nothing_may_depend_on_the_bench() {
        assert_eq!(
            findings("", "[dev-dependencies]\nmillpond-bench = { path = \"../../bench\" }\n").len(),
            1
        );
    }

    #[test]
    fn a_crate_without_a_level_is_a_finding() {
        let found = direction(&Tree::of(&[("crates/extra/Cargo.toml", "[package]\nname = \"x\"\n")]));
        assert_eq!(found.len(), 1);
    }
}
