//! Tasks in pages: each one once, newest first, and only those that were asked for.
//!
//! Somebody who goes through all pages must not miss a task because others came or went meanwhile.

use crate::start::{Daemon, HOLD};
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].as_str().unwrap()).collect()
}

#[test]
fn pages_together_hold_every_task_once() {
    let daemon = Daemon::start();
    for _ in 0..25 {
        daemon.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    }
    let mut seen: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = daemon.get(&format!("/v1/tasks?limit=10{cursor}")).json();
        assert_eq!(page["known"], 25);
        seen.extend(ids(&page).iter().map(|id| (*id).to_owned()));
        // What comes in between does not move the pages.
        daemon.submit(r#"{"handler":"fail","delay_ms":3600000,"task_id":"later"}"#);
        daemon.ask("POST /v1/tasks/later/cancel", &[], None);
        daemon.ask("DELETE /v1/tasks/later", &[], None);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=25).rev().map(|number| format!("t{number}")).collect::<Vec<_>>());
}

#[test]
fn a_list_shows_what_was_asked_for() {
    let daemon = Daemon::start();
    daemon.submit(r#"{"handler":"echo","args":{"city":"Köln"}}"#);
    daemon.submit(r#"{"handler":"fail","args":{"message":"the disk is full"}}"#);
    for location in ["/v1/tasks/t1", "/v1/tasks/t2"] {
        daemon.get(&format!("{location}?wait=60s"));
    }
    daemon.submit(HOLD);
    let _call = daemon.call();
    let list = |query: &str| {
        let page = daemon.get(&format!("/v1/tasks?{query}")).json();
        ids(&page).join(" ")
    };
    assert_eq!(list(""), "t3 t2 t1");
    assert_eq!(list("stage=ended"), "t2 t1");
    assert_eq!(list("stage=running"), "t3");
    assert_eq!(list("handler=echo"), "t1");
    assert_eq!(list("error=handler-error"), "t2");
    assert_eq!(list("error=ok"), "t1");
    assert_eq!(list("q=K%C3%B6ln"), "t1");
    assert_eq!(list("q=disk+is"), "t2");
    assert_eq!(list("q=hold"), "t3");
    assert_eq!(list("stage=ended&limit=1"), "t2");
    let page = daemon.get("/v1/tasks?stage=ended").json();
    let task = &page["tasks"][0];
    assert_eq!(
        (&task["args"], &task["result"]),
        (&json!(null), &json!(null)),
        "a list leaves out what is long"
    );
    daemon.end();
}
