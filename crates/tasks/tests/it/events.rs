//! A dashboard listens while the pool works. It sees tasks move in their order, learns what it missed, and
//! can neither slow anybody down nor be kept waiting after the end.

use crate::toys::{Mill, SOON, ended, failure, json, small, until};
use millpond_tasks::{ErrorCode, ServiceEvent, ServiceEvents, Stage, Submit, TaskId, TaskNews};
use serde_json::to_value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// With a worker that has started, so that the pool has nothing to tell of its own accord.
fn awake() -> Mill {
    let mill = Mill::start(small());
    ended(&mill.submit(r#"{"handler":"echo"}"#));
    mill.settle();
    mill
}

/// Everything about tasks that waits to be received.
fn tasks(events: &ServiceEvents) -> Vec<TaskNews> {
    let all = std::iter::from_fn(|| events.try_recv());
    all.filter_map(|event| if let ServiceEvent::Task(news) = event { Some(news) } else { None }).collect()
}

#[test]
fn a_task_is_told_of_at_every_stage_in_order() {
    let mill = Mill::start(small());
    ended(&mill.submit(r#"{"handler":"echo"}"#));
    let events = mill.handle.events(100);
    let task = mill.submit(r#"{"handler":"hold","task_id":5,"retries":1,"delay_ms":1}"#);
    mill.call().finish(Err(failure(ErrorCode::HandlerError)));
    mill.call().finish(Err(failure(ErrorCode::NotAllowed)));
    ended(&task);
    let told = tasks(&events);
    let stages: Vec<_> = told.iter().map(|news| news.stage).collect();
    let expected = [
        Stage::Delayed,
        Stage::Queued,
        Stage::Running,
        Stage::Retrying,
        Stage::Queued,
        Stage::Running,
        Stage::Ended,
    ];
    assert_eq!(stages, expected);
    assert!(told.iter().all(|news| news.task_id == TaskId::Number(5) && news.handler == "hold"));
    let last = to_value(ServiceEvent::Task(told.last().unwrap().clone())).unwrap();
    assert_eq!(
        (&last["stage"], &last["status"], &last["error"]),
        (&"ended".into(), &(-107).into(), &"not-allowed".into())
    );
    assert!(last["ran_us"].is_u64() && last["at_ms"].is_u64() && last["task_id"] == 5);
    let first = to_value(&told[0]).unwrap();
    assert!(first["status"].is_null() && first["ran_us"].is_null());
    assert_eq!(events.missed(), 0);
}

#[test]
fn under_load_a_sample_is_told_and_soon_the_next() {
    let mill = Mill::start(small());
    let events = mill.handle.events(10_000);
    for number in 0..500 {
        ended(&mill.submit(&format!(r#"{{"handler":"echo","task_id":{number}}}"#)));
    }
    until("the sample of a later round", || {
        ended(&mill.submit(r#"{"handler":"echo","args":{"late":true}}"#));
        tasks(&events).iter().any(|news| matches!(news.task_id, TaskId::Assigned(_)))
    });
    assert_eq!(events.missed(), 0, "what is not in the sample was not missed");
}

#[test]
fn a_listener_that_does_not_read_misses_events_and_holds_up_nobody() {
    let mill = awake();
    let (slow, quick) = (mill.handle.events(3), mill.handle.events(1000));
    for _ in 0..5 {
        ended(&mill.submit(r#"{"handler":"echo"}"#));
    }
    let all = tasks(&quick).len();
    assert!(all > 3, "{all}");
    assert_eq!(slow.missed() as usize, all - tasks(&slow).len());
    drop((slow, quick));
    ended(&mill.submit(r#"{"handler":"echo"}"#));
    until("nobody listens, and no round is planned", || mill.handle.stats().timers <= 1);
    mill.settle();
}

#[test]
fn whoever_waits_is_woken_by_the_first_event_and_by_the_end() {
    let mut mill = awake();
    let events = mill.handle.events(100);
    let woken = Arc::new(AtomicUsize::new(0));
    let of_act = Arc::clone(&woken);
    events.on_news(Arc::new(move || {
        of_act.fetch_add(1, SeqCst);
    }));
    assert_eq!(woken.load(SeqCst), 0);
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    assert_eq!(woken.load(SeqCst), 1, "by the first of them, since then something waits");
    assert_eq!(tasks(&events).len(), 2);
    call.finish(Ok(json("1")));
    ended(&task);
    assert_eq!(woken.load(SeqCst), 2);
    let again = Arc::new(AtomicUsize::new(0));
    let of_act = Arc::clone(&again);
    events.on_news(Arc::new(move || {
        of_act.fetch_add(1, SeqCst);
    }));
    assert_eq!(again.load(SeqCst), 1, "at once, because something waits");
    assert_eq!(tasks(&events).len(), 1);
    drop(mill.service.take());
    assert!(again.load(SeqCst) >= 2);
    while events.recv_timeout(SOON).is_some() {}
    assert!(events.is_over());
    assert!(mill.handle.events(1).is_over(), "who comes late is not kept waiting");
}

#[test]
fn what_the_pool_does_is_told_as_a_kind_and_a_sentence() {
    let mut mill = Mill::start(small());
    let events = mill.handle.events(1000);
    let plugs = mill.plug();
    let refused =
        (0..200).filter(|_| mill.handle.submit(br#"{"handler":"echo"}"#, Submit::default()).is_err()).count();
    assert!(refused > 100, "{refused}");
    let deadline = Instant::now() + SOON;
    let news = loop {
        assert!(Instant::now() < deadline);
        // On a slow machine a worker may start only now.
        if let Some(ServiceEvent::Pool(news)) = events.recv_timeout(Duration::from_secs(1))
            && news.kind != "worker-started"
        {
            break news;
        }
    };
    assert_eq!(news.kind, "refused");
    assert!(news.text.starts_with("refused a task: "), "{}", news.text);
    mill.unplug();
    plugs.iter().for_each(|plug| assert!(ended(plug).result().is_ok()));
    drop(mill.service.take());
    let rest: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
    let kinds = |kind| {
        rest.iter().filter(|event| matches!(event, ServiceEvent::Pool(news) if news.kind == kind)).count()
    };
    assert!(kinds("refused") < 100, "of what comes in masses there is a sample");
    assert_eq!(kinds("worker-stopped"), 1, "what the pool said last is told, too");
}

#[test]
fn a_task_that_found_no_room_is_told_of_as_ended() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    let plugs = mill.plug();
    until("the queue is full", || mill.handle.submit(br#"{"handler":"echo"}"#, Submit::default()).is_err());
    let events = mill.handle.events(100);
    let refused = mill.refuse(r#"{"handler":"echo","task_id":77}"#);
    assert_eq!(refused.failure.code, ErrorCode::QueueFull, "{plugs:?}");
    let told = tasks(&events);
    assert!(told.iter().all(|news| news.task_id == TaskId::Number(77)));
    assert_eq!(told.last().map(|news| (news.stage, news.error)), Some((Stage::Ended, Some("queue-full"))));
}
