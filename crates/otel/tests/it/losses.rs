//! A collector that is slow, full, wrong or gone costs spans and never a task; and every span is accounted
//! for.
//!
//! Whoever watches a daemon must not be able to slow it down by being slow.

use crate::daemon::{Daemon, at_once};
use crate::receiver::{Collector, SOON, Say, hold};
use millpond_tasks::config::TraceSettings;
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn a_collector_that_does_not_answer_costs_spans_and_no_task() {
    let (answer, release) = hold();
    let collector = Collector::start([answer]);
    let settings = TraceSettings { queue_max: 4, ..at_once(collector.endpoint()) };
    let daemon = Daemon::start(&settings);
    daemon.run(r#"{"handler":"echo"}"#);
    assert_eq!(collector.next().spans.len(), 2, "the first batch is under way, and stays there");
    for _ in 0..50 {
        daemon.run(r#"{"handler":"echo"}"#);
    }
    // Tasks are waited for until their end; that the tracer was told of it may take a moment more.
    until(|| daemon.stats().dropped >= 2 * (50 - 4));
    let stats = daemon.stats();
    assert_eq!((stats.queued, stats.queue_max, stats.dropped, stats.exported), (4, 4, 92, 0));
    drop(release);
    let stats = daemon.end(SOON);
    assert_eq!((stats.queued, stats.exported, stats.dropped, stats.failed), (0, 10, 92, 0));
    assert_eq!(collector.rest().iter().map(|got| got.spans.len()).sum::<usize>(), 8);
}

#[test]
fn whoever_says_not_now_is_asked_again() {
    let collector = Collector::start([
        Say::Status(503, "Retry-After: 0"),
        Say::Status(429, "Retry-After: 0"),
        Say::Status(502, "Retry-After: 0"),
    ]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    let tries = [collector.next(), collector.next(), collector.next(), collector.next()];
    assert!(tries.windows(2).all(|two| two[0].spans == two[1].spans), "the same spans each time");
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.failed), (2, 0));
}

#[test]
fn whoever_says_not_now_for_ever_is_given_up() {
    let collector = Collector::start(vec![Say::Status(504, "Retry-After: 0"); 5]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    until(|| daemon.stats().failed == 2);
    assert_eq!(collector.rest().len(), 5);
    daemon.run(r#"{"handler":"echo"}"#);
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.failed), (2, 2), "the next batch is tried afresh");
}

#[test]
fn whoever_says_no_is_not_asked_again() {
    let collector = Collector::start([Say::Status(400, "X-Is: no")]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    until(|| daemon.stats().failed == 2);
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.failed), (0, 2));
    assert_eq!(collector.rest().len(), 1);
}

#[test]
fn spans_that_are_rejected_are_not_counted_as_exported() {
    let collector = Collector::start([Say::Partly(1)]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.failed), (1, 1));
}

#[test]
fn a_collector_that_is_gone_costs_nothing_but_spans() {
    // Taken and given back: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = TraceSettings { batch_max: 100, ..at_once(format!("http://{address}")) };
    let daemon = Daemon::start(&settings);
    for _ in 0..3 {
        daemon.run(r#"{"handler":"echo"}"#);
    }
    let stats = daemon.end(SOON);
    assert_eq!((stats.queued, stats.exported, stats.dropped, stats.failed), (0, 0, 0, 6));
}

#[test]
fn what_waits_is_sent_at_the_end_in_batches() {
    let collector = Collector::start([]);
    let settings = TraceSettings { batch_max: 4, queue_max: 64, ..at_once(collector.endpoint()) };
    let daemon = Daemon::start(&settings);
    for _ in 0..11 {
        daemon.run(r#"{"handler":"echo"}"#);
    }
    let stats = daemon.end(SOON);
    assert_eq!((stats.exported, stats.dropped, stats.failed), (22, 0, 0));
    let sizes: Vec<_> = collector.rest().iter().map(|got| got.spans.len()).collect();
    assert!(sizes.iter().all(|size| *size <= 8), "four tasks at once: {sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 22);
}

#[test]
fn the_end_does_not_wait_for_a_collector_that_does_not_answer() {
    let (answer, release) = hold();
    let collector = Collector::start([answer]);
    let daemon = Daemon::start(&at_once(collector.endpoint()));
    daemon.run(r#"{"handler":"echo"}"#);
    collector.next();
    let stats = daemon.end(Duration::from_millis(1));
    assert_eq!(stats.exported, 0, "it is still under way");
    drop(release);
}

/// Waits for a condition; a minute without it is a failure.
fn until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + SOON;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it did not happen within a minute");
        std::thread::yield_now();
    }
}
