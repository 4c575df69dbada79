//! What wpol promises to callers: the published bytes, clear refusals, and no trust in what others wrote.
//!
//! Regions outlive the code that wrote them and are shared with code we did not write. So the bytes are pinned by a
//! region written by hand, and everything in a region may be nonsense: whatever the bytes say, an operation answers,
//! soon, without a panic. Random tests print their seed and take it back in `MILLPOND_SEED`.
//!
//! Not here: killed processes (`torture.rs`), interleavings (the models beside the code).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod batches;
mod bytes;
mod dead;
mod hostile;
mod tasks;
mod threads;

use millpond_queue::wpol::v2::{Config, Identity, Peer, Region};
use millpond_queue::wpol::{Memory, Probe};
use std::sync::Arc;

struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let given = std::env::var("MILLPOND_SEED").ok();
        let seed = given.map_or_else(
            || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
            |text| text.parse().expect("MILLPOND_SEED: expected a whole number, not 0"),
        );
        println!("MILLPOND_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn blank(len: usize) -> Arc<Memory> {
    Arc::new(Memory::heap(len).unwrap())
}

/// A region of version 2 of which the test holds a second view, to look at its bytes and to spoil them.
fn probed(config: Config) -> (Region, Probe) {
    let memory = blank(config.bytes().unwrap());
    let region = Region::create(Arc::clone(&memory), config).unwrap();
    (region, Probe::version_2(memory, config).unwrap())
}

fn small(slots: u32) -> Config {
    Config { lanes: 3, lane_capacity: 64, slots, slot_stride: 128, attach_records: 4, segment: 9 }
}

fn region(config: Config) -> Region {
    Region::create(Memory::heap(config.bytes().unwrap()).unwrap(), config).unwrap()
}

fn peer(region: &Region) -> Peer {
    region.attach(Identity::default()).unwrap()
}

/// A peer that never leaves: as if its process had been killed.
fn killed(peer: Peer) -> u32 {
    let index = peer.index();
    std::mem::forget(peer);
    index
}

/// Where the records and the control blocks of `small` regions are.
fn record(index: usize) -> usize {
    0x100 + 4 * 0x180 + index * 64
}
