//! The rules about orderings: atoms come from one file, an edge has two ends and one name, and is written down.
//!
//! An edge with one end orders nothing, and an atomic taken from elsewhere is one no model has seen. The page that
//! lists the edges, `ORDERING.md` in the crate, is held against the source in both directions.
//!
//! Not here: whether an ordering is needed; `cargo xtask models` weakens each and looks.

use super::Finding;
use crate::edges::{self, Edges};
use crate::source::{line_of, words};
use crate::tree::{File, Tree};

/// Crates whose atoms come from their `sync.rs`, and the files that may reach past it.
const ATOM_CRATES: &[(&str, &[&str])] = &[("crates/queue/src/", &["sync.rs", "futex.rs", "model.rs"])];
const ATOMS: &[&str] = &["core::sync::atomic", "std::sync::atomic", "std::thread"];

pub(super) fn atoms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, exempt) in ATOM_CRATES {
        for file in tree.rust() {
            let Some(name) = file.path.strip_prefix(folder) else { continue };
            if exempt.contains(&name) {
                continue;
            }
            let code = &file.source().code;
            let product = &code[..tests_begin(code)];
            for atom in ATOMS {
                findings.extend(words(product, atom).map(|at| {
                    let wrong = format!("{atom} is named directly, so no model sees it");
                    Finding::new(&file.path, line_of(code, at), wrong, "take it from crate::sync")
                }));
            }
        }
    }
    findings
}

/// Where `mod tests` at the foot of a file begins: what stands there never runs under a model checker.
fn tests_begin(code: &str) -> usize {
    code.find("mod tests {").unwrap_or(code.len())
}

pub(super) fn both_ends(tree: &Tree) -> Vec<Finding> {
    let Edges { defined, used } = edges::find(tree);
    let mut findings = Vec::new();
    for edge in &defined {
        let mut finding = |wrong: String, remedy: &str| {
            findings.push(Finding::new(&edge.path, edge.line, wrong, remedy));
        };
        if edge.name != edge.bound_to {
            let wrong = format!("edge {} is bound to {}", edge.name, edge.bound_to);
            finding(wrong, "give both one name, since the uses are found by it");
        }
        if defined.iter().filter(|other| other.name == edge.name).count() > 1 {
            finding(format!("edge {} is defined twice", edge.name), "rename one");
        }
        for end in ["release", "acquire"] {
            let mutant = format!("{}.{end}", edge.name);
            if !used.iter().any(|found| found.mutant == mutant) {
                let wrong = format!("edge {} has no {end} end", edge.name);
                finding(wrong, "an edge with one end orders nothing: add the other or take it out");
            }
        }
    }
    for found in &used {
        if let Some(name) = found.edge().filter(|name| !defined.iter().any(|edge| edge.bound_to == *name)) {
            let wrong = format!("edge {name} is used and not defined under its own name");
            findings.push(Finding::new(&found.path, found.line, wrong, "define it with Edge::new"));
        }
    }
    findings
}

pub(super) fn written_down(tree: &Tree) -> Vec<Finding> {
    let defined = edges::find(tree).defined;
    let mut findings = Vec::new();
    for edge in &defined {
        let page = page_of(&edge.path);
        let listed =
            tree.get(&page).is_some_and(|page| names_in(page).iter().any(|(name, _)| *name == edge.name));
        if !listed {
            let wrong = format!("edge {} is not in {page}", edge.name);
            findings.push(Finding::new(
                &edge.path,
                edge.line,
                wrong,
                "list it there with both ends and its reason",
            ));
        }
    }
    for page in tree.files.iter().filter(|file| file.path.ends_with("/ORDERING.md")) {
        let folder = page.path.trim_end_matches("ORDERING.md");
        let sources: Vec<_> = tree.rust().filter(|file| file.path.starts_with(folder)).collect();
        for (name, line) in names_in(page) {
            if !sources.iter().any(|file| words(&file.source().text, name).next().is_some()) {
                let wrong = format!("{name} is named here and nowhere in the source");
                findings.push(Finding::new(
                    &page.path,
                    line,
                    wrong,
                    "take it out or spell it as the source does",
                ));
            }
        }
    }
    findings
}

/// `crates/queue/src/ring.rs` is written down in `crates/queue/ORDERING.md`.
fn page_of(path: &str) -> String {
    let folder = path.split_once("/src/").map_or(path, |(folder, _)| folder);
    format!("{folder}/ORDERING.md")
}

/// Names in capitals between backticks, without `.release` or `.acquire`, and their lines.
fn names_in(page: &File) -> Vec<(&str, usize)> {
    let mut names = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for token in line.split('`').skip(1).step_by(2) {
            let name = token.split('.').next().unwrap_or(token);
            let capitals =
                name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
            if capitals && name.contains('_') {
                names.push((name, index + 1));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const RING: &str = "crates/queue/src/ring.rs";
    const WHOLE: &str =
        "static RING_A: Edge = Edge::new(\"RING_A\");\nRING_A.release();\nRING_A.acquire();\n";

    #[test]
    fn atoms_from_elsewhere_are_found() {
        assert_eq!(lines(atoms, RING, "use crate::x;\nuse core::sync::atomic::AtomicU64;\n"), [2]);
        assert_eq!(lines(atoms, RING, "fn a() { std::thread::yield_now() }\n"), [1]);
        assert_eq!(
            lines(atoms, RING, "use crate::sync::AtomicU64;\nmod tests {\nuse std::thread;\n}\n").len(),
            0
        );
        assert_eq!(lines(atoms, "crates/queue/src/sync.rs", "use core::sync::atomic::AtomicU64;\n").len(), 0);
        assert_eq!(lines(atoms, "bench/src/main.rs", "use std::thread;\n").len(), 0);
    }

    #[test]
    fn an_edge_with_one_end_is_found() {
        assert_eq!(lines(both_ends, RING, WHOLE).len(), 0);
        assert_eq!(lines(both_ends, RING, &WHOLE.replace("RING_A.acquire();", "")), [1]);
        assert_eq!(lines(both_ends, RING, &WHOLE.replace("RING_A.release();", "")), [1]);
    }

    #[test]
    fn an_edge_goes_by_one_name_and_is_defined_once() {
        assert_eq!(lines(both_ends, RING, &WHOLE.replace("\"RING_A\"", "\"RING_B\"")), [1, 1, 1]);
        assert_eq!(lines(both_ends, RING, &format!("{WHOLE}{WHOLE}")), [1, 4]);
        assert_eq!(lines(both_ends, RING, "RING_A.release()"), [1]);
    }

    #[test]
    fn an_edge_that_is_not_written_down_is_found() {
        let found = |page: &str| {
            let tree = Tree::of(&[("crates/queue/ORDERING.md", page), (RING, WHOLE)]);
            written_down(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect::<Vec<_>>()
        };
        assert_eq!(found("| `RING_A` | why |\n"), []);
        assert_eq!(found("nothing"), [(RING.to_owned(), 1)]);
        assert_eq!(found("`RING_A.release`\n`RING_GONE`\n"), [("crates/queue/ORDERING.md".to_owned(), 2)]);
        assert_eq!(lines(written_down, RING, WHOLE), [1], "no page at all");
    }
}
