//! Quick handlers: answered on the thread that asks, and counted as if they had been tasks.
//!
//! A door that answers on the spot goes past queue and list, so nothing else would notice if an answer were
//! counted twice, or a panic got out.

use crate::toys::{Mill, ended, failed, failure, json, panic_quietly, small};
use millpond_tasks::config::{ConfigSources, load};
use millpond_tasks::{
    DoorName, ErrorCode, Limits, Log, Registry, RegistryError, Request, Service, ServiceConfig,
    ServiceHandle, Stats, Task, TaskFailure, Tracer, function, quick,
};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn append(out: &mut Vec<u8>, text: &[u8]) -> Result<(), TaskFailure> {
    out.extend_from_slice(text);
    Ok(())
}

/// As the quick answers of [`mill`] behave.
fn work(args: &RawValue, out: &mut Vec<u8>) -> Result<(), TaskFailure> {
    match args.get() {
        "\"panic\"" | "{\"do\":\"panic\"}" => {
            out.extend_from_slice(b"half of an ans");
            panic_quietly("it was asked to")
        }
        "\"fail\"" => {
            out.extend_from_slice(b"half of an ans");
            Err(failure(ErrorCode::BadArguments))
        }
        "\"large\"" => {
            out.resize(out.len() + 1000, b'1');
            Ok(())
        }
        other => {
            out.extend_from_slice(other.len().to_string().as_bytes());
            Ok(())
        }
    }
}

/// `size` is quick; what it is asked for says how it ends. Results have at most 999 bytes.
fn mill() -> Mill {
    let mut config = small();
    config.results.result_bytes_max = 999;
    Mill::start_with(config, |registry| registry.add("size", quick(work)).unwrap())
}

fn answer(handle: &ServiceHandle, args: &str, door: DoorName) -> (Option<Result<(), TaskFailure>>, String) {
    let number = handle.handler_number("size").unwrap();
    let mut out = b"before:".to_vec();
    let answered = handle.answer_quick(number, &json(args), door, Duration::from_micros(3), &mut out);
    (answered, String::from_utf8(out).unwrap())
}

fn counts(stats: &Stats, handler: &str) -> (u64, u64, u64) {
    let of = &stats.handlers[handler];
    (of.accepted, of.succeeded, of.failed)
}

#[test]
fn an_answer_on_the_spot_is_counted_as_a_task_of_its_door_and_handler() {
    let mill = mill();
    for _ in 0..3 {
        assert_eq!(answer(&mill.handle, "[1,2]", DoorName::Memory), (Some(Ok(())), "before:5".to_owned()));
    }
    answer(&mill.handle, "\"fail\"", DoorName::Control).0.unwrap().unwrap_err();
    ended(&mill.submit(r#"{"handler":"size","args":{}}"#));
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.succeeded, stats.failed["bad-arguments"]), (5, 4, 1));
    assert_eq!((stats.doors["memory"], stats.doors["control"], stats.doors["library"]), (3, 1, 1));
    assert_eq!(counts(&stats, "size"), (5, 4, 1));
    assert_eq!(stats.results.kept, 1, "an answer on the spot is not kept");
}

#[test]
fn whatever_goes_wrong_costs_one_answer_and_leaves_nothing_behind() {
    let mill = mill();
    let wrong = |args| {
        let (answered, out) = answer(&mill.handle, args, DoorName::Memory);
        assert_eq!(out, "before:", "{args}");
        answered.unwrap().unwrap_err()
    };
    let crashed = wrong("\"panic\"");
    assert_eq!(crashed.code, ErrorCode::HandlerCrashed);
    assert_eq!(crashed.message, "the handler panicked: it was asked to");
    assert_eq!(wrong("\"fail\""), failure(ErrorCode::BadArguments));
    let large = wrong("\"large\"");
    assert_eq!(large.code, ErrorCode::TooLarge);
    assert!(large.message.starts_with("expected a result of at most 999 bytes, got 1000;"), "{large}");
    assert_eq!(answer(&mill.handle, "{}", DoorName::Memory), (Some(Ok(())), "before:2".to_owned()));
    let stats = mill.settle();
    assert_eq!(counts(&stats, "size"), (4, 1, 3));
    let failed: Vec<_> = stats.failed.into_iter().collect();
    assert_eq!(failed, [("bad-arguments", 1), ("handler-crashed", 1), ("too-large", 1)]);
}

