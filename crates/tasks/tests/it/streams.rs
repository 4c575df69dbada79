//! What a task says reaches every reader whole, in order and once, and a reader that is slow or gone harms
//! only itself.
//!
//! The stream is bounded, so something has to give way when a handler is faster than its readers: first the
//! handler waits, then, after `reader_wait`, the oldest goes and the reader is told so. Nothing else may be
//! lost, doubled or reordered, whoever comes, leaves and comes again.

use crate::toys::{
    Mill, NEVER, SOON, Scribe, ended, failed, failure, is_at, json, lines, partials, read_all, small, until,
};
use millpond_tasks::{
    Call, ErrorCode, Said, ServiceConfig, Stopped, Submit, Task, Wants, Watching, function,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

const HOLD: &str = r#"{"handler":"hold"}"#;

/// Four events at most, and a handler that waits for its readers for so long.
fn narrow(reader_wait: Duration) -> ServiceConfig {
    let mut config = small();
    config.stream.chunks_max = 4;
    config.stream.reader_wait = reader_wait;
    config
}

/// A service with the handler `count`, which says the numbers from 0 to below its argument `to`.
fn counting(config: ServiceConfig) -> Mill {
    let count = |call: &Call| {
        let args: serde_json::Value = call.read_args()?;
        for number in 0..args["to"].as_u64().unwrap() {
            call.partial(json(&number.to_string()))?;
        }
        Ok(json("\"counted\""))
    };
    Mill::start_with(config, |registry| registry.add("count", function(count)).unwrap())
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn watch(task: &Arc<Task>, from: u64) -> Watching {
    task.watch(Scribe::new().reader(0, Wants::Stream { from })).unwrap()
}

/// Reads until the task has ended and nothing more comes.
fn read_to_end(task: &Task, watching: &mut Watching) -> Vec<millpond_tasks::StreamEvent> {
    let mut events = Vec::new();
    until("the end of the stream", || {
        let is_over = task.is_ended();
        events.append(&mut read_all(watching));
        is_over
    });
    events
}

#[test]
fn events_are_numbered_from_zero_and_come_in_the_order_they_were_said() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    assert!(read_all(&mut watching).is_empty());
    call.partial(json("[1]")).unwrap();
    call.log("a \"line\"\nand half of one");
    call.progress(0.25);
    call.partial(json("null")).unwrap();
    let expected = [
        r#"{"offset":0,"attempt":1,"partial":[1]}"#,
        r#"{"offset":1,"attempt":1,"log":"a \"line\"\nand half of one"}"#,
        r#"{"offset":2,"attempt":1,"progress":0.25}"#,
        r#"{"offset":3,"attempt":1,"partial":null}"#,
    ];
    assert_eq!(lines(&read_all(&mut watching)), expected);
    assert_eq!(watching.next_offset(), 4);
    assert!(read_all(&mut watching).is_empty(), "nothing comes twice");
    assert_eq!(scribe.count(1), 4);
    call.finish(Ok(json("1")));
    ended(&task);
    mill.settle();
    assert_eq!((scribe.count(1), scribe.ends(1)), (5, 1));
    assert_eq!(lines(&read_all(&mut watch(&task, 0))), expected, "they stay with a kept outcome");
}

#[test]
fn one_who_wants_the_result_is_told_of_nothing_else() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let how = Submit { reader: Some(scribe.reader(1, Wants::Result)), keep: false, ..Submit::default() };
    let accepted = mill.handle.submit(HOLD.as_bytes(), how).unwrap();
    let call = mill.call();
    call.partial(json("1")).unwrap();
    call.log("2");
    call.progress(0.3);
    assert_eq!(scribe.count(1), 0);
    call.finish(Ok(json("1")));
    ended(&accepted.task);
    mill.settle();
    assert_eq!((scribe.count(1), scribe.ends(1)), (1, 1));
}

