//! Submitting, asking, cancelling, listing: each kind of frame does what `docs/PROTOCOL.md` says.
//!
//! What is kept and what is not matters most: a client must know whether it can ask again.

use crate::start::{Answer, Daemon, ask, receive};
use millpond_local::{Client, Flags, Kind};
use serde_json::{Value, json};
use std::collections::HashSet;

const ECHO: &str = r#"{"handler":"echo","args":{"x":[1]}}"#;
const GATED: &str = r#"{"handler":"gated"}"#;

fn submit(client: &mut Client, flags: Flags, request: &str) -> Answer {
    ask(client, Kind::Submit, flags, 1, request)
}

fn get(client: &mut Client, flags: Flags, id: &Value) -> Answer {
    ask(client, Kind::Get, flags, 2, &json!({ "task_id": id }).to_string())
}

#[test]
fn a_result_comes_back_with_the_tag_and_is_not_kept() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let answer = submit(&mut client, Flags::RESULT, ECHO);
    assert_eq!((answer.kind, answer.tag), (Kind::Result, 1));
    assert_eq!(answer.value["result"], json!({"x": [1]}));
    assert_eq!((&answer.value["status"], &answer.value["attempts"]), (&json!(0), &json!(1)));
    let answer = get(&mut client, Flags::RESULT, &answer.value["task_id"]);
    assert_eq!((answer.kind, answer.tag), (Kind::Error, 2));
    assert_eq!(answer.value["error"], "result-gone");
}

#[test]
fn keep_keeps_the_outcome_although_it_was_sent() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let sent = submit(&mut client, Flags::RESULT | Flags::KEEP, ECHO);
    let asked = get(&mut client, Flags::RESULT, &sent.value["task_id"]);
    assert_eq!((asked.kind, asked.value), (Kind::Result, sent.value.clone()));
    let status = get(&mut client, Flags::NONE, &sent.value["task_id"]);
    assert_eq!(status.kind, Kind::Status);
    assert_eq!((&status.value["stage"], &status.value["status"]), (&json!("ended"), &json!(0)));
}

#[test]
fn without_flags_the_task_is_acknowledged_and_its_outcome_kept() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let accepted = submit(&mut client, Flags::NONE, r#"{"handler":"echo","task_id":"mine"}"#);
    assert_eq!((accepted.kind, accepted.value), (Kind::Accepted, json!({"task_id": "mine"})));
    let result = get(&mut client, Flags::RESULT, &json!("mine"));
    assert_eq!((result.kind, &result.value["status"]), (Kind::Result, &json!(0)));
}

#[test]
fn an_outcome_that_is_taken_is_told_once() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let take = |client: &mut Client, id: &Value| {
        ask(client, Kind::Take, Flags::NONE, 3, &json!({ "task_id": id }).to_string())
    };
    let id = submit(&mut client, Flags::NONE, GATED).value["task_id"].clone();
    assert_eq!(take(&mut client, &id).value["error"], "not-ended");
    daemon.gate.open();
    let told = get(&mut client, Flags::RESULT, &id);
    let taken = take(&mut client, &id);
    assert_eq!((taken.kind, taken.tag, taken.value), (Kind::Result, 3, told.value));
    assert_eq!(take(&mut client, &id).value["error"], "result-gone");
    assert_eq!(get(&mut client, Flags::RESULT, &id).value["error"], "result-gone");
}

#[test]
fn with_ack_the_acknowledgement_comes_before_the_result() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let count = 2000;
    for tag in 0..count {
        client.send(Kind::Submit, Flags::RESULT | Flags::ACK, tag, ECHO.as_bytes()).unwrap();
    }
    let mut accepted = vec![Value::Null; count as usize];
    let mut ended = HashSet::new();
    while ended.len() < count as usize {
        let answer = receive(&mut client);
        let id = &answer.value["task_id"];
        match answer.kind {
            Kind::Accepted => accepted[answer.tag as usize] = id.clone(),
            Kind::Result => {
                assert_eq!(&accepted[answer.tag as usize], id, "acknowledged before");
                assert!(ended.insert(answer.tag), "one result for each");
            }
            other => panic!("{other}: {}", answer.value),
        }
    }
}

