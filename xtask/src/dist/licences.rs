//! The licences of the libraries that are inside program and library: named, and with their texts, as they ask.
//!
//! Cargo knows what was linked and where its sources lie; the texts are beside them. The same text is written once,
//! however many libraries came with it. Tools of the build and of the tests are not in the program and not in the list.

use crate::process;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the list is about: the program, and the C library.
const OURS: [&str; 2] = ["millpond-cli", "millpond-ffi"];
/// How files with the text of a licence are called, in capitals.
const TEXTS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The whole list, as one text.
pub(super) fn of_everybody_else(root: &Path) -> Result<String, String> {
    let platform =
        process::output_of(Command::new("rustc").args(["--print", "host-tuple"]).current_dir(root))?;
    let mut metadata = process::cargo(root);
    // Without a platform cargo would fetch the libraries of all others, too.
    metadata.args(["metadata", "--format-version", "1", "--filter-platform", platform.trim()]);
    let metadata: Value = serde_json::from_str(&process::output_of(&mut metadata)?)
        .map_err(|error| format!("cargo metadata: expected JSON, got: {error}"))?;
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let mut names = Vec::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in linked(&metadata) {
        let Some(package) = packages.get(id) else { continue };
        // What has no source beside this repository is ours.
        if package["source"].is_null() {
            continue;
        }
        let text = |field: &str| package[field].as_str().unwrap_or("not said").to_owned();
        let name = format!("{} {}", text("name"), text("version"));
        for words in texts_of(Path::new(&text("manifest_path"))) {
            texts.entry(words).or_default().push(name.clone());
        }
        names.push(format!("{name}: {}", text("license")));
    }
    names.sort();
    Ok(page(&names, &texts))
}

/// The ids of all that is linked into what is ours.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let is_ours = |package: &&Value| OURS.iter().any(|name| package["name"] == *name);
    let roots = list(&metadata["packages"]).iter().filter(is_ours);
    let mut open: Vec<&str> = roots.filter_map(|package| package["id"].as_str()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let Some(node) = nodes.get(id).filter(|_| seen.insert(id)) else { continue };
        let is_linked = |kind: &Value| kind["kind"].is_null();
        let inside = list(&node["deps"]).iter().filter(|dep| list(&dep["dep_kinds"]).iter().any(is_linked));
        open.extend(inside.filter_map(|dep| dep["pkg"].as_str()));
    }
    seen
}

/// The texts in the folder of a manifest.
fn texts_of(manifest: &Path) -> Vec<String> {
    let Some(entries) = manifest.parent().and_then(|folder| fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let is_text = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && TEXTS.iter().any(|begin| name.starts_with(begin))
    };
    let mut paths: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_text(path)).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).map(|text| tidied(&text)).collect()
}

/// Without what differs between copies of one text: ends of lines, and space around them.
fn tidied(text: &str) -> String {
    text.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn page(names: &[String], texts: &BTreeMap<String, Vec<String>>) -> String {
    let mut page = format!("{}\n", names.join("\n"));
    for (text, users) in texts {
        page.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(72), users.join(", ")));
    }
    page
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_linked_counts_and_what_only_builds_or_tests_does_not() {
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [{"id": "cli", "name": "millpond-cli"}, {"id": "other", "name": "other"}],
            "resolve": {"nodes": [
                {"id": "cli", "deps": [dep("a", Value::Null), dep("b", json!("build")), dep("t", json!("dev"))]},
                {"id": "a", "deps": [dep("c", Value::Null), dep("cli", Value::Null)]},
                {"id": "b", "deps": []}, {"id": "c", "deps": []}, {"id": "t", "deps": []}, {"id": "other", "deps": []}
            ]}
        });
        assert_eq!(linked(&metadata).into_iter().collect::<Vec<_>>(), ["a", "c", "cli"]);
    }

    #[test]
    fn the_same_text_is_written_once() {
        assert_eq!(tidied("\nA \r\nB\n\n"), tidied("A\nB"));
        let users = vec!["a 1".to_owned(), "b 2".to_owned()];
        let texts = BTreeMap::from([("words".to_owned(), users)]);
        let page = page(&["a 1: MIT".to_owned(), "b 2: MIT".to_owned()], &texts);
        assert_eq!(page.matches("words").count(), 1);
        assert!(page.starts_with("a 1: MIT\nb 2: MIT\n") && page.contains("a 1, b 2\n"), "{page}");
    }
}