#[test]
fn the_same_function_serves_tasks() {
    let mill = mill();
    let task = mill.submit(r#"{"handler":"size","args":{"a":1},"task_id":5}"#);
    assert_eq!(ended(&task).result().unwrap().get(), "7");
    let task = mill.submit(r#"{"handler":"size","args":{"do":"panic"}}"#);
    assert_eq!(failed(&task).message, "the handler panicked: it was asked to");
    let mill = Mill::start_with(small(), |registry| {
        registry.add("nonsense", quick(|_, out| append(out, b"{"))).unwrap();
    });
    let task = mill.submit(r#"{"handler":"nonsense"}"#);
    assert_eq!(failed(&task).code, ErrorCode::HandlerCrashed);
    assert!(failed(&task).message.starts_with("expected JSON from the handler"), "{}", failed(&task));
}

#[test]
fn what_is_not_quick_or_not_there_is_not_answered_and_not_counted() {
    let mill = mill();
    let mut out = Vec::new();
    let echo = mill.handle.handler_number("echo").unwrap();
    for number in [echo, 6, 7, 5000, u32::MAX] {
        let answered =
            mill.handle.answer_quick(number, &json("{}"), DoorName::Memory, Duration::ZERO, &mut out);
        assert_eq!((answered, out.len()), (None, 0), "{number}");
    }
    assert_eq!(mill.settle().accepted, 0);
}

#[test]
fn while_the_service_ends_an_answer_is_refused() {
    let mill = mill();
    mill.service.as_ref().unwrap().drain(Duration::ZERO);
    let (answered, out) = answer(&mill.handle, "{}", DoorName::Memory);
    assert_eq!((answered.unwrap().unwrap_err().code, &*out), (ErrorCode::Draining, "before:"));
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.refused["draining"]), (0, 1));
}

#[test]
fn one_in_sixteen_is_timed_and_stands_for_all() {
    let mill = mill();
    for _ in 0..15 {
        answer(&mill.handle, "{}", DoorName::Memory).0.unwrap().unwrap();
    }
    let timed = || {
        let latency = mill.handle.latency(&[1, 5]);
        (latency.waited.count, latency.ran.count)
    };
    assert_eq!(timed(), (0, 0));
    for _ in 0..(16 * 4 - 15) {
        answer(&mill.handle, "{}", DoorName::Memory).0.unwrap().unwrap();
    }
    assert_eq!(timed(), (64, 64));
    assert_eq!(mill.handle.latency(&[1, 5]).waited.counts, [0, 64, 0], "each has waited 3 µs");
}

#[test]
fn threads_that_answer_at_once_lose_no_count() {
    const THREADS: u64 = 12;
    const EACH: u64 = 2000;
    let mill = mill();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let handle = mill.handle.clone();
            let door = if thread % 2 == 0 { DoorName::Memory } else { DoorName::Http };
            scope.spawn(move || {
                for round in 0..EACH {
                    let args = if round % 10 == 9 { "\"fail\"" } else { "{}" };
                    let _ = answer(&handle, args, door).0.unwrap();
                }
            });
        }
    });
    let stats = mill.settle();
    let all = THREADS * EACH;
    assert_eq!((stats.accepted, stats.succeeded), (all, all * 9 / 10));
    assert_eq!((stats.doors["memory"], stats.doors["http"]), (all / 2, all / 2));
    assert_eq!(counts(&stats, "size"), (all, all * 9 / 10, all / 10));
}

