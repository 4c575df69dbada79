//! The table of memory regions: names that are never cut or stolen, rights, bounds, and handles that stay
//! good.
//!
//! In the specification a task held a bare address, and whoever took the region away left it dangling. Here
//! memory lives as long as anybody holds it, and not a moment longer.

use crate::toys::{ended, json, small};
use millpond_tasks::symbols::{Access, HeapMemory, Memory, RegionUse, SYMBOL_BYTES_MAX, SymbolError};
use millpond_tasks::{Call, ErrorCode, Handler, Registry, Service, Submit, Symbols, TaskFailure};
use serde_json::value::RawValue;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

fn heap(len: usize) -> Arc<HeapMemory> {
    Arc::new(HeapMemory::new(len))
}

#[test]
fn a_name_is_taken_whole_or_not_at_all() {
    let symbols = Symbols::new();
    let longest = "n".repeat(SYMBOL_BYTES_MAX);
    symbols.register(&longest, heap(1), Access::Read).unwrap();
    let refused = |name: &str| symbols.register(name, heap(1), Access::Read).unwrap_err().to_string();
    assert_eq!(
        refused(&format!("{longest}x")),
        format!(
            "region \"{longest}\" and so on: expected a name of 1 to 64 bytes without control \
             characters, got 65 bytes"
        )
    );
    assert_eq!(
        refused(""),
        "region \"\": expected a name of 1 to 64 bytes without control characters, got 0 bytes"
    );
    assert_eq!(
        refused("a\nb"),
        "region \"a\\nb\": expected a name of 1 to 64 bytes without control characters, got 3 bytes"
    );
    assert_eq!(refused(&longest), format!("region \"{longest}\": the name is taken; unregister it first"));
    assert_eq!(symbols.len(), 1);
}

#[test]
fn a_full_table_says_so_and_has_room_again_after_one_is_gone() {
    let symbols = Symbols::with_regions_max(2);
    symbols.register("a", heap(1), Access::Read).unwrap();
    symbols.register("b", heap(1), Access::Read).unwrap();
    assert_eq!(
        symbols.register("c", heap(1), Access::Read),
        Err(SymbolError::Full { name: "\"c\"".to_owned(), regions_max: 2 })
    );
    symbols.unregister("a").unwrap();
    symbols.register("c", heap(1), Access::Read).unwrap();
    assert_eq!(symbols.unregister("a"), Err(SymbolError::Unknown { name: "\"a\"".to_owned() }));
}

#[test]
fn clones_are_one_table() {
    let symbols = Symbols::new();
    symbols.clone().register("a", heap(3), Access::ReadWrite).unwrap();
    assert_eq!(symbols.resolve("a", Access::Read).unwrap().len(), 3);
}

#[test]
fn rights_are_those_of_the_region_and_of_the_handle() {
    let symbols = Symbols::new();
    for (name, access) in [("r", Access::Read), ("w", Access::Write), ("rw", Access::ReadWrite)] {
        symbols.register(name, heap(4), access).unwrap();
    }
    let may = |name: &str, wanted| symbols.resolve(name, wanted).is_ok();
    let all = [Access::Read, Access::Write, Access::ReadWrite];
    assert_eq!(all.map(|wanted| may("r", wanted)), [true, false, false]);
    assert_eq!(all.map(|wanted| may("w", wanted)), [false, true, false]);
    assert_eq!(all.map(|wanted| may("rw", wanted)), [true, true, true]);
    let reader = symbols.resolve("rw", Access::Read).unwrap();
    assert_eq!(reader.access(), Access::Read);
    let refused = reader.write(0, b"x").unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotAllowed);
    assert_eq!(refused.message, "region \"rw\": it may only be read, and the task wants it written");
    reader.read(0, &mut [0; 4]).unwrap();
}

