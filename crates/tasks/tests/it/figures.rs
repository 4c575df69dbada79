//! Figures that a dashboard and an alarm are made of: what a worker does, what waits how long, who there is
//! to be asked.

use crate::toys::{Mill, ended, failure, small, until};
use millpond_tasks::config::{ConfigFile, ConfigSources, load};
use millpond_tasks::{ErrorCode, LATENCY_BOUNDS_US, Log, Registry, Service, Submit};
use serde_json::{Value, to_value};
use std::time::Duration;

#[test]
fn a_busy_worker_says_which_task_it_has_and_an_idle_one_none() {
    let mill = Mill::start(small());
    let plug = mill.plug().remove(0);
    let stats = to_value(mill.handle.stats()).unwrap();
    let worker = &stats["pool"]["workers"][0];
    assert_eq!((&worker["handler"], &worker["task_id"]), (&Value::from("plug"), &Value::from("t1")));
    assert_eq!((&worker["state"], &worker["is_busy"]), (&Value::from("busy"), &Value::from(true)));
    mill.unplug();
    ended(&plug);
    mill.settle();
    until("the worker has nothing to do", || mill.handle.pool_stats().workers[0].state == "ready");
    let worker = &to_value(mill.handle.pool_stats()).unwrap()["workers"][0];
    assert_eq!((&worker["handler"], &worker["task_id"]), (&Value::Null, &Value::Null));
    assert!(worker["run_total_us"].is_u64());
}

#[test]
fn a_worker_whose_task_was_cancelled_and_forgotten_is_busy_with_nothing() {
    let mill = Mill::start(small());
    let plug = mill.plug().remove(0);
    mill.handle.cancel(plug.id()).unwrap();
    mill.handle.take(plug.id()).unwrap();
    let worker = mill.handle.pool_stats().workers.remove(0);
    assert!(worker.is_busy && worker.task_id.is_none() && worker.handler.is_none());
}

#[test]
fn each_lane_says_how_many_wait_and_since_when_the_oldest_does() {
    let mill = Mill::start(small());
    for number in 0..200 {
        ended(&mill.submit(&format!(r#"{{"handler":"echo","task_id":{number}}}"#)));
    }
    let lanes = || mill.handle.pool_stats().lanes;
    assert!(lanes().iter().all(|lane| lane.queued == 0 && lane.oldest_ms.is_none()));
    let plugs = mill.plug();
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    let first = mill.submit(r#"{"handler":"echo","priority":"low"}"#);
    until("it has waited for a while", || first.status().age_us > 5_000);
    for _ in 0..3 {
        mill.submit(r#"{"handler":"echo","priority":"low"}"#);
    }
    mill.submit(r#"{"handler":"echo"}"#);
    let lanes = lanes();
    let seen: Vec<_> =
        lanes.iter().map(|lane| (lane.priority, lane.queued, lane.oldest_ms.is_some())).collect();
    assert_eq!(seen, [("high", 0, false), ("normal", 1, true), ("low", 4, true)], "{plugs:?}");
    assert!(lanes[2].oldest_ms >= Some(5) && lanes[2].oldest_ms > lanes[1].oldest_ms, "{lanes:?}");
    assert!(lanes.iter().all(|lane| lane.capacity == 64), "{lanes:?}");
    mill.handle.cancel(delayed.id()).unwrap();
    mill.unplug();
    mill.settle();
}

#[test]
fn times_are_counted_in_buckets_by_handler_and_together() {
    let mill = Mill::start(small());
    for _ in 0..5 {
        ended(&mill.submit(r#"{"handler":"echo"}"#));
    }
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    until("it has run for a while", || task.status().ran_us > Some(20_000));
    call.finish(Err(failure(ErrorCode::HandlerError)));
    mill.settle();
    let stats = mill.handle.stats();
    let (echo, hold) = (&stats.handlers["echo"].ran_buckets, &stats.handlers["hold"].ran_buckets);
    assert_eq!((echo.count, hold.count), (5, 1));
    assert_eq!(
        (echo.counts.len(), echo.bounds_us.as_slice()),
        (LATENCY_BOUNDS_US.len() + 1, LATENCY_BOUNDS_US)
    );
    assert!(hold.sum_us >= 20_000);
    let latency = mill.handle.latency(&[10_000]);
    assert_eq!((latency.ran.count, latency.waited.count), (6, 6));
    assert_eq!(latency.ran.counts.iter().sum::<u64>(), 6);
    assert!(latency.ran.counts[1] >= 1, "what took 20 ms is beyond the bound of 10");
}

fn service(file: &str) -> Service {
    let file = ConfigFile { name: "millpond.toml", bytes: file.as_bytes() };
    let loaded = load(&ConfigSources { file: Some(file), ..ConfigSources::default() });
    Service::from_settings(&loaded.settings().unwrap(), Registry::new(), &Log::silent()).unwrap()
}

#[test]
fn handlers_say_what_they_do_and_how_to_try_them() {
    let file = r#"
        [handler.shout]
        command = ["cat"]
        summary = "Says it louder."
        example = '{"text": "hi"}'
        [handler.quiet]
        command = ["cat"]
        [opcodes]
        3 = "shout"
        9 = "shout"
    "#;
    let service = service(file);
    let infos = to_value(service.handle().handler_infos()).unwrap();
    let by_name = |name: &str| infos.as_array().unwrap().iter().find(|info| info["name"] == name).unwrap();
    let shout = by_name("shout");
    assert_eq!((&shout["summary"], &shout["example"]["text"]), (&"Says it louder.".into(), &"hi".into()));
    assert_eq!((&shout["opcodes"], &shout["accepted"]), (&serde_json::json!([3, 9]), &0.into()));
    assert!(shout["own"]["processes"].is_u64());
    let quiet = by_name("quiet");
    assert_eq!(
        (&quiet["summary"], &quiet["example"], &quiet["opcodes"]),
        (&"".into(), &Value::Null, &serde_json::json!([]))
    );
    let names: Vec<_> = infos.as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.len() == 10, "{names:?}");
}

#[test]
fn the_example_of_every_builtin_handler_is_a_request_it_takes() {
    let service = service("[region.name]\nbytes = 64");
    for info in service.handle().handler_infos() {
        let example = info.example.unwrap_or_else(|| panic!("{} has no example", info.name));
        assert!(info.summary.ends_with('.'), "{}", info.name);
        let request = format!(r#"{{"handler":"{}","args":{example}}}"#, info.name);
        let task = service.handle().submit(request.as_bytes(), Submit::default()).unwrap().task;
        let outcome = task.wait(Duration::from_secs(60)).unwrap();
        // Files and network are closed until somebody opens them.
        let code = outcome.result().map_or_else(|failure| failure.code, |_| ErrorCode::Ok);
        let is_closed = info.name.starts_with("file_") || info.name.starts_with("http_");
        let expected = if is_closed { ErrorCode::NotAllowed } else { ErrorCode::Ok };
        assert_eq!(code, expected, "{}: {outcome:?}", info.name);
    }
}
