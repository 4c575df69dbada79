//! `cargo xtask tidy`: what the style guide says a machine can check.
//!
//! A check looks at the tree and gives back findings, each with its place, what is wrong and what to do. Checks
//! have no settings and no warnings: what is found is mended, or the rule is changed here, in the open. Every check
//! has a test with a tree that breaks its rule, since a check that cannot fail is a defect.
//!
//! Not here: what rustfmt and clippy check; `cargo xtask test` runs those too.

mod documents;
mod levels;
mod orderings;
mod shape;
mod unsafe_code;
mod words;

use crate::tree::Tree;
use crate::{edges, generate};
use std::fmt;
use std::path::Path;

/// One thing to mend.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    wrong: String,
    remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, wrong: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, wrong: wrong.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.wrong, self.remedy)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

/// Every check, by the rule it stands for.
const CHECKS: &[(&str, Check)] = &[
    ("a file opens by saying what it decides", shape::opening_comment),
    ("a file fits in the head", shape::file_length),
    ("a function fits a screen", shape::function_length),
    ("a line fits the page", shape::line_width),
    ("a file has a name of its own", shape::file_names),
    ("crates depend downwards only", levels::direction),
    ("unsafe stays in the listed files", unsafe_code::listed_files),
    ("every unsafe block is proved", unsafe_code::proofs),
    ("atoms come from sync.rs", orderings::atoms),
    ("an edge has two ends and one name", orderings::both_ends),
    ("every edge is written down", orderings::written_down),
    ("paths in documents exist", documents::paths),
    ("a README stays short", documents::readme_length),
    ("nothing is left for later", words::left_for_later),
    ("nothing speaks of one machine", words::machine_paths),
    ("lock files name no mirror", words::lock_sources),
];

pub(crate) fn run(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let mut findings: Vec<_> = CHECKS.iter().flat_map(|(_, check)| check(&tree)).collect();
    findings.extend(stale(root)?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}");
    }
    for used in edges::find(&tree).used {
        if let Some(reason) = used.exempt {
            println!("{}:{}: note: mutant {} is exempt: {reason}", used.path, used.line, used.mutant);
        }
    }
    let rules = CHECKS.len() + 1;
    println!("tidy: {rules} rules, {} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Generated files that no longer say what their table says.
fn stale(root: &Path) -> Result<Vec<Finding>, String> {
    let stale = generate::stale(root, generate::GENERATED)?;
    let finding = |generated: &generate::Generated| {
        Finding::new(generated.path, 1, "this generated file is stale", "run `cargo xtask gen`")
    };
    Ok(stale.into_iter().map(finding).collect())
}

/// The lines at which `check` finds something in a tree of one file.
#[cfg(test)]
fn lines(check: Check, path: &str, text: &str) -> Vec<usize> {
    check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let finding = Finding::new("a/b.rs", 3, "the line has 130 columns", "break it");
        assert_eq!(finding.to_string(), "a/b.rs:3: the line has 130 columns; break it");
    }
}