#[test]
fn bounds_hold_also_where_the_sum_would_overflow() {
    let symbols = Symbols::new();
    symbols.register("a", heap(4), Access::ReadWrite).unwrap();
    let region = symbols.resolve("a", Access::ReadWrite).unwrap();
    region.write(2, b"xy").unwrap();
    region.write(4, b"").unwrap();
    for (offset, length) in [(3, 2), (5, 0), (usize::MAX, 1), (usize::MAX, 2), (1, usize::MAX)] {
        let refused = region.check(Access::Read, offset, length).unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadArguments, "{offset} {length}");
    }
    assert!(region.write(usize::MAX, b"xy").is_err());
    assert!(region.read(3, &mut [0; 2]).is_err());
}

/// Tells when it is dropped.
struct Watched(HeapMemory, Arc<AtomicBool>);

impl Memory for Watched {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        self.0.read(offset, into);
    }

    fn write(&self, offset: usize, from: &[u8]) {
        self.0.write(offset, from);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.store(true, SeqCst);
    }
}

#[test]
fn memory_lives_as_long_as_somebody_holds_it() {
    let symbols = Symbols::new();
    let is_gone = Arc::new(AtomicBool::new(false));
    let memory = Arc::new(Watched(HeapMemory::new(4), Arc::clone(&is_gone)));
    symbols.register("a", memory, Access::ReadWrite).unwrap();
    let region = symbols.resolve("a", Access::ReadWrite).unwrap();
    let second = region.clone();
    symbols.unregister("a").unwrap();
    symbols.register("a", heap(1), Access::Read).unwrap();
    region.write(0, b"good").unwrap();
    drop(region);
    assert_eq!(second.len(), 4, "the old region, not the new one of its name");
    assert!(!is_gone.load(SeqCst));
    drop(second);
    assert!(is_gone.load(SeqCst));
}

#[test]
fn names_come_and_go_while_others_read_and_write() {
    let symbols = Symbols::with_regions_max(4);
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for byte in 0..2 {
            let (symbols, start) = (&symbols, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..2_000 {
                    let _ = symbols.register("shared", heap(64), Access::ReadWrite);
                    if let Ok(region) = symbols.resolve("shared", Access::ReadWrite) {
                        region.write(0, &[byte; 64]).unwrap();
                    }
                }
            });
        }
        let (symbols, start) = (&symbols, &start);
        scope.spawn(move || {
            start.wait();
            for _ in 0..2_000 {
                let _ = symbols.unregister("shared");
            }
        });
        scope.spawn(move || {
            start.wait();
            for _ in 0..2_000 {
                let Ok(region) = symbols.resolve("shared", Access::Read) else { continue };
                let mut bytes = [0; 64];
                region.read(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a write is seen whole: {bytes:?}");
            }
        });
    });
}

/// Writes to the region `r`.
struct Writer;

impl Handler for Writer {
    fn start(&self, call: Call) {
        let written = call.regions()[0].write(0, b"x");
        call.finish(written.map(|()| json("null")));
    }

    fn regions(&self, _: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        Ok(vec![RegionUse { name: "r".into(), access: Access::Write }])
    }
}

#[test]
fn a_task_that_has_ended_holds_no_memory_although_its_outcome_is_kept() {
    let mut registry = Registry::new();
    registry.add("write", Writer).unwrap();
    let symbols = Symbols::new();
    let memory = heap(1);
    symbols.register("r", Arc::clone(&memory) as Arc<dyn Memory>, Access::ReadWrite).unwrap();
    let service = Service::start(small(), registry, symbols.clone()).unwrap();
    let handle = service.handle();
    let submit = |text: &[u8]| handle.submit(text, Submit::default()).unwrap().task;
    let written = submit(br#"{"handler":"write"}"#);
    assert_eq!(ended(&written).result().unwrap().get(), "null");
    let cancelled = submit(br#"{"handler":"write","delay_ms":3600000}"#);
    symbols.unregister("r").unwrap();
    assert!(Arc::strong_count(&memory) > 1, "the task that waits holds it");
    handle.cancel(cancelled.id()).unwrap();
    assert_eq!(Arc::strong_count(&memory), 1);
    assert!(handle.get(written.id()).is_ok() && handle.get(cancelled.id()).is_ok(), "both are kept");
}
