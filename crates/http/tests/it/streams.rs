//! Following a task: every event once and in order, however often the reader comes back.
//!
//! Connections break; a reader that goes on where it was must neither miss nor repeat anything.

use crate::start::{Daemon, HOLD, names, raw};
use serde_json::json;

#[test]
fn a_stream_tells_the_task_what_it_says_and_its_end() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let mut stream = daemon.follow(&format!("{location}/events"), &[]);
    let first = stream.next_event().unwrap();
    assert_eq!((first.name.as_str(), first.id, &first.data["task_id"]), ("task", None, &json!("t1")));
    let call = daemon.call();
    call.partial(raw(&json!({ "page": 1 }))).unwrap();
    let partial = stream.next_event().unwrap();
    assert_eq!((partial.name.as_str(), partial.id), ("partial", Some(0)), "it comes while the task runs");
    assert_eq!(partial.data, json!({ "offset": 0, "attempt": 1, "partial": { "page": 1 } }));
    call.progress(0.5);
    assert_eq!(stream.next_event().unwrap().data["progress"], 0.5);
    call.log("a line");
    assert_eq!(stream.next_event().unwrap().data["log"], "a line");
    call.finish(Ok(raw(&json!("done"))));
    let end = stream.next_event().unwrap();
    assert_eq!((end.name.as_str(), end.id), ("ended", Some(3)));
    assert_eq!((&end.data["status"], &end.data["result"]), (&json!(0), &json!("done")));
    assert_eq!(stream.next_event(), None, "there is one end");
}

#[test]
fn a_reader_goes_on_after_the_last_event_it_saw() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let call = daemon.call();
    for number in 0..5 {
        call.partial(raw(&json!(number))).unwrap();
    }
    call.finish(Ok(raw(&json!(null))));
    let path = format!("{location}/events");
    let ids = |path: &str, headers: &[&str]| {
        let events = daemon.follow(path, headers).rest();
        assert_eq!(names(&events).last(), Some(&"ended"));
        events
            .iter()
            .filter(|event| event.name == "partial")
            .map(|event| event.id.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&path, &[]), [0, 1, 2, 3, 4]);
    assert_eq!(ids(&path, &["Last-Event-ID: 2"]), [3, 4]);
    assert_eq!(ids(&path, &["Last-Event-ID: "]), [0, 1, 2, 3, 4], "browsers send an empty one at first");
    assert_eq!(ids(&format!("{path}?from=4"), &[]), [4]);
    assert_eq!(ids(&format!("{path}?from=4"), &["Last-Event-ID: 0"]), [1, 2, 3, 4], "the later word counts");
    assert_eq!(ids(&path, &["Last-Event-ID: 4"]), [0; 0]);
    let after_the_end = daemon.ask(&format!("GET {path}"), &["Last-Event-ID: 5"], None);
    assert_eq!(
        (after_the_end.status, after_the_end.text()),
        (204, ""),
        "this stops a browser from asking again"
    );
}

#[test]
fn whoever_comes_late_is_told_what_was_missed() {
    let daemon = Daemon::with(|_, service| {
        service.stream.chunks_max = 2;
        service.stream.reader_wait = std::time::Duration::ZERO;
    });
    let location = daemon.submit(HOLD);
    let call = daemon.call();
    for number in 0..5 {
        call.partial(raw(&json!(number))).unwrap();
    }
    call.finish(Ok(raw(&json!(null))));
    let events = daemon.follow(&format!("{location}/events"), &[]).rest();
    assert_eq!(names(&events), ["task", "missed", "partial", "partial", "ended"]);
    assert_eq!((events[1].id, &events[1].data["missed"]), (Some(2), &json!(3)));
    let resumed = daemon.follow(&format!("{location}/events"), &["Last-Event-ID: 2"]).rest();
    assert_eq!(
        names(&resumed),
        ["task", "partial", "partial", "ended"],
        "what follows the gap is not lost with it"
    );
}

#[test]
fn events_come_as_lines_if_that_is_what_is_wanted() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let call = daemon.call();
    call.partial(raw(&json!("a\nb"))).unwrap();
    call.finish(Ok(raw(&json!(1))));
    let accept = "Accept: text/event-stream;q=0.1, application/x-ndjson";
    let answer = daemon.ask(&format!("GET {location}/events"), &[accept], None);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<serde_json::Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["task", "partial", "ended"]);
    assert_eq!((&lines[1]["id"], &lines[1]["data"]["partial"]), (&json!(0), &json!("a\nb")));
}

#[test]
fn a_silent_stream_shows_that_it_is_alive() {
    let daemon = Daemon::with(|web, _| web.heartbeat = std::time::Duration::from_millis(5));
    let location = daemon.submit(HOLD);
    let mut stream = daemon.follow(&format!("{location}/events"), &[]);
    assert!(stream.block().unwrap().starts_with("event: task"));
    assert_eq!(stream.block().unwrap(), ": alive");
    assert_eq!(stream.block().unwrap(), ": alive");
    daemon.end();
}

#[test]
fn streams_are_counted_and_given_back() {
    let daemon = Daemon::with(|web, _| web.streams_max = 1);
    let location = daemon.submit(HOLD);
    let path = format!("{location}/events");
    let mut stream = daemon.follow(&path, &[]);
    stream.next_event().unwrap();
    assert_eq!(daemon.get(&path).refusal(), (503, "too-many-waiting".to_owned()));
    assert_eq!(daemon.get("/v1/events").refusal(), (503, "too-many-waiting".to_owned()));
    drop(stream);
    let follows = || {
        let mut connection = daemon.connect();
        connection.ask(&format!("GET {path}"), &[], None);
        connection.head().status == 200
    };
    crate::start::until("the one that left is noticed", follows);
    daemon.end();
}

#[test]
fn a_reader_that_stands_still_holds_back_its_task_and_nobody_else() {
    let daemon = Daemon::with(|_, service| {
        service.stream.chunks_max = 4;
        service.stream.bytes_max = 1 << 20;
        service.stream.reader_wait = crate::http::SOON;
    });
    let location = daemon.submit(HOLD);
    let mut stream = daemon.follow(&format!("{location}/events"), &[]);
    stream.next_event().unwrap();
    let call = daemon.call();
    // More than the connection and the stream hold: the handler has to wait until somebody reads.
    let speaker = std::thread::spawn(move || {
        let large = json!("x".repeat(60_000));
        for _ in 0..400 {
            call.partial(raw(&large)).unwrap();
        }
        call.finish(Ok(raw(&json!("all said"))));
    });
    assert_eq!(daemon.get("/healthz").status, 200);
    let events = stream.rest();
    assert_eq!(events.len(), 401, "nothing was lost");
    assert!(events[..400].iter().enumerate().all(|(at, event)| event.id == Some(at as u64)));
    speaker.join().unwrap();
}
