//! A region of version 2 as a whole: built once, opened by many, closed, or given up as broken.
//!
//! ```text
//! life:  0 blank --CAS--> 1 building --> 2 ready --> 3 closed        any of them --> 4 poisoned
//! ```
//!
//! The CAS from blank decides between two creators, and `ready` comes last, so that whoever sees it sees the rest.
//! A peer takes an attach record: its number is the owner that slots name, and what a reaper asks about when it
//! wants to know who is dead. Poison is one way. It protects the honest from endless loops over nonsense, not
//! their data: two writers of one region can always destroy each other's work.
//!
//! Not here: offsets (`v2_geometry.rs`), what a peer does (`v2_peer.rs`), how its death is repaired
//! (`v2_reaper.rs`), where the memory comes from and whether a process lives (the shm crate).

use super::error::RegionError;
use super::layout::{self, v2_header as header};
use super::memory::Memory;
use super::v1::check_length;
use super::v2_geometry::{Config, Geometry, VERSION};
use super::v2_peer::Peer;
use super::v2_record::{Identity, Record};
use crate::edge::Edge;
use crate::sync::Ordering::Relaxed;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Carries the whole fresh region from its creator to everybody who opens it.
static WPOL2_READY: Edge = Edge::new("WPOL2_READY");

const BLANK: u32 = 0;
const BUILDING: u32 = 1;
const READY: u32 = 2;
const CLOSED: u32 = 3;
const POISONED: u32 = 4;

/// What every handle of this process shares: the memory and where things are in it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) memory: Arc<Memory>,
    pub(super) geometry: Geometry,
}

/// A region that tasks can be submitted to and taken from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) shared: Arc<Shared>,
}

/// Tasks a region holds, by what they are doing. Stale as soon as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Slots nobody uses.
    pub free: u32,
    /// Slots being filled.
    pub allocated: u32,
    /// Tasks waiting for a worker.
    pub queued: u32,
    /// Tasks being run.
    pub running: u32,
    /// Tasks that ended one way or another and wait to be fetched.
    pub ended: u32,
}

impl Region {
    /// Builds a region in blank memory: the life word must be 0, the rest is cleared here.
    ///
    /// A creator killed on the way leaves the life word at 1, "building", for good. Nobody can tell that from a
    /// slow one, so build in new memory then.
    pub fn create(memory: impl Into<Arc<Memory>>, config: Config) -> Result<Self, RegionError> {
        Self::create_at(memory, config, 0)
    }

    /// As `create`, with every ring at `position`, for tests of old age.
    #[doc(hidden)]
    pub fn create_at(
        memory: impl Into<Arc<Memory>>,
        config: Config,
        position: u64,
    ) -> Result<Self, RegionError> {
        let memory = memory.into();
        let geometry = Geometry::new(config)?;
        check_length(&memory, geometry.total as u64)?;
        check_version(&memory)?;
        let life = memory.u32_at(header::LIFE);
        // Nothing travels with the claim: the loser only learns that it lost.
        if life.compare_exchange(BLANK, BUILDING, Relaxed, Relaxed).is_err() {
            return Err(RegionError::AlreadyThere);
        }
        // Openers look at the header meanwhile, so it is cleared word by word, the magic number first.
        memory
            .clear(layout::words(&layout::V2_HEADER, 0, header::BYTES).filter(|(at, _)| *at != header::LIFE));
        memory.zero(header::BYTES, geometry.total);
        geometry.write(&memory);
        if position != 0 {
            geometry.rings().iter().for_each(|ring| ring.format(&memory, position));
        }
        for index in 0..config.slots {
            // The ring has at least twice as many places as there are slots.
            let _ = geometry.free_ring().push(&memory, index);
        }
        // WPOL2_READY, creator's end: everything above travels with the life word, and the version with the magic.
        memory.u32_at(header::MAGIC).store(layout::MAGIC, WPOL2_READY.release());
        life.store(READY, WPOL2_READY.release());
        Ok(Self { shared: Arc::new(Shared { memory, geometry }) })
    }

    /// Opens a region that another thread or process has built.
    pub fn open(memory: impl Into<Arc<Memory>>) -> Result<Self, RegionError> {
        let memory = memory.into();
        check_length(&memory, header::BYTES as u64)?;
        check_version(&memory)?;
        // WPOL2_READY, opener's end: once the region is ready, its header is seen whole.
        let life = memory.u32_at(header::LIFE).load(WPOL2_READY.acquire());
        match life {
            READY | CLOSED => {}
            BLANK => {
                return Err(RegionError::InvalidMagic { found: memory.u32_at(header::MAGIC).load(Relaxed) });
            }
            life => return Err(RegionError::NotReady { life }),
        }
        let geometry = Geometry::read(&memory)?;
        Ok(Self { shared: Arc::new(Shared { memory, geometry }) })
    }

