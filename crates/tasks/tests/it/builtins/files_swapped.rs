//! Somebody swaps directories for links while files are opened, as fast as they can.
//!
//! Between a check and an open there would be a moment in which the path leads elsewhere. Thousands of tries
//! must not find one. So that the test could fail, it also sees that the swap really hits the opening: both
//! outcomes, the file inside and the refusal, must have come up.

use super::files::Folder;
use super::outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const TRIES: usize = 3_000;

#[test]
fn a_directory_that_becomes_a_link_while_it_is_opened_leads_nowhere() {
    let folder = Folder::new();
    fs::write(folder.at("allowed/inner/secret"), "harmless").unwrap();
    symlink(folder.at("outside"), folder.at("allowed/link")).unwrap();
    let replace = json!({ "path": "inner/secret", "data": "harmless", "mode": "replace" });
    let said = race(&folder, "allowed/inner", "allowed/link", replace);
    assert!(!said.contains_key("secret"), "{said:?}");
    assert!(
        said.contains_key("harmless") && said.contains_key("not-allowed"),
        "the swap never hit: {said:?}"
    );
    assert_eq!(fs::read_to_string(folder.at("outside/secret")).unwrap(), "secret", "nor was it written");
    assert_eq!(fs::read_dir(folder.at("outside")).unwrap().count(), 1, "and nothing was put beside it");
}

#[test]
fn a_file_that_becomes_a_link_while_it_is_opened_leads_nowhere() {
    let folder = Folder::new();
    fs::write(folder.at("allowed/inner/secret"), "harmless").unwrap();
    symlink(folder.at("outside/secret"), folder.at("allowed/link")).unwrap();
    let append = json!({ "path": "inner/secret", "data": "", "mode": "append" });
    let said = race(&folder, "allowed/inner/secret", "allowed/link", append);
    assert!(!said.contains_key("secret"), "{said:?}");
    assert!(
        said.contains_key("harmless") && said.contains_key("not-allowed"),
        "the swap never hit: {said:?}"
    );
    assert_eq!(fs::read_to_string(folder.at("outside/secret")).unwrap(), "secret", "nor was it written");
}

/// Reads and writes one path while two names are exchanged again and again; says how often what came out.
fn race(folder: &Folder, one: &str, other: &str, write: Value) -> BTreeMap<String, usize> {
    let daemon = folder.daemon();
    let is_over = AtomicBool::new(false);
    let mut said = BTreeMap::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other, aside) = (folder.at(one), folder.at(other), folder.at("aside"));
            while !is_over.load(Relaxed) {
                fs::rename(&one, &aside).unwrap();
                fs::rename(&other, &one).unwrap();
                fs::rename(&one, &other).unwrap();
                fs::rename(&aside, &one).unwrap();
            }
        });
        for number in 0..TRIES {
            let request = match number % 3 {
                0 | 1 => json!({ "handler": "file_read", "args": { "path": "inner/secret" } }),
                _ => json!({ "handler": "file_write", "args": write }),
            };
            let outcome = outcome(&daemon.submit(&request));
            let words = outcome["result"]["data"].as_str().or(outcome["error"].as_str()).unwrap_or("written");
            *said.entry(words.to_owned()).or_insert(0) += 1;
        }
        is_over.store(true, Relaxed);
    });
    said
}
