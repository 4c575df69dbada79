//! `millpond sim`: the table, the JSON, the picture, and what it says to those who ask for the impossible.
//!
//! Seeds are fixed or read from the output, so that whatever fails here can be run again by hand.

use crate::program::{millpond, output_of, refusal, run, text};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const SMALL: &str = "sim --workers 4 --tasks 4000";

fn json(line: &str) -> Value {
    let mut whole: Value = serde_json::from_str(&output_of(line)).expect("--json prints JSON");
    // The only figure that is not the same twice.
    for run in whole["runs"].as_array_mut().expect("runs are a list") {
        let took = run.as_object_mut().and_then(|run| run.remove("took_ns"));
        assert!(took.is_some_and(|took| took.is_u64()));
    }
    whole
}

/// A place for a file of this test, in the folder cargo keeps for tests.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_table_has_a_row_for_every_strategy_and_all_lines_are_as_wide() {
    let table = output_of(&format!("{SMALL} --seed 3 --steal"));
    let mut parts = table.split("\n\n");
    let headline = parts.next().unwrap();
    assert_eq!(
        headline,
        "4 workers, load 0.900, 4 000 tasks, poisson arrivals, exponential service of 1.00 ms, stealing half, seed 3"
    );
    let rows: Vec<&str> = parts.next().unwrap().lines().collect();
    assert_eq!(rows.len(), 2 + 10, "{table}");
    for strategy in
        ["shared", "round-robin", "least-used", "least-busy", "least-utilised", "fair-share", "random"]
    {
        assert_eq!(
            rows.iter().filter(|row| row.starts_with(&format!("{strategy} "))).count(),
            1,
            "{strategy}"
        );
    }
    let width = rows[0].chars().count();
    assert!(rows.iter().all(|row| row.chars().count() == width), "{table}");
    assert!(rows[0].contains("robberies"), "{table}");
    assert!(!rows[0].contains("peak"), "there was no scaling: {table}");
    assert!(
        table.ends_with("again: millpond sim --workers 4 --tasks 4000 --seed 3 --steal=half\n"),
        "{table}"
    );
}

#[test]
fn rows_are_sorted_by_the_p99_wait() {
    let whole = json(&format!("{SMALL} --seed 3 --json"));
    let waits: Vec<u64> =
        whole["runs"].as_array().unwrap().iter().map(|run| run["wait_p99_ns"].as_u64().unwrap()).collect();
    assert_eq!(waits.len(), 10);
    assert!(waits.is_sorted() && waits[0] < waits[9], "{waits:?}");
}

#[test]
fn the_printed_command_repeats_a_run_whose_seed_was_drawn() {
    let first = json(&format!("{SMALL} --json --strategy shared,random --arrivals bursts"));
    let command = first["command"].as_str().unwrap().strip_prefix("millpond ").unwrap();
    assert_eq!(json(&format!("{command} --json")), first);
    let other = json(&format!("{SMALL} --json --strategy shared,random --arrivals bursts"));
    assert_ne!(other["scenario"]["seed"], first["scenario"]["seed"]);
    assert_ne!(other["runs"], first["runs"]);
}

#[test]
fn the_impossible_is_refused_with_what_is_possible() {
    let missing = scratch("missing.csv");
    let missing = missing.display();
    for (line, expected) in [
        (
            "sim --load 0".to_owned(),
            "error: load: expected more than 0 and at most 10; 0.9 is a busy crew, got 0\n",
        ),
        ("sim --workers 0".to_owned(), "error: workers: expected 1 to 10000, got 0\n"),
        ("sim --tasks 10000001".to_owned(), "error: tasks: expected 1 to 10000000, got 10000001\n"),
        (
            format!("sim --trace {missing}"),
            &format!("error: trace {missing}: expected a file that can be read, got: "),
        ),
        ("sim --strategy leest-busy".to_owned(), "error: strategy: expected one of round-robin, "),
        ("sim --scale 9..3".to_owned(), "error: scaling.workers_min: expected 1 to workers_max (3), got 9\n"),
        (
            "sim --service-mean 5".to_owned(),
            "error: invalid value '5' for '--service-mean <TIME>': expected a time",
        ),
        ("sim --arrivals posson".to_owned(), "error: invalid value 'posson' for '--arrivals <KIND>'"),
        ("sim --speeds 1,0".to_owned(), "error: speeds: expected 0.01 to 100 for each worker, got 0\n"),
    ] {
        let message = refusal(&line, 2);
        assert!(message.starts_with(expected), "{line}: {message}");
    }
    assert!(refusal("sim --strategy leest-busy", 2).contains("did you mean \"least-busy\"?"));
}