    /// Becomes a peer, by the first free attach record.
    ///
    /// No lock outside the region is taken for the record. If `is_dead` asks about such locks, a peer attached this
    /// way looks dead from its first moment: lock first and use [`attach_record`](Self::attach_record).
    pub fn attach(&self, identity: Identity) -> Result<Peer, RegionError> {
        let records = self.shared.geometry.config.attach_records;
        for index in 0..records {
            match self.attach_record(index, identity) {
                Err(RegionError::NoRecord { .. }) => {}
                answer => return answer,
            }
        }
        Err(RegionError::NoRecord { records })
    }

    /// Becomes a peer by a certain record, which the caller has made its own outside the region, by a lock on
    /// that byte of the file, say.
    ///
    /// # Errors
    /// `NoRecord` although the lock was had means that the last owner died and has not been swept. Let go of the
    /// lock, or the dead owner looks alive; have somebody sweep, and try again.
    pub fn attach_record(&self, index: u32, identity: Identity) -> Result<Peer, RegionError> {
        let shared = &self.shared;
        if !shared.is_sound() {
            return Err(RegionError::NotReady { life: shared.life() });
        }
        let refusal = RegionError::NoRecord { records: shared.geometry.config.attach_records };
        let live = shared.take_record(index, identity).ok_or(refusal)?;
        Ok(Peer::new(Arc::clone(shared), index, live))
    }

    /// Takes no more tasks from now on; what is queued can still be run. A submit under way may still succeed.
    pub fn close(&self) {
        let life = self.shared.memory.u32_at(header::LIFE);
        let _ = life.compare_exchange(READY, CLOSED, Relaxed, Relaxed);
        self.shared.geometry.rings().iter().for_each(|ring| self.shared.notify_all(ring));
    }

    /// Whether no more tasks are taken.
    pub fn is_closed(&self) -> bool {
        self.shared.life() != READY
    }

    /// Whether a peer found values nobody may write, or the life word itself is one.
    pub fn is_poisoned(&self) -> bool {
        !self.shared.is_sound()
    }

    /// Every attach record that is in use, for people who look at the region. Stale as soon as it is known.
    pub fn records(&self) -> Vec<Record> {
        (0..self.shared.geometry.config.attach_records)
            .filter_map(|index| self.shared.read_record(index))
            .collect()
    }

    /// When the last sweep was, on the reaper's clock; 0 for never.
    pub fn swept(&self) -> u64 {
        self.shared.memory.u64_at(header::SWEPT).load(Relaxed)
    }

    /// What the region was made for.
    pub fn config(&self) -> Config {
        self.shared.geometry.config
    }

    /// Tasks in a lane, stale hints of cancelled ones included. Stale as soon as it is known.
    pub fn lane_len(&self, lane: u32) -> u32 {
        self.shared.geometry.lane(lane).map_or(0, |ring| ring.len(&self.shared.memory))
    }

    /// Counts slots by state. Walks them all.
    pub fn census(&self) -> Census {
        use super::v2_slots::{State, WPOL2_FINISH};
        let mut census = Census::default();
        for index in 0..self.shared.geometry.config.slots {
            let word =
                self.shared.geometry.slot(index).and_then(|base| self.shared.look(base, &WPOL2_FINISH));
            match word.map(|word| word.state) {
                Some(State::Free) => census.free += 1,
                Some(State::Alloc) => census.allocated += 1,
                Some(State::Queued) => census.queued += 1,
                Some(State::Running) => census.running += 1,
                Some(_) => census.ended += 1,
                None => {}
            }
        }
        census
    }
}

/// Refuses a region of another layout before the life word is looked at: there it is something else.
fn check_version(memory: &Memory) -> Result<(), RegionError> {
    // WPOL2_READY, on the magic number: a creator writes it after the version.
    let magic = memory.u32_at(header::MAGIC).load(WPOL2_READY.acquire());
    let found = memory.u32_at(header::VERSION).load(Relaxed);
    // Version 0 is a header that is being cleared; the life word says so.
    if magic == layout::MAGIC && found != VERSION && found != 0 {
        return Err(RegionError::VersionMismatch { expected: VERSION, found });
    }
    Ok(())
}

impl Shared {
    fn life(&self) -> u32 {
        self.memory.u32_at(header::LIFE).load(Relaxed)
    }

    /// Whether tasks can still be run.
    #[inline]
    pub(super) fn is_sound(&self) -> bool {
        matches!(self.life(), READY | CLOSED)
    }

    /// Whether tasks are still taken.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.life() == READY
    }

    /// Gives the region up: it holds values nobody may write.
    pub(super) fn poison(&self) {
        self.memory.u32_at(header::LIFE).store(POISONED, Relaxed);
    }
}
