//! Dead letters over HTTP: seen, tried again, let go; and tasks that are kept before they are acknowledged.
//!
//! What a dead letter is, is proved elsewhere; here it is the addresses, the statuses and the words.

use crate::start::Daemon;
use millpond_tasks::config::{JournalSettings, JournalSync};
use serde_json::json;
use std::fs;

fn keeping() -> Daemon {
    Daemon::with(|_, service| service.dead_letters.enabled = Some(true))
}

#[test]
fn a_task_that_failed_for_good_is_listed_tried_again_and_let_go() {
    let daemon = keeping();
    for _ in 0..2 {
        let location = daemon.submit(r#"{"handler":"fail","args":{"message":"no"}}"#);
        daemon.get(&format!("{location}?wait=60s"));
    }
    let page = daemon.get("/v1/dead?handler=fail&limit=1").json();
    assert_eq!((&page["kept"], &page["enabled"]), (&json!(2), &json!(true)));
    assert_eq!(
        (&page["letters"][0]["task_id"], page["letters"].as_array().unwrap().len()),
        (&json!("t2"), 1)
    );
    let rest = daemon.get(&format!("/v1/dead?before={}", page["next"])).json();
    assert_eq!(rest["letters"][0]["task_id"], "t1");
    let letter = daemon.get("/v1/dead/t1").json();
    assert_eq!((&letter["error"], &letter["args"]["message"]), (&json!("handler-error"), &json!("no")));
    let again = daemon.ask("POST /v1/dead/t1/retry", &[], None);
    assert_eq!((again.status, again.header("location")), (202, Some("/v1/tasks/t3")));
    assert_eq!(daemon.get("/v1/dead/t1").status, 404);
    daemon.get("/v1/tasks/t3?wait=60s");
    assert_eq!(daemon.ask("DELETE /v1/dead/t2", &[], None).json()["purged"], 1);
    let revived = daemon.ask("POST /v1/dead?handler=nobody", &[], None).json();
    assert_eq!(revived["retried"], 0);
    assert_eq!(daemon.ask("DELETE /v1/dead?handler=fail", &[], None).json()["purged"], 1);
    assert_eq!(daemon.get("/v1/dead").json()["kept"], 0);
    assert_eq!(daemon.get("/v1/schedules").json()["schedules"], json!([]));
    daemon.end();
}

#[test]
fn with_a_journal_every_way_in_is_answered_once_the_task_is_kept() {
    let folder = std::env::temp_dir().join(format!("millpond-http-journal-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let start = || {
        Daemon::with(|_, service| {
            service.journal = Some(JournalSettings {
                directory: folder.join("journal"),
                sync: JournalSync::Group,
                segment_bytes: 8 << 20,
                snapshot_bytes_min: 64 << 20,
                crash_attempts_max: 3,
            });
        })
    };
    let daemon = start();
    let later = r#"{"handler":"echo","delay_ms":3600000}"#;
    let location = daemon.submit(later);
    let batch = daemon.post("/v1/batch", &format!("[{later},{later},{{}}]")).json();
    assert_eq!((&batch["tasks"][1]["status"], &batch["tasks"][2]["status"]), (&json!(202), &json!(400)));
    let lines = format!("{later}\n{later}\n");
    let bulk =
        daemon.ask("POST /v1/bulk?until=accepted", &["Content-Type: application/x-ndjson"], Some(&lines));
    assert_eq!(bulk.text().lines().count(), 2, "{}", bulk.text());
    assert_eq!(daemon.post("/v1/exec", r#"{"handler":"echo","args":{"n":1}}"#).json()["result"]["n"], 1);
    assert_eq!(daemon.ask("POST /v1/tasks/t3/cancel", &[], None).json()["error"], "cancelled");
    assert_eq!(daemon.get("/readyz").status, 200);
    assert_eq!(daemon.get("/stats").json()["tasks"]["journal"]["state"], "ok");
    daemon.end();
    let again = start();
    assert_eq!(again.get(&location).json()["stage"], "delayed");
    let stages: Vec<_> =
        (2..=5).map(|id| again.get(&format!("/v1/tasks/t{id}")).json()["stage"].clone()).collect();
    assert_eq!(stages, ["delayed", "ended", "delayed", "delayed"]);
    again.end();
    fs::remove_dir_all(&folder).unwrap();
}