#[test]
fn ten_thousand_in_a_row_are_each_answered_once() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let count = 10_000;
    for tag in 0..count {
        let request = json!({"handler": "echo", "task_id": tag, "args": {"n": tag}}).to_string();
        client.send(Kind::Submit, Flags::RESULT, tag, request.as_bytes()).unwrap();
    }
    let mut seen = HashSet::new();
    for _ in 0..count {
        let answer = receive(&mut client);
        assert_eq!(answer.kind, Kind::Result);
        assert_eq!(answer.value["result"], json!({"n": answer.tag}), "the right answer to the right tag");
        assert!(seen.insert(answer.tag));
    }
    assert_eq!(daemon.door().stats().in_flight, 0);
}

#[test]
fn a_task_that_waits_is_asked_for_and_cancelled_from_another_connection() {
    let daemon = Daemon::start();
    let (mut owner, mut other) = (daemon.client(), daemon.client());
    let accepted = submit(&mut owner, Flags::RESULT | Flags::ACK, GATED);
    daemon.gate.wait_for(1);
    let id = &accepted.value["task_id"];
    let status = get(&mut other, Flags::NONE, id);
    assert_eq!((status.kind, &status.value["stage"]), (Kind::Status, &json!("running")));
    other.send(Kind::Get, Flags::RESULT, 9, json!({ "task_id": id }).to_string().as_bytes()).unwrap();
    let cancelled = ask(&mut other, Kind::Cancel, Flags::NONE, 3, &json!({ "task_id": id }).to_string());
    let (told, ok) = if cancelled.kind == Kind::Ok {
        (receive(&mut other), cancelled)
    } else {
        (cancelled, receive(&mut other))
    };
    assert_eq!((ok.kind, ok.tag, ok.value), (Kind::Ok, 3, json!({})));
    assert_eq!((told.kind, told.tag, &told.value["error"]), (Kind::Result, 9, &json!("cancelled")));
    let result = receive(&mut owner);
    assert_eq!((result.kind, &result.value["status"]), (Kind::Result, &json!(-101)));
    daemon.gate.open();
}

#[test]
fn what_has_ended_cannot_be_cancelled() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let kept = submit(&mut client, Flags::RESULT | Flags::KEEP, ECHO);
    let words = json!({"task_id": kept.value["task_id"]}).to_string();
    let answer = ask(&mut client, Kind::Cancel, Flags::NONE, 3, &words);
    assert_eq!((answer.kind, &answer.value["error"]), (Kind::Error, &json!("already-ended")));
    assert_eq!(answer.value["task_id"], kept.value["task_id"]);
    let answer = ask(&mut client, Kind::Cancel, Flags::NONE, 4, r#"{"task_id":"nobody"}"#);
    assert_eq!((answer.kind, &answer.value["error"]), (Kind::Error, &json!("not-found")));
}

