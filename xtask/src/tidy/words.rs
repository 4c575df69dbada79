//! Words that do not belong in a repository: notes for later, folders of one machine, addresses of mirrors.
//!
//! A note for later is an issue, and issues have their own place. A lock file that names a mirror works only where
//! the mirror does. The words are put together from halves below, or this file would find itself.
//!
//! Not here: words of style; those are for readers.

use super::Finding;
use crate::source::{line_of, words};
use crate::tree::Tree;

const LATER_WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];
const LATER_MACROS: &[&str] = &["todo!", "unimplemented!"];
const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const CARGO_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn is_lock(path: &str) -> bool {
    path.ends_with("Cargo.lock") || path.ends_with("package-lock.json")
}

pub(super) fn left_for_later(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |path: &str, line: usize, word: &str| {
        let wrong = format!("{word} leaves something for later");
        findings.push(Finding::new(path, line, wrong, "do it now or open an issue"));
    };
    for file in tree.files.iter().filter(|file| !is_lock(&file.path)) {
        for word in LATER_WORDS {
            words(&file.text, word).for_each(|at| add(&file.path, line_of(&file.text, at), word));
        }
    }
    for file in tree.rust() {
        let code = &file.source().code;
        for word in LATER_MACROS {
            words(code, word).for_each(|at| add(&file.path, line_of(code, at), word));
        }
    }
    findings
}

pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for folder in MACHINE_FOLDERS {
            for (at, _) in file.text.match_indices(folder) {
                // Inside a longer path it is a folder of that path, and no folder of a machine.
                let before = file.text[..at].chars().next_back();
                if !before.is_some_and(|before| before.is_alphanumeric() || "._-~}>".contains(before)) {
                    let wrong = format!("{folder} is a folder of one machine");
                    let remedy = "name it from the root of the repository";
                    findings.push(Finding::new(&file.path, line_of(&file.text, at), wrong, remedy));
                }
            }
        }
    }
    findings
}

pub(super) fn lock_sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim();
            let mirror = if file.path.ends_with("Cargo.lock") {
                line.strip_prefix("source = ").is_some_and(|source| source.trim_matches('"') != CARGO_INDEX)
            } else if file.path.ends_with("package-lock.json") {
                line.starts_with("\"resolved\": \"http")
            } else {
                false
            };
            if mirror {
                let remedy =
                    "lock against the default crates.io index, and npm with omit-lockfile-registry-resolved";
                findings.push(Finding::new(
                    &file.path,
                    index + 1,
                    "the lock file names where it downloaded from",
                    remedy,
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn notes_for_later_are_found() {
        assert_eq!(lines(left_for_later, "a.rs", concat!("x\n// FIX", "ME: y\n")), [2]);
        assert_eq!(lines(left_for_later, "a.md", concat!("XX", "X")), [1]);
        assert_eq!(lines(left_for_later, "a.rs", "fn a() {\n    todo!()\n}\n"), [2]);
        assert_eq!(lines(left_for_later, "a.rs", "// todo!\nlet name = \"fooXXXXXX\";\n").len(), 0);
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        assert_eq!(lines(machine_paths, "a.md", concat!("x\nsee `/wo", "rk/main`\n")), [2]);
        assert_eq!(lines(machine_paths, "a.sh", concat!("cd /ro", "ot/x\n")), [1]);
        assert_eq!(lines(machine_paths, "a.md", concat!("docs/wo", "rk/main and wo", "rk/\n")).len(), 0);
    }

    #[test]
    fn a_lock_file_that_names_a_mirror_is_found() {
        let index = format!("[[package]]\nsource = \"{CARGO_INDEX}\"\n");
        assert_eq!(lines(lock_sources, "Cargo.lock", &index).len(), 0);
        assert_eq!(lines(lock_sources, "Cargo.lock", &index.replace("github.com", "mirror.example")), [2]);
        let resolved = "{\n  \"resolved\": \"https://mirror.example/a.tgz\"\n}\n";
        assert_eq!(lines(lock_sources, "npm/package-lock.json", resolved), [2]);
        assert_eq!(lines(lock_sources, "npm/package.json", resolved).len(), 0);
    }
}