#[test]
fn a_reader_goes_on_where_it_or_another_stopped() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    for number in 0..6 {
        call.partial(json(&number.to_string())).unwrap();
    }
    let mut events = Vec::new();
    assert!(watching.read(1, &mut events), "one at least, and there is more");
    assert!(watching.read(1, &mut events));
    assert_eq!((partials(&events), watching.next_offset()), (numbers(0..2), 2));
    drop(watching);
    call.partial(json("6")).unwrap();
    let mut again = watch(&task, 2);
    assert_eq!(partials(&read_all(&mut again)), numbers(2..7));
    call.finish(Ok(json("1")));
    assert_eq!(partials(&read_to_end(&task, &mut watch(&task, 5))), numbers(5..7), "also after the end");
    assert!(read_all(&mut watch(&task, 7)).is_empty());
}

#[test]
fn an_offset_from_the_future_is_told_what_comes_next() {
    let mill = Mill::start(small());
    let task = mill.submit(HOLD);
    let call = mill.call();
    call.partial(json("0")).unwrap();
    for from in [2, u64::MAX] {
        let mut early = watch(&task, from);
        assert!(read_all(&mut early).is_empty());
        let next = task.status().events;
        call.partial(json("1")).unwrap();
        let events = read_all(&mut early);
        assert_eq!(events.len(), 1, "{from}");
        assert_eq!((events[0].offset, early.next_offset()), (next, next + 1));
    }
}