#[test]
fn tasks_are_listed_newest_first_by_stage_and_handler() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for id in 1..=3 {
        submit(
            &mut client,
            Flags::RESULT | Flags::KEEP,
            &json!({"handler": "echo", "task_id": id}).to_string(),
        );
    }
    submit(&mut client, Flags::NONE, r#"{"handler":"gated","task_id":4}"#);
    daemon.gate.wait_for(1);
    let mut list = |words: &str| {
        let answer = ask(&mut client, Kind::List, Flags::NONE, 5, words);
        assert_eq!(answer.kind, Kind::Tasks, "{}", answer.value);
        let tasks = answer.value["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["task_id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(list("{}"), [4, 3, 2, 1]);
    assert_eq!(list(r#"{"handler":"echo","max":2}"#), [3, 2]);
    assert_eq!(list(r#"{"stage":"running"}"#), [4]);
    assert!(list(r#"{"stage":"ended","handler":"gated"}"#).is_empty());
    daemon.gate.open();
}

#[test]
fn figures_count_what_was_done_here() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    submit(&mut client, Flags::RESULT, ECHO);
    submit(&mut client, Flags::RESULT, "no request");
    let answer = ask(&mut client, Kind::Stats, Flags::NONE, 6, "{}");
    assert_eq!((answer.kind, answer.tag), (Kind::Numbers, 6));
    let figures = &answer.value;
    assert_eq!((&figures["accepted"], &figures["succeeded"]), (&json!(1), &json!(1)));
    assert_eq!(figures["refused"], json!({"invalid-request": 1}));
    let control = &figures["control"];
    assert_eq!((&control["connections"], &control["errors"]), (&json!(1), &json!(1)));
    assert_eq!(control["frames_in"], 2, "those before this one");
    assert_eq!(daemon.door().stats().frames_in, 3);
}

#[test]
fn a_ping_comes_back_whatever_its_bytes() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    client.send(Kind::Ping, Flags::NONE, u64::MAX, &bytes).unwrap();
    let frame = client.receive().unwrap();
    assert_eq!((frame.kind, frame.tag), (Kind::Pong, u64::MAX));
    assert!(frame.payload == bytes);
    client.send(Kind::Ping, Flags::NONE, 0, b"").unwrap();
    assert_eq!(client.receive().unwrap().payload, b"");
}

#[test]
fn what_is_forgotten_goes_on_unwatched_and_is_kept() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let accepted = submit(&mut client, Flags::RESULT | Flags::ACK, GATED);
    let forget = |client: &mut Client| ask(client, Kind::Forget, Flags::NONE, 8, r#"{"tag":1}"#);
    assert_eq!(forget(&mut client).kind, Kind::Ok);
    let again = forget(&mut client);
    assert_eq!((again.kind, &again.value["error"]), (Kind::Error, &json!("not-found")));
    daemon.gate.open();
    let answer = get(&mut client, Flags::RESULT, &accepted.value["task_id"]);
    assert_eq!((answer.kind, answer.tag), (Kind::Result, 2), "nothing came under the forgotten tag");
}

#[test]
fn forgetting_many_leaves_no_answer_behind_it() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    for round in 0..300 {
        for _ in 0..20 {
            client.send(Kind::Submit, Flags::RESULT, 1, ECHO.as_bytes()).unwrap();
        }
        client.send(Kind::Forget, Flags::NONE, 2, br#"{"tag":1}"#).unwrap();
        client.send(Kind::Ping, Flags::NONE, 3, b"{}").unwrap();
        let mut results = 0;
        let forgotten = loop {
            let answer = receive(&mut client);
            match answer.kind {
                Kind::Result => results += 1,
                kind => break (kind, answer.tag),
            }
        };
        assert_eq!(forgotten.1, 2);
        assert_eq!(
            forgotten.0 == Kind::Error,
            results == 20,
            "round {round}: an error if there was nothing left"
        );
        assert_eq!(receive(&mut client).kind, Kind::Pong, "no result after FORGET was answered");
    }
}

#[test]
fn a_request_that_comes_again_with_its_key_is_the_same_task() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let request = r#"{"handler":"gated","idempotency_key":"once"}"#;
    client.send(Kind::Submit, Flags::RESULT, 1, request.as_bytes()).unwrap();
    client.send(Kind::Submit, Flags::RESULT | Flags::ACK, 2, request.as_bytes()).unwrap();
    let accepted = receive(&mut client);
    assert_eq!((accepted.kind, accepted.tag), (Kind::Accepted, 2));
    daemon.gate.open();
    let (first, second) = (receive(&mut client), receive(&mut client));
    assert_eq!(first.value, second.value);
    assert_eq!(HashSet::from([first.tag, second.tag]), HashSet::from([1, 2]));
    assert_eq!(daemon.gate.arrived(), 1, "it ran once");
}