#[test]
fn a_request_that_wants_more_than_an_answer_is_a_task() {
    let mill = mill();
    let number = |fields: &str| {
        let text = format!(r#"{{"handler":"size"{fields}}}"#);
        mill.handle.quick_number(&Request::parse(text.as_bytes(), &Limits::default()).unwrap())
    };
    let size = mill.handle.handler_number("size");
    assert!(size.is_some());
    assert_eq!(number(""), size);
    assert_eq!(number(r#","args":{"a":[]},"priority":"high","delay_ms":0,"retries":0"#), size);
    let wishes = [
        r#""task_id":1"#,
        r#""delay_ms":1"#,
        r#""retries":1"#,
        r#""idempotency_key":"k""#,
        r#""timeout_ms":1000"#,
        r#""affinity":"k""#,
    ];
    for wish in wishes {
        assert_eq!(number(&format!(",{wish}")), None, "{wish}");
    }
    let parse = |text: &str| Request::parse(text.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(mill.handle.quick_number(&parse(r#"{"handler":"echo"}"#)), None, "it is no quick one here");
    assert_eq!(mill.handle.quick_number(&parse(r#"{"handler":"sise"}"#)), None);
    assert_eq!(mill.handle.quick_number(&parse(r#"{"handler":"handler_size"}"#)), size);
    assert_eq!(mill.handle.quick_number(&parse(r#"{"opcode":9}"#)), None);
}

struct Deaf;

impl Tracer for Deaf {
    fn wants(&self, _: Option<&str>) -> bool {
        false
    }

    fn ended(&self, _: &Arc<Task>) {}
}

#[test]
fn with_a_tracer_every_request_is_a_task() {
    let mill = mill();
    mill.service.as_ref().unwrap().set_tracer(Arc::new(Deaf));
    let request = Request::parse(br#"{"handler":"size"}"#, &Limits::default()).unwrap();
    assert_eq!(mill.handle.quick_number(&request), None);
}

#[test]
fn numbers_have_no_gaps_and_lead_back_to_the_names() {
    let mill = mill();
    let mut names: Vec<_> = (0..).map_while(|number| mill.handle.handler_name(number)).collect();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(mill.handle.handler_number(name), Some(number as u32));
    }
    names.sort_unstable();
    assert_eq!(names, mill.handle.handlers());
    assert_eq!(mill.handle.handler_number("handler_size"), mill.handle.handler_number("size"));
    assert_eq!((mill.handle.handler_number("none"), mill.handle.handler_name(u32::MAX)), (None, None));
}

#[test]
fn echo_is_quick() {
    let settings = load(&ConfigSources::default()).settings().unwrap();
    let service = Service::from_settings(&settings, Registry::new(), &Log::silent()).unwrap();
    let handle = service.handle();
    let number = handle.handler_number("echo").unwrap();
    let mut out = Vec::new();
    let args = json(r#"{"n": [1, 2]}"#);
    handle.answer_quick(number, &args, DoorName::Memory, Duration::ZERO, &mut out).unwrap().unwrap();
    assert_eq!(out, br#"{"n": [1, 2]}"#);
}

#[test]
fn a_handler_may_come_while_the_service_runs() {
    let mill = mill();
    let before = mill.handle.handlers().len() as u32;
    assert_eq!(mill.refuse(r#"{"handler":"late"}"#).failure.code, ErrorCode::UnknownHandler);
    mill.handle.add_handler("late", Box::new(function(|_| Ok(json("1"))))).unwrap();
    mill.handle.add_handler("later", Box::new(quick(work))).unwrap();
    assert_eq!(ended(&mill.submit(r#"{"handler":"late"}"#)).result().unwrap().get(), "1");
    assert_eq!(ended(&mill.submit(r#"{"handler":"handler_later"}"#)).result().unwrap().get(), "2");
    assert_eq!(
        (mill.handle.handler_number("late"), mill.handle.handler_name(before + 1)),
        (Some(before), Some("later"))
    );
    let mut out = Vec::new();
    mill.handle
        .answer_quick(before + 1, &json("{}"), DoorName::Memory, Duration::ZERO, &mut out)
        .unwrap()
        .unwrap();
    let stats = mill.settle();
    assert_eq!((counts(&stats, "late"), counts(&stats, "later"), stats.accepted), ((1, 1, 0), (2, 2, 0), 3));
    assert!(mill.handle.handlers().contains(&"late"));
    let add = |name: &str| mill.handle.add_handler(name, Box::new(quick(work)));
    for taken in ["late", "size"] {
        assert_eq!(add(taken), Err(RegistryError::NameTaken(taken.to_owned())));
    }
    assert_eq!(add("Late"), Err(RegistryError::BadName("Late".to_owned())));
    mill.service.as_ref().unwrap().drain(Duration::ZERO);
    assert_eq!(add("last"), Err(RegistryError::Ending("last".to_owned())));
}

#[test]
fn there_is_room_for_many_that_come_late_but_not_for_any_number() {
    let service =
        Service::start(ServiceConfig::default(), Registry::new(), millpond_tasks::Symbols::new()).unwrap();
    let add = |number| service.handle().add_handler(&format!("h{number}"), Box::new(quick(work)));
    assert_eq!((0..1024).find_map(|number| add(number).err()), None);
    assert_eq!(add(1024), Err(RegistryError::Full("h1024".to_owned())));
    assert_eq!(service.handle().handler_number("h1023"), Some(1023));
}
