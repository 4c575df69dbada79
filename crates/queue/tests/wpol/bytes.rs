//! The bytes of both versions: the published ones as specified, and each version refuses the other's regions.
//!
//! A region may have been written by code we did not write, or by an older release of ours.
//!
//! Not here: bytes that are wrong on purpose (`hostile.rs`).

use crate::blank;
use millpond_queue::wpol::v1::{AllocateError, Entry, PushError, Queue, Task};
use millpond_queue::wpol::v2::{Config, Region};
use millpond_queue::wpol::{Memory, Probe, RegionError};
use std::sync::Arc;

/// A region of capacity 2, by hand: slot 1 is free, slot 0 is queued with priority 5 at position 0.
fn golden() -> Vec<u8> {
    let mut bytes = vec![0; 64 + 2 * 72];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"LOPW");
    put(4, &[1, 0, 0, 0]);
    put(8, &[0; 8]);
    put(16, &[1, 0, 0, 0, 0, 0, 0, 0]);
    put(24, &[2, 0, 0, 0]);
    put(28, &[1, 0, 0, 0]);
    put(32, &[1, 0, 0, 0]);
    put(40, &[80, 0, 0, 0]);
    put(48, &[1, 0, 0, 0, 0, 0, 0, 0]);
    put(64, &[0, 0, 0, 0, 5, 0, 0, 0]);
    // Slot 0: allocated, task 9, priority 5, time 7, method 3, one reference, payload.
    put(
        80,
        &[1, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0],
    );
    put(80 + 48, b"sixteen bytes ..");
    // Slot 1: free, the last of the list.
    put(144, &[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes
}

#[test]
fn a_region_written_by_hand_is_read_as_specified() {
    let memory = Arc::new(Memory::from_bytes(&golden()).unwrap());
    let queue = Queue::attach(Arc::clone(&memory)).unwrap();
    assert_eq!((queue.capacity(), queue.len(), queue.allocated()), (2, 1, 1));
    assert_eq!(queue.pop(), Ok(Entry { priority: 5, slot: 0 }));
    let task = queue.read_task(0).unwrap();
    let expected =
        Task { id: 9, priority: 5, timestamp: 7, method: 3, deadline: 0, payload: *b"sixteen bytes .." };
    assert_eq!(task, expected);
    assert_eq!(queue.allocate(), Ok(1));
    assert_eq!(queue.allocate(), Err(AllocateError::NoFreeSlot));
    assert_eq!(queue.release(0), Ok(true));
    // The published layout has no word for priority 0 with slot 0, and this region does not announce ours.
    assert_eq!(queue.push(Entry { priority: 0, slot: 0 }), Err(PushError::Unrepresentable));
    queue.push(Entry { priority: 0xA1B2_C3D4, slot: 1 }).unwrap();
    let after = Probe::version_1(memory, 2).unwrap().to_bytes();
    assert_eq!(after[8..24], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], "head and tail");
    assert_eq!(after[64..72], [0; 8], "the popped entry is cleared");
    assert_eq!(after[72..80], [1, 0, 0, 0, 0xD4, 0xC3, 0xB2, 0xA1], "the pushed entry");
    assert_eq!(after[48..56], [0, 0, 0, 0, 2, 0, 0, 0], "slot 0 is first in the list, after two changes");
    assert_eq!(after[80..88], [0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF], "slot 0 is free and the last");
}

#[test]
fn a_fresh_region_holds_exactly_the_specified_bytes() {
    let memory = Arc::new(Memory::from_bytes(&[0xEE; 208]).unwrap());
    Queue::create(Arc::clone(&memory), 2).unwrap();
    let mut expected = vec![0; 208];
    let mut put = |at: usize, value: u32| expected[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, 0x5750_4F4C);
    put(4, 1);
    put(24, 2);
    put(28, 1);
    put(36, 1 | 8);
    put(40, 80);
    put(80 + 4, 1);
    put(144 + 4, u32::MAX);
    assert_eq!(Probe::version_1(memory, 2).unwrap().to_bytes(), expected);
}

#[test]
fn creating_over_a_finished_region_attaches_and_wipes_nothing() {
    let memory = Arc::new(Memory::heap(Queue::bytes_for(4).unwrap()).unwrap());
    let first = Queue::create(Arc::clone(&memory), 4).unwrap();
    first.push(Entry { priority: 3, slot: 2 }).unwrap();
    let second = Queue::create(Arc::clone(&memory), 4).unwrap();
    assert_eq!(second.pop(), Ok(Entry { priority: 3, slot: 2 }));
    assert!(matches!(Queue::create(memory, 2), Err(RegionError::BadField { field: "capacity", .. })));
}

#[test]
fn every_bad_header_of_version_1_is_named() {
    let spoil = |at: usize, value: u32| {
        let mut bytes = golden();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Queue::attach(Memory::from_bytes(&bytes).unwrap()).unwrap_err()
    };
    assert_eq!(spoil(0, 0), RegionError::InvalidMagic { found: 0 });
    assert_eq!(spoil(4, 2), RegionError::VersionMismatch { expected: 1, found: 2 });
    for (at, value, name) in [
        (24, 0, "capacity"),
        (24, 3, "capacity"),
        (24, u32::MAX, "capacity"),
        (28, 3, "mask"),
        (40, 64, "slots base"),
        (36, 0x4000, "features"),
    ] {
        assert!(matches!(spoil(at, value), RegionError::BadField { field, .. } if field == name), "{name}");
    }
    let truncated = |len| Queue::attach(Memory::from_bytes(&golden()[..len]).unwrap()).unwrap_err();
    assert_eq!(truncated(200), RegionError::Truncated { expected: 208, found: 200 });
    assert_eq!(truncated(8), RegionError::Truncated { expected: 64, found: 8 });
    for capacity in [0, 3, 1 << 26, u32::MAX] {
        assert!(matches!(Queue::bytes_for(capacity), Err(RegionError::BadField { field: "capacity", .. })));
    }
}

#[test]
fn each_version_refuses_the_others_regions() {
    let config = Config { slots: 4, lane_capacity: 64, ..Config::default() };
    let memory = Arc::new(Memory::heap(config.bytes().unwrap()).unwrap());
    let region = Region::create(Arc::clone(&memory), config).unwrap();
    assert_eq!(
        Queue::attach(Arc::clone(&memory)).unwrap_err(),
        RegionError::VersionMismatch { expected: 1, found: 2 }
    );
    assert_eq!(Region::create(Arc::clone(&memory), config).unwrap_err(), RegionError::AlreadyThere);
    assert_eq!(Region::open(memory).unwrap().config(), region.config());
    // What is the life word in version 2 is an entry in version 1, and may hold anything.
    let other = blank(1 << 17);
    let queue = Queue::create(Arc::clone(&other), 64).unwrap();
    let refusal = RegionError::VersionMismatch { expected: 2, found: 1 };
    for slot in [None, Some(0), Some(1), Some(2), Some(3)] {
        if let Some(slot) = slot {
            queue.push(Entry { priority: 5, slot }).unwrap();
        }
        assert_eq!(Region::open(Arc::clone(&other)).unwrap_err(), refusal);
        assert_eq!(Region::create(Arc::clone(&other), config).unwrap_err(), refusal);
        assert_eq!(queue.pop().ok().map(|entry| entry.slot), slot);
    }
}
