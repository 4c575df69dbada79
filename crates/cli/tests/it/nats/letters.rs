//! Dead letters of a queue: found from anywhere, tried again, let go.
//!
//! A task that failed for good must not be gone for whoever finds out why it did.

use super::{Ground, MOODY};
use serde_json::json;

/// Submits a task that fails for good.
fn fail(ground: &Ground, id: &str) {
    let request = format!(r#"{{"task_id": "{id}", "handler": "moody", "args": {{"of": "{id}"}}}}"#);
    ground.submit(&request, &["--wait"]).with_code(1);
}

#[test]
fn a_letter_is_listed_shown_tried_again_and_then_gone() {
    let ground = Ground::new("", MOODY);
    fail(&ground, "one");
    fail(&ground, "two");
    let letters = ground.nats(&["dead", "ls", "--json"]).json();
    let ids: Vec<_> = letters.iter().map(|letter| &letter["task_id"]).collect();
    assert_eq!(ids, ["two", "one"], "the latest first");
    assert_eq!(letters[0]["handler"], "moody");
    assert!(letters[0]["reason"].as_str().unwrap().contains("not today"), "{letters:?}");
    let page = ground.nats(&["dead", "ls"]).quietly();
    assert!(page.starts_with("task") && page.contains("moody") && page.contains("not today"), "{page}");
    let shown = ground.nats(&["dead", "show", "one", "--json"]).json();
    assert_eq!(shown[0]["request"]["args"], json!({"of": "one"}));

    ground.daemon.folder().write("mended", "");
    assert_eq!(ground.nats(&["dead", "retry", "one"]).quietly(), "one is tried again\n");
    ground.daemon.run_until(&["nats", "get", "one"], |ran| ran.code == Some(0) && ran.out == "\"fine\"\n");
    let left = ground.nats(&["dead", "ls", "--json"]).json();
    assert_eq!((left.len(), &left[0]["task_id"]), (1, &json!("two")));
    let ran = ground.nats(&["dead", "retry", "one"]).with_code(1);
    assert_eq!(ran.err, "error: task one: not-found (-112): queue jobs has no dead letter of it\n");
}

#[test]
fn letters_are_chosen_by_handler_and_age_or_all_at_once() {
    let ground = Ground::new("", MOODY);
    for id in ["a", "b", "c"] {
        fail(&ground, id);
    }
    let none = ground.nats(&["dead", "ls", "--handler", "echo"]);
    assert_eq!((none.code, none.err.as_str()), (Some(0), "note: no task of queue jobs has died so\n"));
    assert_eq!(ground.nats(&["dead", "purge", "--all", "--older-than", "1h"]).quietly(), "0 let go\n");
    assert_eq!(ground.nats(&["dead", "purge", "b"]).quietly(), "1 let go\n");
    ground.daemon.folder().write("mended", "");
    let retried = ground.nats(&["dead", "retry", "--all", "--handler", "moody", "--json"]).json();
    assert_eq!(retried, [json!({"retried": 2, "left": 0})]);
    for id in ["a", "c"] {
        ground.daemon.run_until(&["nats", "get", id], |ran| ran.out == "\"fine\"\n");
    }
    assert_eq!(ground.nats(&["dead", "purge", "--all", "--json"]).json(), [json!({"purged": 0})]);
    let ran = ground.nats(&["dead", "retry"]).with_code(2);
    assert!(ran.err.contains("<ID>..."), "all of them only if that is said: {ran:?}");
}
