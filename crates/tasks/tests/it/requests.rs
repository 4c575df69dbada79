//! What a request may say, and that it is understood as it was meant.
//!
//! Each field is set alone and looked at, so that a field that is read into the wrong place shows.

use millpond::Priority;
use millpond_tasks::{Limits, Request, Target, TaskId};
use std::num::NonZeroU32;
use std::time::Duration;

fn parse(json: &str) -> Request {
    Request::parse(json.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// A request for `echo` with one more field.
fn with(field: &str) -> Request {
    parse(&format!(r#"{{"handler":"echo",{field}}}"#))
}

#[test]
fn a_request_that_says_nothing_more_gets_the_defaults() {
    let request = parse(r#"{"handler":"echo"}"#);
    assert_eq!(request.target, Target::Handler("echo".into()));
    assert_eq!(request.id, None);
    assert_eq!(request.args.get(), "{}");
    assert_eq!(request.priority, Priority::Normal);
    assert_eq!((request.timeout, request.delay, request.retries), (None, Duration::ZERO, 0));
    assert_eq!((request.affinity, request.idempotency_key, request.traceparent), (None, None, None));
}

#[test]
fn the_request_of_the_specification_is_read() {
    let request = parse(r#"{"opcode": 1, "task_id": 42, "args": {"url": "http://example.com"}}"#);
    assert_eq!(request.target, Target::Opcode(NonZeroU32::MIN));
    assert_eq!(request.id, Some(TaskId::Number(42)));
    assert_eq!(request.args.get(), r#"{"url": "http://example.com"}"#);
}

#[test]
fn every_field_arrives_where_it_belongs() {
    assert_eq!(with(r#""priority":"high""#).priority, Priority::High);
    assert_eq!(with(r#""priority":"low""#).priority, Priority::Low);
    assert_eq!(with(r#""priority":0"#).priority, Priority::Low);
    assert_eq!(with(r#""affinity":"user ü""#).affinity.as_deref(), Some("user ü"));
    assert_eq!(with(r#""timeout_ms":1500"#).timeout, Some(Duration::from_millis(1500)));
    assert_eq!(with(r#""delay_ms":20"#).delay, Duration::from_millis(20));
    assert_eq!(with(r#""retries":100"#).retries, 100);
    assert_eq!(with(r#""idempotency_key":"k-1""#).idempotency_key.as_deref(), Some("k-1"));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(with(&format!(r#""traceparent":"{trace}""#)).traceparent.as_deref(), Some(trace));
    let largest = parse(r#"{"opcode":4294967295}"#).target;
    assert_eq!(largest, Target::Opcode(NonZeroU32::MAX));
}

#[test]
fn an_id_keeps_its_kind_and_its_digits() {
    assert_eq!(with(r#""task_id":9007199254740993"#).id, Some(TaskId::Number(9_007_199_254_740_993)));
    assert_eq!(with(r#""task_id":18446744073709551615"#).id, Some(TaskId::Number(u64::MAX)));
    assert_eq!(with(r#""task_id":"17""#).id, Some(TaskId::Name("17".into())));
    assert_eq!(with(r#""task\u005fid":"\u0061""#).id, Some(TaskId::Name("a".into())), "escapes are read");
}

#[test]
fn null_is_the_same_as_leaving_a_field_out() {
    let names = ["task_id", "opcode", "args", "priority", "affinity", "timeout_ms", "delay_ms", "retries"];
    for name in
        names.into_iter().chain(["run_at", "expires_ms", "idempotency_key", "unique_key", "traceparent"])
    {
        assert_eq!(with(&format!("\"{name}\": null")).to_json(), r#"{"handler":"echo"}"#, "{name}");
    }
}

#[test]
fn arguments_stay_as_written_but_on_one_line() {
    let args = "{ \"n\": 1.50, \"big\": 123456789012345678901234567890,\t\"s\": \"\\u00fc\\n\" }";
    assert_eq!(with(&format!("\"args\": {args}")).args.get(), args);
    assert_eq!(with("\"args\": {\r\n\"a\":\n1}").args.get(), "{  \"a\": 1}");
    let same_name_elsewhere = r#"{"a":{"a":[{"a":1},{"a":2}]},"b":{"a":1}}"#;
    assert_eq!(with(&format!("\"args\":{same_name_elsewhere}")).args.get(), same_name_elsewhere);
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    let whole = concat!(
        r#"{"task_id":"a \"b\"","handler":"h.t-t_p0","args":{"x": [1,2]},"priority":"high","affinity":"k","#,
        r#""timeout_ms":1,"delay_ms":2,"expires_ms":4,"retries":3,"idempotency_key":"i","unique_key":"u","#,
        r#""traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#
    );
    assert_eq!(parse(whole).to_json(), whole);
    let planned = r#"{"handler":"echo","run_at":1767225600000}"#;
    assert_eq!(parse(planned).to_json(), planned);
    assert_eq!(parse(r#"{"handler":"echo","run_at":"2026-01-01T00:00:00Z"}"#).to_json(), planned);
    assert_eq!(parse(" {\"priority\":\"normal\",\n\"opcode\" : 7} \r\n").to_json(), r#"{"opcode":7}"#);
}

#[test]
fn what_lies_exactly_at_a_limit_is_accepted() {
    let text =
        br#"{"handler":"echo","args":{"k":[["12345678901"]]},"retries":2,"timeout_ms":9,"delay_ms":8}"#;
    let exact = Limits {
        request_bytes_max: text.len() as u64,
        depth_max: 4,
        string_bytes_max: 11,
        args_bytes_max: 23,
        timeout_ms_max: 9,
        delay_ms_max: 8,
        retries_max: 2,
        ..Limits::default()
    };
    Request::parse(text, &exact).unwrap();
    for smaller in [
        Limits { request_bytes_max: exact.request_bytes_max - 1, ..exact.clone() },
        Limits { depth_max: 3, ..exact.clone() },
        Limits { string_bytes_max: 10, ..exact.clone() },
        Limits { args_bytes_max: 22, ..exact.clone() },
        Limits { timeout_ms_max: 8, ..exact.clone() },
        Limits { delay_ms_max: 7, ..exact.clone() },
        Limits { retries_max: 1, ..exact.clone() },
    ] {
        Request::parse(text, &smaller).unwrap_err();
    }
}
