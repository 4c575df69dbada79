//! The programs of the guide, docs/c.md, and of the README: compiled as they stand, run, and held against
//! what the page says they print.

use crate::library::{Build, compile_source, package, run_well};
use std::fs;
use std::process::Command;

/// Programs in a page, each with the output that follows it, if one does.
fn programs(page: &str) -> Vec<(String, Option<String>)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("\n```") {
        let (language, body) = rest[start + 4..].split_once('\n').expect("a block begins with a line");
        let (text, after) = body.split_once("\n```").expect("a block ends");
        blocks.push((language.to_owned(), format!("{text}\n")));
        rest = after;
    }
    let is_program = |(language, text): &(String, String)| language == "c" && text.contains("int main(");
    let output = |at: usize| {
        blocks.get(at + 1).filter(|(language, _)| language == "text").map(|(_, text)| text.clone())
    };
    let with_output =
        |(at, block): (usize, &(String, String))| is_program(block).then(|| (block.1.clone(), output(at)));
    blocks.iter().enumerate().filter_map(with_output).collect()
}

#[test]
fn programs_of_the_guide_print_what_it_says() {
    let page = fs::read_to_string(package().join("../../docs/c.md")).expect("the guide is there");
    let programs = programs(&page);
    assert_eq!(programs.len(), 4, "a program of the guide is not recognised");
    for (number, (text, output)) in programs.iter().enumerate() {
        let program = compile_source(&format!("guide-{number}"), text, Build::Plain);
        assert_eq!(Some(run_well(&mut Command::new(program))), *output, "program {number}");
    }
}

#[test]
fn the_program_of_the_readme_runs() {
    let page = fs::read_to_string(package().join("README.md")).expect("it is there");
    let [(text, None)] = &programs(&page)[..] else { panic!("expected one program without output") };
    let program = compile_source("readme", text, Build::Sanitized);
    assert_eq!(run_well(&mut Command::new(program)), "{\"text\": \"hi\"}\n");
}
