//! One quick bench, to see that the bench still builds, runs and writes rows that can be read.
//!
//! No number is judged here. A shared machine is no place for that, and a limit wide enough never to fail by chance
//! would never fail for cause.
//!
//! Not here: the benches themselves (`bench/`).

use super::Verdict;
use crate::process;
use serde_json::Value;
use std::fs;
use std::path::Path;

const BENCH: &str = "bench/src/main.rs";
const GROUP: &str = "ring-1";
const KEYS: &[&str] = &["group", "peer", "unit", "better", "median", "min", "max", "rounds"];

pub(super) fn run(root: &Path) -> Result<Verdict, String> {
    if !root.join(BENCH).exists() {
        return Ok(Verdict::Skipped(format!("there is no {BENCH}")));
    }
    let rows = process::target_folder(root).join("bench-smoke.json");
    // Rows of an earlier run must not stand in for those of this one.
    let _ = fs::remove_file(&rows);
    let mut command = process::cargo(root);
    // As the tests are built: its many peers are there already, and nobody looks at the speed.
    command.args(["run", "--quiet", "--package", "millpond-bench", "--", "--quick", "--json"]);
    command.arg(&rows).arg(GROUP);
    if !process::run_in_the_open(&mut command)? {
        return Ok(Verdict::Failed);
    }
    let text =
        fs::read_to_string(&rows).map_err(|error| format!("{}: cannot be read: {error}", rows.display()))?;
    let count = check(&text).map_err(|error| format!("{}: {error}", rows.display()))?;
    println!("{count} rows");
    Ok(Verdict::Passed)
}

/// The number of rows, if they are what the bench promises and one of them is ours.
fn check(text: &str) -> Result<usize, String> {
    let rows: Vec<Value> =
        serde_json::from_str(text).map_err(|error| format!("expected an array of rows: {error}"))?;
    for row in &rows {
        if let Some(key) = KEYS.iter().find(|key| row[**key].is_null()) {
            return Err(format!("expected every row to have \"{key}\", got {row}"));
        }
    }
    if !rows.iter().any(|row| row["peer"] == "millpond") {
        return Err(format!("expected a row with peer \"millpond\" among {} rows, found none", rows.len()));
    }
    Ok(rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: &str) -> String {
        format!(
            "{{\"group\":\"ring-1\",\"peer\":\"{peer}\",\"unit\":\"ns\",\"better\":\"lower\",\
             \"median\":1.5,\"min\":1,\"max\":2,\"rounds\":3}}"
        )
    }

    #[test]
    fn rows_with_one_of_ours_are_accepted() {
        assert_eq!(check(&format!("[{},{}]", row("millpond"), row("std"))), Ok(2));
    }

    #[test]
    fn rows_without_ours_or_without_a_key_or_unreadable_are_refused() {
        assert!(check(&format!("[{}]", row("std"))).is_err());
        assert!(check(&format!("[{}]", row("millpond").replace("median", "mean"))).is_err());
        assert!(check("[]").is_err() && check("{").is_err());
    }
}
