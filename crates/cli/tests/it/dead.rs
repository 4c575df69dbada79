//! `millpond dead`: what became of tasks that failed for good can be listed, looked at, tried again and let go.
//!
//! Letters are what an operator has after a bad night, so what is checked is that nothing goes which was not named, and
//! that a slip is answered by what can be done instead.

use crate::daemon::{Daemon, Folder, Ran};
use serde_json::{Value, json};

/// A daemon that keeps dead letters, with a handler that fails until a file is there.
fn morgue() -> Daemon {
    Daemon::start(
        r#"
dead_letters.enabled = true
[handler.mended]
command = ["sh", "-c", '''
while read -r line; do
    if [ -e mended ]; then echo '{"result":"well"}'; else echo '{"error":"not yet"}'; fi
done
''']
"#,
    )
}

/// Hands a task in and waits until it has failed.
fn fail(daemon: &Daemon, request: &str) {
    daemon.run(&["submit", request, "--wait"]).with_code(1);
}

fn fail_three(daemon: &Daemon) {
    fail(daemon, r#"{"task_id": "first", "handler": "mended", "args": {"n": 1}}"#);
    fail(daemon, r#"{"task_id": 17, "handler": "mended"}"#);
    fail(daemon, r#"{"task_id": "third", "handler": "file_read", "args": {"path": "/nowhere"}}"#);
    until_there_are(daemon, 3);
}

/// A client may hear of the end a moment before the letter is there.
fn until_there_are(daemon: &Daemon, letters: usize) -> Vec<Value> {
    daemon.run_until(&["dead", "ls", "--json"], |ran| ran.json().len() == letters).json()
}

fn ids(letters: &[Value]) -> Vec<Value> {
    letters.iter().map(|letter| letter["task_id"].clone()).collect()
}

fn error(ran: &Ran) -> &str {
    assert_eq!(ran.out, "", "{ran:?}");
    ran.err.lines().next().unwrap_or_default()
}

#[test]
fn dead_letters_are_listed_the_latest_first_with_why_they_died() {
    let daemon = morgue();
    let nothing = daemon.run(&["dead", "ls"]).with_code(0);
    assert_eq!((&*nothing.out, &*nothing.err), ("", "note: there are no dead letters\n"));
    fail_three(&daemon);
    let table = daemon.run(&["dead", "ls"]).quietly();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["task", "handler", "attempts", "died", "error"]);
    let firsts: Vec<&[&str]> = rows[2..].iter().map(|row| &row[..3]).collect();
    assert_eq!(firsts, [["third", "file_read", "1"], ["17", "mended", "1"], ["first", "mended", "1"]]);
    assert!(rows[2].contains(&"not-allowed:") && table.contains("not yet"), "{table}");
    let letters = |filter: &[&str]| ids(&daemon.run(&[&["dead", "ls", "--json"], filter].concat()).json());
    assert_eq!(letters(&["--handler", "mended"]), [json!(17), json!("first")]);
    assert_eq!(letters(&["--max", "1"]), [json!("third")]);
    assert_eq!(letters(&["--older-than", "1h"]), [Value::Null; 0]);
    let newest = daemon.run(&["dead", "ls", "--max", "2"]).with_code(0);
    assert_eq!(newest.err, "note: these are the latest 2 of 3; --max shows more\n");
    let ran = daemon.run(&["dead", "ls", "--handler", "nobody"]).with_code(0);
    let note = "note: there are no such dead letters; without --handler and --older-than all are shown\n";
    assert_eq!((&*ran.out, &*ran.err), ("", note));
}

#[test]
fn a_dead_letter_is_shown_with_all_that_it_asked_for() {
    let daemon = morgue();
    fail_three(&daemon);
    let letter = daemon.run(&["dead", "show", "first", "--json"]).with_code(0).json().remove(0);
    assert_eq!(letter["task_id"], "first");
    assert_eq!((&letter["handler"], &letter["args"]), (&json!("mended"), &json!({ "n": 1 })));
    let whole: Value = serde_json::from_str(&daemon.run(&["dead", "show", "first"]).quietly()).unwrap();
    assert_eq!(whole, letter, "for people it is the same, on several lines");
    let ran = daemon.run(&["dead", "show", "nobody"]).with_code(1);
    let expected = "error: task nobody: not-found (-112): no dead letter of task \"nobody\" is kept; it may have \
                    been tried again or let go";
    assert_eq!(error(&ran), expected);
}

#[test]
fn a_dead_letter_that_is_tried_again_is_a_new_task_and_goes() {
    let daemon = morgue();
    fail_three(&daemon);
    daemon.folder().write("mended", "");
    let ran = daemon.run(&["dead", "retry", "first", "nobody"]).with_code(1);
    let new = ran.out.strip_prefix("first is tried again as ").unwrap_or_else(|| panic!("{ran:?}")).trim();
    assert!(ran.err.starts_with("error: task nobody: not-found (-112): "), "{ran:?}");
    let result = daemon.run(&["get", new, "--wait", "--json"]).with_code(0).json();
    assert_eq!(result[0]["result"], "well", "{result:?}");
    assert_eq!(ids(&until_there_are(&daemon, 2)), [json!("third"), json!(17)]);
    let ran = daemon.run(&["dead", "retry", "17", "--json"]).with_code(0).json();
    assert_eq!(ran[0]["was"], 17, "{ran:?}");
}

#[test]
fn all_are_tried_again_only_if_that_is_said() {
    let daemon = morgue();
    fail_three(&daemon);
    let ran = daemon.run(&["dead", "retry"]).with_code(2);
    assert!(ran.err.contains("<ID>..."), "{ran:?}");
    let help = daemon.run(&["dead", "retry", "--help"]).quietly();
    assert!(help.contains("without any, say --all"), "{help}");
    let ran = daemon.run(&["dead", "retry", "first", "--all"]).with_code(2);
    assert!(ran.err.contains("'--all'"), "{ran:?}");
    let ran = daemon.run(&["dead", "retry", "first", "--handler", "mended"]).with_code(2);
    assert_eq!(
        error(&ran),
        "error: --handler and --older-than choose among --all; ids are taken as they are"
    );
    assert_eq!(until_there_are(&daemon, 3).len(), 3, "nothing was begun by mistake");
    daemon.folder().write("mended", "");
    let ran = daemon.run(&["dead", "retry", "--all", "--handler", "mended"]);
    assert_eq!(ran.quietly(), "2 dead letters tried again\n");
    assert_eq!(ids(&until_there_are(&daemon, 1)), [json!("third")]);
    let ran = daemon.run(&["dead", "retry", "--all", "--handler", "mended", "--json"]).with_code(0);
    assert_eq!(ran.json(), [json!({ "retried": 0, "refused": [], "left": 0 })]);
}

#[test]
fn what_is_let_go_is_gone_and_nothing_else() {
    let daemon = morgue();
    fail_three(&daemon);
    assert_eq!(daemon.run(&["dead", "purge", "17"]).quietly(), "1 dead letter let go\n");
    let ran = daemon.run(&["dead", "purge", "17"]).with_code(1);
    assert!(error(&ran).starts_with("error: task 17: not-found (-112): "), "{ran:?}");
    assert_eq!(ids(&until_there_are(&daemon, 2)), [json!("third"), json!("first")]);
    assert_eq!(
        daemon.run(&["dead", "purge", "--all", "--older-than", "1h"]).quietly(),
        "0 dead letters let go\n"
    );
    assert_eq!(daemon.run(&["dead", "purge", "--all", "--json"]).json(), [json!({ "purged": 2 })]);
    until_there_are(&daemon, 0);
}

#[test]
fn a_daemon_that_keeps_none_says_how_it_would() {
    let daemon = Daemon::start("");
    fail(&daemon, r#"{"handler": "file_read", "args": {"path": "/nowhere"}}"#);
    let ran = daemon.run(&["dead", "ls"]).with_code(0);
    let note = "note: this daemon keeps no dead letters; start it with a journal, or with \
                --dead-letters-enabled true\n";
    assert_eq!((&*ran.out, &*ran.err), ("", note));
    let alone = Folder::new();
    let ran = alone.run(&["dead", "ls"]).with_code(3);
    assert!(error(&ran).starts_with("error: no millpond answers at "), "{ran:?}");
}

#[test]
fn dead_letters_are_there_after_a_restart() {
    let home = Folder::new();
    let settings = format!("journal.dir = \"{}\"\n", home.path().join("journal").display());
    let mut daemon = Daemon::start(&settings);
    fail(&daemon, r#"{"task_id": "kept", "handler": "file_read", "args": {"path": "/nowhere"}}"#);
    until_there_are(&daemon, 1);
    daemon.terminate();
    assert_eq!(daemon.ended(), Some(0));
    let daemon = Daemon::start(&settings);
    assert_eq!(ids(&until_there_are(&daemon, 1)), [json!("kept")]);
    assert_eq!(daemon.run(&["dead", "purge", "kept"]).quietly(), "1 dead letter let go\n");
}
