//! The table of the daemon's metrics in `docs/metrics.md`, made from the table in the code; and the rules
//! that names keep.
//!
//! What people want to read around the table is written by hand. `MILLPOND_WRITE_PAGES=1` writes the table
//! into the page.

use super::durable_table::DURABLE_TABLE;
use super::nats_table::NATS_TABLE;
use super::table::TABLE;
use super::text::{Kind, Metric};
use std::collections::HashSet;
use std::path::PathBuf;

const BEGIN: &str = "<!-- table: daemon -->\n";
const END: &str = "<!-- end: daemon -->";

fn all() -> impl Iterator<Item = &'static Metric> {
    TABLE.iter().chain(DURABLE_TABLE).chain(NATS_TABLE)
}

fn table() -> String {
    let mut table = String::from("| about | name | type | labels | meaning |\n|---|---|---|---|---|\n");
    for Metric { area, name, kind, labels, help, .. } in all() {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        table += &format!("| {area} | `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
    }
    table
}

#[test]
fn the_table_of_the_page_is_that_of_the_code() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(BEGIN).expect("the page has a mark where the table begins") + BEGIN.len();
    let stop = page.find(END).expect("the page has a mark where the table ends");
    let mut renewed = page.clone();
    renewed.replace_range(start..stop, &table());
    if std::env::var_os("MILLPOND_WRITE_PAGES").is_some() {
        std::fs::write(&path, &renewed).unwrap();
    } else {
        assert!(page == renewed, "docs/metrics.md is stale; run `cargo xtask gen`");
    }
}

#[test]
fn names_follow_the_rules_and_come_once() {
    let mut names = HashSet::new();
    for Metric { name, kind, help, labels, .. } in all() {
        assert!(names.insert(name), "{name} is there twice");
        let plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let has_prefix = name.starts_with("millpond_") || name.starts_with("process_");
        assert!(has_prefix && name.chars().all(plain), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name} is a {kind}");
        assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        assert!(
            !help.is_empty() && !help.contains(['\\', '\n', '|']) && !help.ends_with('.'),
            "{name}: {help}"
        );
        assert!(labels.iter().all(|label| label.chars().all(plain) && *label != "le"), "{name}");
    }
}
