//! The shape of a file: how it opens, how long it and its functions are, how wide its lines, what it is called.
//!
//! Functions are measured by counting braces from the word `fn`, comments and strings aside. That is not a parser,
//! but a function that deceives it would deceive its readers too.
//!
//! Not here: what the code does (`orderings.rs`, `unsafe_code.rs`).

use super::Finding;
use crate::generate::is_generated;
use crate::source::{function_end, line_of, words};
use crate::tree::{File, Tree};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 120;
const OPENING_LINES_MIN: usize = 2;
const NAMES_BANNED: &[&str] = &["utils", "util", "common", "types", "helpers", "helper", "misc"];

fn written_by_hand(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| !is_generated(&file.path))
}

pub(super) fn opening_comment(tree: &Tree) -> Vec<Finding> {
    let opens = |file: &&File| {
        let opening = file.text.lines().take_while(|line| line.starts_with("//!"));
        opening.filter(|line| line.len() > "//!".len()).count() >= OPENING_LINES_MIN
    };
    let files = written_by_hand(tree).filter(|file| file.stem() != "build").filter(|file| !opens(file));
    let remedy = "open with at least two `//!` lines: what it decides, why so, and what is not here";
    files.map(|file| Finding::new(&file.path, 1, "the file does not say what it is for", remedy)).collect()
}

pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    let long = |file: &File| {
        let lines = file.text.lines().count();
        let wrong = format!("the file has {lines} lines, {FILE_LINES_MAX} is the limit");
        (lines > FILE_LINES_MAX)
            .then(|| Finding::new(&file.path, lines, wrong, "cut it where it changes its subject"))
    };
    written_by_hand(tree).filter_map(long).collect()
}

pub(super) fn line_width(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in written_by_hand(tree) {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let wrong = format!("the line has {columns} columns, {COLUMNS_MAX} is the limit");
                findings.push(Finding::new(&file.path, index + 1, wrong, "break it"));
            }
        }
    }
    findings
}

pub(super) fn function_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in written_by_hand(tree) {
        let code = &file.source().code;
        for at in words(code, "fn") {
            let Some(end) = function_end(&code[at..]) else { continue };
            let lines = code[at..at + end].matches('\n').count() + 1;
            if lines > FUNCTION_LINES_MAX {
                let wrong = format!("the function has {lines} lines, {FUNCTION_LINES_MAX} is the limit");
                let remedy = "leave the branches here and move straight work into a function of its own";
                findings.push(Finding::new(&file.path, line_of(code, at), wrong, remedy));
            }
        }
    }
    findings
}

pub(super) fn file_names(tree: &Tree) -> Vec<Finding> {
    let banned = |file: &&File| {
        let mut folders: Vec<_> = file.path.split('/').collect();
        folders.pop();
        folders.push(file.stem());
        folders.iter().any(|name| NAMES_BANNED.contains(name))
    };
    let finding = |file: &File| {
        Finding::new(
            &file.path,
            1,
            "this name says nothing about what is inside",
            "name the one question it answers",
        )
    };
    tree.files.iter().filter(banned).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn a_file_must_open_with_two_lines_about_itself() {
        assert_eq!(lines(opening_comment, "a/src/ring.rs", "//! One line.\n\nuse x;\n"), [1]);
        assert_eq!(lines(opening_comment, "a/src/ring.rs", "//! One line.\n//!\n\nuse x;\n"), [1]);
        assert_eq!(lines(opening_comment, "a/src/ring.rs", "\n//! Late.\n//! Later.\n"), [1]);
        assert_eq!(lines(opening_comment, "a/src/ring.rs", "//! What.\n//!\n//! Why.\n").len(), 0);
        assert_eq!(lines(opening_comment, "a/build.rs", "fn main() {}\n").len(), 0);
    }

    #[test]
    fn a_file_may_have_700_lines_and_not_one_more() {
        assert_eq!(lines(file_length, "a.rs", &"x\n".repeat(701)), [701]);
        assert_eq!(lines(file_length, "a.rs", &"x\n".repeat(700)).len(), 0);
    }

    #[test]
    fn a_line_is_measured_in_characters() {
        assert_eq!(lines(line_width, "a.rs", &format!("short\n{}\n", "ü".repeat(121))), [2]);
        assert_eq!(lines(line_width, "a.rs", &"ü".repeat(120)).len(), 0);
    }

    #[test]
    fn a_function_may_have_70_lines_and_not_one_more() {
        let function = |inner: usize| {
            format!("struct A;\nfn long(a: [u8; 3]) {{\n{}}}\n", "    x('{');\n".repeat(inner))
        };
        assert_eq!(lines(function_length, "a.rs", &function(69)), [2]);
        assert_eq!(lines(function_length, "a.rs", &function(68)).len(), 0);
    }

    #[test]
    fn types_and_declarations_have_no_body() {
        let padding = "\n".repeat(100);
        let text = format!(
            "type F = fn(u8);\ntrait T {{ fn declared(&self);{padding} }}\nlet f: fn() -> u8;{padding}"
        );
        assert_eq!(lines(function_length, "a.rs", &text).len(), 0);
    }

    #[test]
    fn a_name_for_everything_is_a_name_for_nothing() {
        assert_eq!(lines(file_names, "crates/queue/src/utils.rs", ""), [1]);
        assert_eq!(lines(file_names, "npm/common/ring.ts", ""), [1]);
        assert_eq!(lines(file_names, "crates/queue/src/ring.rs", "").len(), 0);
    }
}
