//! What documents may say: paths that exist, and a README one can read in a sitting.
//!
//! Only what stands between backticks and begins with a folder of this repository is taken for a path. A document
//! inside a crate may also begin at that crate: `src/ring.rs`. Patterns and placeholders are left alone.
//!
//! Not here: whether what is said about the path is true.

use super::Finding;
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

const README_LINES_MAX: usize = 150;
const CRATE_README_LINES_MAX: usize = 40;
const ROOT_DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

pub(super) fn paths(tree: &Tree) -> Vec<Finding> {
    let folders: BTreeSet<_> =
        tree.files.iter().filter_map(|file| file.path.split_once('/').map(|(folder, _)| folder)).collect();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        let own = own_folder(&file.path);
        for (token, line) in quoted_paths(&file.text) {
            let Some((first, _)) = token.split_once('/') else { continue };
            let inside = own.map(|own| format!("{own}/{token}"));
            let begins_inside = own.is_some_and(|own| tree.exists(&format!("{own}/{first}")));
            let wanted = folders.contains(first) || begins_inside;
            let exists = tree.exists(token) || inside.is_some_and(|inside| tree.exists(&inside));
            if wanted && !exists {
                let wrong = format!("`{token}` is named here and does not exist");
                findings.push(Finding::new(
                    &file.path,
                    line,
                    wrong,
                    "name the path it has now, or take it out",
                ));
            }
        }
    }
    findings
}

pub(super) fn readme_length(tree: &Tree) -> Vec<Finding> {
    let long = |file: &File| {
        let limit = match file.path.as_str() {
            "README.md" => README_LINES_MAX,
            path if path.starts_with("crates/") && path.ends_with("/README.md") => CRATE_README_LINES_MAX,
            _ => return None,
        };
        let lines = file.text.lines().count();
        let wrong = format!("the README has {lines} lines, {limit} is the limit");
        (lines > limit).then(|| Finding::new(&file.path, lines, wrong, "move what few will need into docs/"))
    };
    tree.files.iter().filter_map(long).collect()
}

fn is_document(path: &str) -> bool {
    let below = path.starts_with("docs/") || path.starts_with("crates/");
    ROOT_DOCUMENTS.contains(&path) || (below && path.ends_with(".md"))
}

/// `crates/queue` for every document in it.
fn own_folder(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("crates/")?;
    let name = rest.split('/').next()?;
    Some(&path[.."crates/".len() + name.len()])
}

/// What stands between backticks outside of fenced blocks and looks like one path, with its line. A line number
/// behind the path is cut off.
fn quoted_paths(text: &str) -> Vec<(&str, usize)> {
    let mut paths = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let tokens = line.split('`').skip(1).step_by(2);
            let tokens = tokens.map(|token| token.split(':').next().unwrap_or(token));
            paths.extend(tokens.filter(|token| is_plain_path(token)).map(|token| (token, index + 1)));
        }
    }
    paths
}

fn is_plain_path(token: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
    token.contains('/') && token.chars().all(plain) && !token.contains("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            (path, text),
            ("crates/queue/src/ring.rs", ""),
            ("docs/WPOL.md", ""),
            (".ci/run", ""),
        ]);
        paths(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_path_that_is_gone_is_found_with_its_line() {
        assert_eq!(found("README.md", "see\n`crates/queue/src/gone.rs` and `docs/NONE.md`\n"), [2, 2]);
        assert_eq!(found("docs/decisions/one.md", "`.ci/walk`"), [1]);
        assert_eq!(found("crates/queue/README.md", "`src/gone.rs`"), [1]);
    }

    #[test]
    fn paths_that_exist_and_things_that_are_no_paths_are_left_alone() {
        let text = "`crates/queue/src/ring.rs`, `crates/queue/src/ring.rs:12`, `docs/`, `.ci/run`, `crates/*/src`, \
                    `target/debug/x`, `a / b`, `tests/it/<theme>.rs`\n```\ncrates/gone.rs `crates/gone.rs`\n```\n";
        assert!(found("README.md", text).is_empty());
        assert!(found("crates/queue/ORDERING.md", "`src/ring.rs`").is_empty());
        assert!(found("CHANGELOG.md", "`crates/gone.rs`").is_empty(), "history may name what is gone");
    }

    #[test]
    fn a_long_readme_is_found() {
        let lines = |path: &str, count: usize| {
            readme_length(&Tree::of(&[(path, &"x\n".repeat(count))]))
                .iter()
                .map(|finding| finding.line)
                .collect::<Vec<_>>()
        };
        assert_eq!(lines("README.md", 151), [151]);
        assert!(lines("README.md", 150).is_empty());
        assert_eq!(lines("crates/queue/README.md", 41), [41]);
        assert!(lines("crates/queue/README.md", 40).is_empty());
    }
}