#[test]
fn a_stream_that_nobody_reads_never_waits_and_keeps_the_newest() {
    let mill = counting(narrow(NEVER));
    let task = mill.submit(r#"{"handler":"count","args":{"to":5000}}"#);
    assert_eq!(ended(&task).status(), 0);
    let events = read_all(&mut watch(&task, 0));
    assert_eq!(lines(&events[..1]), [r#"{"offset":4996,"attempt":1,"missed":4996}"#]);
    assert_eq!(partials(&events), numbers(4996..5000));
    let events = read_all(&mut watch(&task, 4990));
    assert!(matches!(events[0].what, Said::Missed(6)), "{events:?}");
    mill.settle();
}

#[test]
fn a_slow_reader_holds_back_its_handler_and_nobody_else() {
    let mill = counting(narrow(NEVER));
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(r#"{"handler":"count","args":{"to":100}}"#, &scribe, 1);
    let mut events = Vec::new();
    for read in 0..100 {
        until("there is something to read", || task.status().events > read);
        assert!(task.status().events <= read + 4, "it runs ahead of its reader");
        if read % 10 == 0 {
            until("the stream is full", || task.status().events == (read + 4).min(100));
            let other = mill.submit(r#"{"handler":"echo"}"#);
            assert_eq!(ended(&other).status(), 0, "the only worker is not kept");
        }
        watching.read(1, &mut events);
    }
    assert_eq!(partials(&events), numbers(0..100));
    assert_eq!(ended(&task).status(), 0);
    mill.settle();
}

#[test]
fn every_reader_hears_everything_and_the_slowest_sets_the_pace() {
    let mill = counting(narrow(NEVER));
    let scribe = Scribe::new();
    let (task, first) =
        mill.submit_read(r#"{"handler":"count","args":{"to":5000},"delay_ms":1}"#, &scribe, 0);
    let mut readers = vec![first];
    for tag in 1..5 {
        readers.push(task.watch(scribe.reader(tag, Wants::Stream { from: 0 })).unwrap());
    }
    thread::scope(|scope| {
        for (number, mut watching) in readers.into_iter().enumerate() {
            let task = &task;
            scope.spawn(move || {
                let mut events = Vec::new();
                while partials(&events).len() < 5000 {
                    let mut some = Vec::new();
                    watching.read(1 + 200 * number, &mut some);
                    if some.is_empty() {
                        thread::yield_now();
                    }
                    events.append(&mut some);
                    if events.len() % 1000 == 999 {
                        // Leaves and comes again.
                        let next = watching.next_offset();
                        watching = watch(task, next);
                    }
                    if task.is_ended() && read_is_over(&watching, task) {
                        break;
                    }
                }
                assert_eq!(partials(&events), numbers(0..5000), "reader {number}");
                assert!(events.iter().zip(0..).all(|(event, offset)| event.offset == offset));
            });
        }
    });
    assert_eq!(ended(&task).status(), 0);
    mill.settle();
}

fn read_is_over(watching: &Watching, task: &Task) -> bool {
    watching.next_offset() >= task.status().events
}

#[test]
fn a_reader_that_leaves_is_waited_for_only_so_long() {
    let mill = counting(narrow(Duration::from_millis(5)));
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(r#"{"handler":"count","args":{"to":50}}"#, &scribe, 1);
    until("the stream has begun", || task.status().events > 0);
    let mut events = Vec::new();
    watching.read(1, &mut events);
    drop(watching);
    assert_eq!(ended(&task).status(), 0);
    let next = events.last().unwrap().offset + 1;
    let rest = read_all(&mut watch(&task, next));
    let Said::Missed(missed) = rest[0].what else { panic!("50 do not fit into 4: {rest:?}") };
    assert_eq!(partials(&rest), numbers(next + missed..50));
}

#[test]
fn a_reader_that_comes_back_in_time_misses_nothing() {
    let mill = counting(narrow(NEVER));
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(r#"{"handler":"count","args":{"to":300}}"#, &scribe, 1);
    let mut events = Vec::new();
    while events.len() < 300 {
        until("there is something to read", || task.status().events > watching.next_offset());
        watching.read(1, &mut events);
        let next = watching.next_offset();
        drop(watching);
        watching = watch(&task, next);
    }
    assert_eq!(partials(&events), numbers(0..300));
    assert_eq!(ended(&task).status(), 0);
}

#[test]
fn a_reader_that_stands_still_does_not_slow_the_task_for_ever() {
    // Were every partial result to wait for the reader that does not read, this would take five minutes.
    let mill = Mill::start(narrow(Duration::from_millis(300)));
    let scribe = Scribe::new();
    let (task, mut idle) = mill.submit_read(HOLD, &scribe, 1);
    let mut busy = watch(&task, 0);
    let call = mill.call();
    let says = thread::spawn(move || {
        let mut events = Vec::new();
        for number in 0..1000 {
            call.partial(json(&number.to_string()))?;
            events.append(&mut read_all(&mut busy));
        }
        call.finish(Ok(json("1")));
        Ok::<_, Stopped>(events)
    });
    assert_eq!(ended(&task).status(), 0);
    assert_eq!(partials(&says.join().unwrap().unwrap()), numbers(0..1000), "one who reads misses nothing");
    let late = read_all(&mut idle);
    assert!(matches!(late[0].what, Said::Missed(996)), "{late:?}");
    assert_eq!(partials(&late), numbers(996..1000));
}

#[test]
fn a_handler_that_waits_for_room_is_released_by_a_cancel_and_by_the_clock() {
    let mill = Mill::start(narrow(NEVER));
    let scribe = Scribe::new();
    for (request, code) in [
        (r#"{"handler":"hold"}"#, ErrorCode::Cancelled),
        (r#"{"handler":"hold","timeout_ms":50}"#, ErrorCode::TimedOut),
    ] {
        let (task, _watching) = mill.submit_read(request, &scribe, 1);
        let call = mill.call();
        let says = thread::spawn(move || {
            let answers: Vec<_> = (0..6).map(|_| call.partial(json("0"))).collect();
            answers.into_iter().filter(|answer| *answer == Err(Stopped::Over)).count()
        });
        if code == ErrorCode::Cancelled {
            until("the stream is full", || task.status().events == 4);
            mill.handle.cancel(task.id()).unwrap();
        }
        assert_eq!(failed(&task).code, code);
        assert!(says.join().unwrap() >= 2);
        assert!(task.status().events <= 4);
    }
    mill.settle();
}

#[test]
fn only_so_many_may_read_along_and_a_place_is_free_again_when_one_leaves() {
    let mut config = small();
    config.stream.readers_max = 2;
    let mill = Mill::start(config);
    let scribe = Scribe::new();
    let (task, owner) = mill.submit_read(HOLD, &scribe, 0);
    let second = task.watch(scribe.reader(1, Wants::Result)).unwrap();
    let refused = task.watch(scribe.reader(2, Wants::Stream { from: 0 })).unwrap_err();
    assert_eq!(refused.code, ErrorCode::QueueFull);
    assert!(refused.message.contains("stream.readers_max"), "{refused}");
    drop(second);
    let third = task.watch(scribe.reader(3, Wants::Stream { from: 0 })).unwrap();
    mill.call().finish(Ok(json("1")));
    ended(&task);
    mill.settle();
    assert_eq!([0, 1, 2, 3].map(|tag| scribe.ends(tag)), [1, 0, 0, 1]);
    for _ in 0..9 {
        task.watch(scribe.reader(4, Wants::Result)).expect("an end may be looked at by anybody");
    }
    drop((owner, third, task));
    assert_eq!(scribe.ends(4), 9);
}

#[test]
fn a_partial_result_that_is_too_large_is_handed_back_and_the_task_goes_on() {
    let mut config = small();
    config.stream.chunk_bytes_max = 10;
    let mill = Mill::start(config);
    let task = mill.submit(HOLD);
    let call = mill.call();
    call.partial(json("\"12345678\"")).unwrap();
    let Err(Stopped::TooLarge(failure)) = call.partial(json("\"123456789\"")) else {
        panic!("it is too large")
    };
    assert_eq!(failure.code, ErrorCode::TooLarge);
    assert!(failure.message.contains("at most 10 bytes, got 11"), "{failure}");
    call.partial(json("2")).unwrap();
    call.finish(Ok(json("1")));
    assert_eq!(ended(&task).status(), 0);
    assert_eq!(partials(&read_all(&mut watch(&task, 0))), ["\"12345678\"", "2"]);
}

#[test]
fn an_event_that_is_larger_than_the_stream_still_gets_through() {
    let mut config = small();
    config.stream.bytes_max = 1;
    config.stream.reader_wait = NEVER;
    let mill = counting(config);
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(r#"{"handler":"count","args":{"to":20}}"#, &scribe, 1);
    assert_eq!(partials(&read_to_end(&task, &mut watching)), numbers(0..20));
}

#[test]
fn progress_that_nobody_has_seen_makes_way_for_the_latest() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    for step in 0..=10_000 {
        call.progress(f64::from(step) / 10_000.0);
    }
    assert_eq!(lines(&read_all(&mut watching)), [r#"{"offset":0,"attempt":1,"progress":1}"#]);
    call.progress(0.5);
    assert_eq!(lines(&read_all(&mut watching)), [r#"{"offset":1,"attempt":1,"progress":0.5}"#]);
    for (said, heard) in [(-1.0, 0.0), (2.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0)] {
        call.progress(said);
        assert_eq!(task.status().progress, Some(heard), "{said}");
    }
}

#[test]
fn a_reader_hears_the_latest_progress_also_if_another_is_slower() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (task, mut slow) = mill.submit_read(HOLD, &scribe, 1);
    let mut fast = watch(&task, 0);
    let call = mill.call();
    call.progress(0.25);
    assert_eq!(read_all(&mut fast).len(), 1);
    call.progress(0.5);
    assert!(lines(&read_all(&mut fast)).last().unwrap().ends_with("\"progress\":0.5}"));
    assert!(lines(&read_all(&mut slow)).last().unwrap().ends_with("\"progress\":0.5}"));
}

#[test]
fn progress_does_not_push_partial_results_out_while_nobody_reads() {
    let mill = Mill::start(narrow(NEVER));
    let task = mill.submit(HOLD);
    let call = mill.call();
    call.partial(json("0")).unwrap();
    for step in 0..1000 {
        call.progress(f64::from(step) / 1000.0);
    }
    let events = read_all(&mut watch(&task, 0));
    assert_eq!(partials(&events), ["0"], "{events:?}");
    assert_eq!(lines(&events[1..]), [r#"{"offset":1,"attempt":1,"progress":0.999}"#]);
}

#[test]
fn progress_and_log_lines_never_wait_and_never_take_from_a_reader() {
    let mill = Mill::start(narrow(NEVER));
    let scribe = Scribe::new();
    let (_task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    for number in 0..4 {
        call.partial(json(&number.to_string())).unwrap();
    }
    for _ in 0..100 {
        call.log("no room for this");
        call.progress(0.5);
    }
    let events = read_all(&mut watching);
    assert_eq!((partials(&events), events.len()), (numbers(0..4), 4));
    call.log("now there is");
    assert_eq!(read_all(&mut watching).len(), 1);
}

#[test]
fn a_long_line_is_cut_between_characters() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (_task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    call.log(&"€".repeat(10_000));
    let events = read_all(&mut watching);
    let Said::Log(line) = &events[0].what else { panic!("{events:?}") };
    assert!(line.len() > 4000 && line.len() <= 4096 && line.chars().all(|letter| letter == '€'));
}

#[test]
fn the_stream_goes_on_over_attempts_and_says_which_one_spoke() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(r#"{"handler":"hold","retries":1}"#, &scribe, 1);
    let first = mill.call();
    first.partial(json("1")).unwrap();
    first.progress(0.75);
    first.finish(Err(failure(ErrorCode::HandlerError)));
    let second = mill.call();
    second.progress(0.25);
    second.partial(json("2")).unwrap();
    second.finish(Ok(json("0")));
    let expected = [
        r#"{"offset":0,"attempt":1,"partial":1}"#,
        r#"{"offset":1,"attempt":1,"progress":0.75}"#,
        r#"{"offset":2,"attempt":2,"progress":0.25}"#,
        r#"{"offset":3,"attempt":2,"partial":2}"#,
    ];
    assert_eq!(lines(&read_to_end(&task, &mut watching)), expected);
    mill.settle();
    assert_eq!(scribe.ends(1), 1);
}

#[test]
fn an_outcome_whose_reader_left_is_kept_although_nobody_asked_for_that() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let submit = || {
        let how = Submit { reader: Some(scribe.reader(1, Wants::Result)), keep: false, ..Submit::default() };
        mill.handle.submit(HOLD.as_bytes(), how).unwrap()
    };
    let (left, stayed) = (submit(), submit());
    drop(left.watching);
    mill.call().finish(Ok(json("1")));
    mill.call().finish(Ok(json("2")));
    ended(&left.task);
    ended(&stayed.task);
    mill.settle();
    assert!(mill.handle.get(left.task.id()).is_ok());
    assert_eq!(mill.handle.get(stayed.task.id()).unwrap_err().code, ErrorCode::ResultGone);
    assert_eq!(scribe.ends(1), 1, "one who left is not told");
}

#[test]
fn readers_that_come_and_go_while_a_task_ends_are_told_of_the_end() {
    let mut config = small();
    config.pool.workers = 2;
    config.stream.readers_max = 1000;
    let mill = Mill::start(config);
    for _ in 0..200 {
        let task = mill.submit(r#"{"handler":"echo"}"#);
        let scribe = Scribe::new();
        let stayed: Vec<_> =
            (0..8).map(|tag| task.watch(scribe.reader(tag, Wants::Stream { from: 0 })).unwrap()).collect();
        ended(&task);
        mill.settle();
        assert!((0..8).all(|tag| scribe.ends(tag) == 1), "each once");
        drop(stayed);
        drop(task);
    }
}

#[test]
fn a_patience_without_end_is_a_patience_without_end() {
    let mill = Mill::start(narrow(Duration::MAX));
    let scribe = Scribe::new();
    let (task, mut watching) = mill.submit_read(HOLD, &scribe, 1);
    let call = mill.call();
    let is_done = Arc::new(AtomicBool::new(false));
    let of_thread = Arc::clone(&is_done);
    let says = thread::spawn(move || {
        for number in 0..5 {
            call.partial(json(&number.to_string())).unwrap();
        }
        of_thread.store(true, SeqCst);
        call.finish(Ok(json("1")));
    });
    until("the stream is full", || task.status().events == 4 && is_at(&task, "running"));
    assert!(!is_done.load(SeqCst));
    let mut events = Vec::new();
    watching.read(1, &mut events);
    says.join().unwrap();
    events.append(&mut read_all(&mut watching));
    assert_eq!(partials(&events), numbers(0..5));
    assert!(task.wait(SOON).is_some());
}
