//! Lists are read by pages that follow a pool at work: what comes and goes meanwhile must neither be shown
//! twice nor push out what is still there.

use crate::toys::{Mill, ended, is_at, json, small, until};
use millpond_tasks::{Cursor, ErrorCode, ListFilter, ServiceConfig, Stage, Submit};

/// Room for many.
fn roomy() -> ServiceConfig {
    let mut config = small();
    config.pool.queue_capacity = 4096;
    config
}

fn submit(mill: &Mill, number: u64, args: &str) {
    mill.submit(&format!(r#"{{"handler":"echo","task_id":{number},"args":{args}}}"#));
}

/// The ids of one page, and where to go on.
fn page(mill: &Mill, filter: ListFilter) -> (Vec<String>, Option<Cursor>) {
    let page = mill.handle.list_page(&filter);
    (page.tasks.iter().map(|task| task.task_id.to_string()).collect(), page.next)
}

#[test]
fn pages_together_show_every_task_once_and_newest_first() {
    let mill = Mill::start(roomy());
    let ids: Vec<_> = (0..500).map(|number: u64| number.wrapping_mul(7919) % 10_007).collect();
    ids.iter().for_each(|id| submit(&mill, *id, "{}"));
    mill.settle();
    let (mut shown, mut before) = (Vec::new(), None);
    loop {
        let (tasks, next) = page(&mill, ListFilter { max: Some(70), before, ..ListFilter::default() });
        assert!(tasks.len() == 70 || next.is_none(), "only the last page is short");
        shown.extend(tasks);
        before = next;
        if next.is_none() {
            break;
        }
    }
    let expected: Vec<_> = ids.iter().rev().map(u64::to_string).collect();
    assert_eq!(shown, expected);
}

#[test]
fn the_next_page_goes_on_although_tasks_came_and_went() {
    let mill = Mill::start(roomy());
    (0..10).for_each(|number| submit(&mill, number, "{}"));
    mill.settle();
    let (first, next) = page(&mill, ListFilter { max: Some(3), ..ListFilter::default() });
    assert_eq!(first, ["9", "8", "7"]);
    (10..20).for_each(|number| submit(&mill, number, "{}"));
    mill.settle();
    for gone in [7, 5, 19] {
        mill.handle.take(&millpond_tasks::TaskId::Number(gone)).unwrap();
    }
    let (second, next) = page(&mill, ListFilter { max: Some(3), before: next, ..ListFilter::default() });
    assert_eq!(second, ["6", "4", "3"], "7 was where the page ended, and is gone as 5 is");
    let (last, next) = page(&mill, ListFilter { max: Some(3), before: next, ..ListFilter::default() });
    assert_eq!((last, next), (vec!["2".to_owned(), "1".to_owned(), "0".to_owned()], None));
    assert_eq!(mill.handle.list_page(&ListFilter::default()).known, 17);
}

#[test]
fn a_cursor_is_a_text_that_is_read_back() {
    let mill = Mill::start(roomy());
    (0..3).for_each(|number| submit(&mill, number, "{}"));
    mill.settle();
    let page = mill.handle.list_page(&ListFilter { max: Some(1), ..ListFilter::default() });
    let text = serde_json::to_value(&page).unwrap()["next"].as_str().unwrap().to_owned();
    assert_eq!(Some(text.parse().unwrap()), page.next);
    assert!("t17".parse::<Cursor>().is_err());
}

#[test]
fn tasks_are_found_by_how_they_ended_and_by_what_is_said_in_them() {
    let mill = Mill::start(roomy());
    submit(&mill, 1, r#"{"city":"Ulm"}"#);
    submit(&mill, 2, r#"{"city":"Bonn"}"#);
    submit(&mill, 31, &format!(r#"{{"x":"{}Ulm"}}"#, "x".repeat(5000)));
    ended(&mill.submit(r#"{"handler":"fail","task_id":"named","args":{"code":"not-allowed"}}"#));
    mill.settle();
    let find = |filter: ListFilter| page(&mill, filter).0;
    let with = |query: &str| ListFilter { query: Some(query.to_owned()), ..ListFilter::default() };
    assert_eq!(find(with("Ulm")), ["1"], "what lies beyond the beginning of the arguments is not searched");
    assert_eq!(find(with("31")), ["31"]);
    assert_eq!(find(with("fail")), [r#""named""#]);
    assert_eq!(find(with("as asked")), [r#""named""#], "the message of its error");
    assert_eq!(find(with("city")), ["2", "1"]);
    assert_eq!(find(with("Köln")), [""; 0]);
    let ended_so = |code| ListFilter { error: Some(code), ..ListFilter::default() };
    assert_eq!(find(ended_so(ErrorCode::NotAllowed)), [r#""named""#]);
    assert_eq!(find(ended_so(ErrorCode::Ok)), ["31", "2", "1"]);
    assert_eq!(find(ended_so(ErrorCode::Cancelled)), [""; 0]);
}

#[test]
fn a_search_in_vain_ends_its_page_early_and_says_where_to_go_on() {
    let mut config = roomy();
    config.results.max = 100_000;
    config.pool.queue_capacity = 1 << 16;
    let mill = Mill::start(config);
    submit(&mill, 0, r#"{"needle":1}"#);
    for number in 1..20_500 {
        mill.handle
            .submit(format!(r#"{{"handler":"echo","task_id":{number}}}"#).as_bytes(), Submit::default())
            .unwrap();
    }
    mill.settle();
    let needle = ListFilter { query: Some("needle".to_owned()), ..ListFilter::default() };
    let (none, next) = page(&mill, needle.clone());
    assert!(none.is_empty() && next.is_some());
    let (found, next) = page(&mill, ListFilter { before: next, ..needle.clone() });
    assert_eq!((found, next), (vec!["0".to_owned()], None));
    assert_eq!(mill.handle.list(&needle).len(), 1, "a list without pages looks at all");
}

#[test]
fn stages_are_counted_as_tasks_move() {
    let mut config = small();
    config.retry.backoff_min = crate::toys::NEVER;
    config.retry.backoff_max = crate::toys::NEVER;
    let mill = Mill::start(config);
    let stages = || Stage::ALL.map(|stage| mill.handle.stats().stages[stage.name()]);
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":36000000}"#);
    let retrying = mill.submit(r#"{"handler":"hold","retries":1}"#);
    mill.call().finish(Err(crate::toys::failure(ErrorCode::HandlerError)));
    until("it waits for its next attempt", || is_at(&retrying, "retrying"));
    let running = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    let plugs = mill.plug();
    let queued = mill.submit(r#"{"handler":"echo"}"#);
    assert_eq!(stages(), [1, 1, 2, 1, 0]);
    call.finish(Ok(json("1")));
    assert!(running.is_ended());
    assert_eq!(stages(), [1, 1, 1, 1, 1], "whoever sees the end sees it counted");
    for task in [&delayed, &retrying, &queued] {
        mill.handle.cancel(task.id()).unwrap();
    }
    assert_eq!(stages(), [0, 0, 1, 0, 4]);
    mill.unplug();
    plugs.iter().for_each(|plug| assert!(ended(plug).result().is_ok()));
    assert_eq!(stages(), [0, 0, 0, 0, 5]);
    mill.handle.take(running.id()).unwrap();
    assert_eq!(stages(), [0, 0, 0, 0, 4]);
}

#[test]
fn a_refused_task_leaves_no_trace_in_the_stages() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    let plugs = mill.plug();
    let refused =
        (0..50).filter(|_| mill.handle.submit(br#"{"handler":"echo"}"#, Submit::default()).is_err()).count();
    assert!(refused > 0, "the queue has few places");
    let stages = mill.handle.stats().stages;
    assert_eq!((stages["queued"], stages["running"], stages["ended"]), (50 - refused, plugs.len(), 0));
    mill.unplug();
    mill.settle();
}
