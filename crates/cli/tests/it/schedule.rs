//! `millpond schedule ls`: what the clock will ask for, when next, and what came of it last time.
//!
//! One schedule here fires every second, because a test cannot wait longer; the others never come while it runs.

use crate::daemon::Daemon;
use serde_json::json;

const SCHEDULES: &str = r#"
[schedule.tick]
cron = "* * * * * *"
handler = "echo"

[schedule.nightly]
cron = "0 3 1 1 *"
time_zone = "Europe/Berlin"
handler = "sleep"
args = '{"ms": 1}'
"#;

#[test]
fn schedules_are_listed_with_their_next_and_their_last_time() {
    let daemon = Daemon::start(SCHEDULES);
    let fired = |ran: &crate::daemon::Ran| ran.json().iter().any(|line| line["fired"].as_u64() > Some(0));
    let lines = daemon.run_until(&["schedule", "ls", "--json"], fired).json();
    let names: Vec<_> = lines.iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names, [json!("nightly"), json!("tick")]);
    let [nightly, tick] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&nightly["time_zone"], &nightly["fired"]), (&json!("Europe/Berlin"), &json!(0)));
    assert_eq!(nightly["next_ms"].as_array().map(Vec::len), Some(5), "{nightly}");
    let task = tick["last_task"].as_str().unwrap();
    daemon.run(&["get", task, "--wait"]).with_code(0);

    let table = daemon.run(&["schedule", "ls"]).quietly();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["schedule", "cron", "handler", "next", "last", "task", "fired", "skipped"]);
    assert_eq!(rows[2][..8], ["nightly", "0", "3", "1", "1", "*", "Europe/Berlin", "sleep"], "{table}");
    assert!(rows[2][8].ends_with("-01-01T02:00:00Z"), "three in Berlin is two in UTC: {table}");
    assert_eq!(rows[3][..9], ["tick", "*", "*", "*", "*", "*", "*", "UTC", "echo"], "{table}");
}

#[test]
fn a_daemon_without_schedules_says_where_they_are_written() {
    let daemon = Daemon::start("");
    let ran = daemon.run(&["schedule", "ls"]).with_code(0);
    let note = "note: this daemon has no schedules; add [schedule.NAME] to its millpond.toml\n";
    assert_eq!((&*ran.out, &*ran.err), ("", note));
    assert_eq!(daemon.run(&["schedule", "ls", "--json"]).quietly(), "");
    let alone = crate::daemon::Folder::new();
    let ran = alone.run(&["schedule", "ls"]).with_code(3);
    assert!(ran.err.starts_with("error: no millpond answers at "), "{ran:?}");
}
