//! The tables of `docs/http.md`, made from the tables in the code; a test holds the page against them.
//!
//! What people want to read around the tables is written by hand. `MILLPOND_WRITE_PAGES=1` writes the tables
//! into the page.

use super::problem::FAULTS;
use super::routes::{ROUTES, Role};
use std::path::PathBuf;

/// Where each table begins and ends in the page.
const MARKS: [(&str, Table); 2] = [("routes", routes), ("faults", faults)];

/// Makes the lines of a table.
type Table = fn() -> String;

fn routes() -> String {
    let mut table = String::from("| method and path | what it does | token | answers |\n|---|---|---|---|\n");
    for route in ROUTES {
        let query: Vec<_> = route.query().map(|parameter| format!("`{}`", parameter.name)).collect();
        let query = if query.is_empty() { String::new() } else { format!(" Query: {}.", query.join(", ")) };
        let statuses: Vec<_> = route
            .answers
            .iter()
            .map(|answer| answer.status)
            .chain(route.problems.iter().copied())
            .map(|status| status.to_string())
            .collect();
        let token = match route.role {
            Role::Open => "none",
            Role::Read => "read",
            Role::Write => "write",
        };
        let (verb, path, summary) = (route.verb.name(), route.path, route.summary);
        table += &format!("| `{verb} {path}` | {summary}{query} | {token} | {} |\n", statuses.join(", "));
    }
    table
}

fn faults() -> String {
    let mut table = String::from("| code | HTTP | meaning |\n|---|---:|---|\n");
    for row in FAULTS {
        table += &format!("| `{}` | {} | {} |\n", row.name, row.status, row.sentence);
    }
    table
}

/// The page with its tables as they should be.
fn renewed(page: &str) -> String {
    let mut page = page.to_owned();
    for (name, table) in MARKS {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let start = page.find(&begin).expect("the page has a mark where the table begins") + begin.len();
        let stop = page.find(&end).expect("the page has a mark where the table ends");
        page.replace_range(start..stop, &table());
    }
    page
}

#[test]
fn the_tables_of_the_page_are_those_of_the_code() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let renewed = renewed(&page);
    if std::env::var_os("MILLPOND_WRITE_PAGES").is_some() {
        return std::fs::write(&path, &renewed).unwrap();
    }
    assert!(page == renewed, "docs/http.md is stale; run this test with MILLPOND_WRITE_PAGES=1");
}