#[test]
fn a_crew_with_too_much_to_do_is_simulated_with_a_warning() {
    let output = run("sim --workers 2 --tasks 2000 --load 1.2 --strategy shared --seed 1");
    assert!(output.status.success());
    assert!(text(&output.stderr).starts_with("warning: load 1.200: more comes than can be done"));
    assert!(text(&output.stdout).contains("load 1.200"));
    let few = run("sim --workers 100 --tasks 2000 --strategy shared --seed 1");
    assert!(text(&few.stderr).ends_with("--tasks 50000 would do\n"), "{}", text(&few.stderr));
}

#[test]
fn a_trace_is_run_as_it_is_and_a_bad_line_is_told() {
    let path = scratch("good.csv");
    let tasks: Vec<String> = (0..2000).map(|task| format!("{}.5,0.75\n", task)).collect();
    fs::write(&path, tasks.concat()).unwrap();
    let whole =
        json(&format!("sim --workers 1 --trace {} --json --strategy shared --seed 1", path.display()));
    let run = &whole["runs"][0];
    assert_eq!(run["wait_max_ns"], 0, "each ends before the next comes");
    assert_eq!(run["simulated_ns"], 2_000_250_000_000_u64);
    assert_eq!(whole["scenario"]["tasks"], 2000);
    let path = scratch("bad.csv");
    fs::write(&path, "1\n2\nthree\n").unwrap();
    let message = refusal(&format!("sim --trace {}", path.display()), 2);
    let expected = format!("error: trace {}, line 3: expected an offset in seconds", path.display());
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn the_picture_has_a_curve_and_a_legend_for_every_strategy_and_keeps_within_its_edges() {
    let path = scratch("plot.svg");
    let output = run(&format!("{SMALL} --seed 3 --plot {}", path.display()));
    assert_eq!(text(&output.stderr), format!("note: wrote {}\n", path.display()));
    let picture = fs::read_to_string(&path).unwrap();
    let document = roxmltree::Document::parse(&picture).unwrap();
    let size = |name| document.root_element().attribute(name).unwrap().parse::<f64>().unwrap();
    let (width, height) = (size("width"), size("height"));
    let curves: Vec<_> = document.descendants().filter(|node| node.has_tag_name("polyline")).collect();
    assert_eq!(curves.len(), 10);
    let mut styles = Vec::new();
    for curve in curves {
        let points: Vec<(f64, f64)> = curve
            .attribute("points")
            .unwrap()
            .split_whitespace()
            .map(|point| {
                point.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap()
            })
            .collect();
        assert!(points.len() > 10);
        assert!(points.is_sorted_by(|one, next| one.0 <= next.0 && one.1 <= next.1), "never back, never up");
        assert!(points.iter().all(|(x, y)| (0.0..width).contains(x) && (0.0..height).contains(y)));
        styles.push((curve.attribute("stroke"), curve.attribute("stroke-dasharray")));
    }
    styles.sort();
    styles.dedup();
    assert_eq!(styles.len(), 10, "no two curves look the same");
    let words: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    for expected in ["power-of-two", "wait", "tasks that wait longer", "100 %", "0.1 %", "1 ms"] {
        assert!(words.contains(&expected), "{expected}");
    }
}

#[test]
fn a_picture_that_cannot_be_written_is_told_before_the_run() {
    let path = scratch("no-such-folder/plot.svg");
    let output = run(&format!("{SMALL} --strategy shared --plot {}", path.display()));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).starts_with("error: --plot "));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_run_with_its_own_exit_code() {
    let mut child = millpond("sim --workers 10000 --tasks 10000000 --load 2 --strategy random")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // It listens for Ctrl-C before it says its first word.
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("warning: load 2"), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "error: interrupted\n");
}
