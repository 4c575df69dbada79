//! Reading and writing named regions: by the names of the specification, within bounds, with rights.
//!
//! A region may lose its name at any time. A task that was accepted before must not notice.

use super::{Daemon, error, outcome};
use millpond_tasks::config::{BuiltinSettings, StreamSettings};
use millpond_tasks::symbols::{Access, HeapMemory};
use millpond_tasks::{Submit, Symbols};
use serde_json::json;
use std::sync::Arc;

/// A service with regions: `buffer` for everything, `input` to read, `output` to write.
fn daemon() -> (Daemon, Arc<HeapMemory>) {
    let symbols = Symbols::new();
    let memory = Arc::new(HeapMemory::from(b"0123456789abcdef".to_vec()));
    for (name, access) in [("buffer", Access::ReadWrite), ("input", Access::Read), ("output", Access::Write)]
    {
        symbols.register(name, memory.clone(), access).unwrap();
    }
    symbols.register("huge", Arc::new(Huge), Access::Read).unwrap();
    (Daemon::with(&BuiltinSettings::default(), symbols, StreamSettings::default()), memory)
}

/// A region that is larger than an answer.
struct Huge;

impl millpond_tasks::symbols::Memory for Huge {
    fn len(&self) -> usize {
        1 << 40
    }

    fn read(&self, _: usize, into: &mut [u8]) {
        into.fill(b'x');
    }

    fn write(&self, _: usize, _: &[u8]) {}
}

#[test]
fn the_request_of_the_specification_writes() {
    let (daemon, memory) = daemon();
    let answer = daemon.run("write_memory", json!({ "write_to": "buffer", "data": "Hello, world!" }));
    assert_eq!(answer, json!({ "length": 13 }));
    assert_eq!(memory.to_vec(), b"Hello, world!def");
    assert_eq!(
        daemon.run("read_memory", json!({ "read_from": "buffer" })),
        json!({ "data": "Hello, world!def", "encoding": "utf8", "length": 16 })
    );
}

#[test]
fn parts_are_read_and_written_where_they_lie() {
    let (daemon, memory) = daemon();
    let read = |args| daemon.run("read_memory", args)["data"].as_str().unwrap().to_owned();
    assert_eq!(read(json!({ "region": "input", "offset": 10, "length": 3 })), "abc");
    assert_eq!(read(json!({ "region": "input", "offset": 14 })), "ef");
    assert_eq!(read(json!({ "region": "input", "offset": 16 })), "");
    assert_eq!(read(json!({ "region": "input", "length": 0 })), "");
    assert_eq!(read(json!({ "region": "input", "length": 2, "encoding": "base64" })), "MDE=");
    daemon.run(
        "write_memory",
        json!({ "region": "output", "data": "//79", "encoding": "base64", "offset": 13 }),
    );
    assert_eq!(memory.to_vec(), b"0123456789abc\xFF\xFE\xFD");
    assert_eq!(
        daemon.run("read_memory", json!({ "region": "input", "offset": 12 })),
        json!({ "data": "Y//+/Q==", "encoding": "base64", "length": 4 }),
        "what is no text is encoded"
    );
    daemon.run("write_memory", json!({ "region": "output", "data": "", "offset": 16 }));
}

#[test]
fn nothing_beyond_the_end_is_read_or_written() {
    let (daemon, memory) = daemon();
    let beyond = |length: &str, offset: &str| {
        error(
            "bad-arguments",
            format!(
                "region \"buffer\": expected a range within its 16 bytes, got {length} bytes from \
                 offset {offset} on"
            ),
        )
    };
    let read = |offset: u64, length: u64| {
        daemon.fail("read_memory", json!({ "region": "buffer", "offset": offset, "length": length }))
    };
    assert_eq!(read(0, 17), beyond("17", "0"));
    assert_eq!(read(16, 1), beyond("1", "16"));
    assert_eq!(read(i64::MAX as u64, i64::MAX as u64), beyond("9223372036854775807", "9223372036854775807"));
    assert_eq!(
        daemon.fail("read_memory", json!({ "region": "buffer", "offset": 17 })),
        beyond("0", "17"),
        "an offset past the end is no empty range"
    );
    assert_eq!(
        daemon.fail("write_memory", json!({ "region": "buffer", "data": "xy", "offset": 15 })),
        beyond("2", "15")
    );
    assert_eq!(memory.to_vec(), b"0123456789abcdef", "not even the part that would fit");
}

#[test]
fn a_name_or_a_right_that_is_missing_is_refused_before_the_task_is_queued() {
    let (daemon, memory) = daemon();
    let refused = |handler: &str, args: serde_json::Value| {
        let request = json!({ "handler": handler, "args": args }).to_string();
        let refused = daemon.service.handle().submit(request.as_bytes(), Submit::default()).unwrap_err();
        (refused.failure.code.number(), refused.failure.message)
    };
    assert_eq!(
        refused("read_memory", json!({ "region": "bufer" })),
        (-3, r#"unknown symbol: "bufer"; did you mean "buffer"?"#.to_owned())
    );
    assert_eq!(
        refused("read_memory", json!({ "region": "zzz" })),
        (-3, r#"unknown symbol: "zzz"; none of the 4 registered names is like it"#.to_owned())
    );
    assert_eq!(
        refused("write_memory", json!({ "write_to": "input", "data": "x" })),
        (-107, "region \"input\": it may only be read, and the task wants it written".to_owned())
    );
    assert_eq!(
        refused("read_memory", json!({ "read_from": "output" })),
        (-107, "region \"output\": it may only be written, and the task wants it read".to_owned())
    );
    assert_eq!(
        refused("write_memory", json!({ "read_from": "buffer", "data": "x" })).1,
        "args: write_memory has no argument \"read_from\"; expected are region, write_to, data, \
         offset, encoding"
    );
    assert_eq!(refused("read_memory", json!({})).1, "args: expected either region or read_from, got neither");
    assert_eq!(memory.to_vec(), b"0123456789abcdef");
}

#[test]
fn a_region_may_lose_its_name_while_a_task_waits_for_its_turn() {
    let (daemon, memory) = daemon();
    let handle = daemon.service.handle();
    let hold = daemon.submit(&json!({ "handler": "hold" }));
    daemon.held.recv().unwrap();
    let write =
        daemon.submit(&json!({ "handler": "write_memory", "args": { "region": "buffer", "data": "late" } }));
    handle.symbols().unregister("buffer").unwrap();
    daemon.let_go.send(()).unwrap();
    assert_eq!(outcome(&hold)["status"], 0);
    assert_eq!(outcome(&write)["result"], json!({ "length": 4 }));
    assert_eq!(memory.to_vec(), b"late456789abcdef");
}

#[test]
fn an_answer_has_a_limit() {
    let (daemon, _) = daemon();
    assert_eq!(
        daemon.fail("read_memory", json!({ "region": "huge" })),
        error(
            "too-large",
            "region \"huge\": 1099511627776 bytes, and at most 16777216 are allowed; ask for a part \
             with offset and length"
        )
    );
    let part = daemon.run("read_memory", json!({ "region": "huge", "offset": 1_u64 << 39, "length": 3 }));
    assert_eq!(part["data"], "xxx");
}
