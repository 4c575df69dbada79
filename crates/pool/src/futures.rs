//! The async tasks that live: how many there may be, and where they are when the pool ends.
//!
//! A future that waits is in no queue; only what will wake it knows of it. So that a stop can end it all the same, its
//! address is noted here from submit to end, in a place whose number its cell keeps. The note is no reference: a
//! future that nobody can wake any more must be seen to be so. What makes it safe to follow is the lock: an address is
//! taken out under it before its task may be freed.

use crate::cell::TaskRef;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks to spread the notes over.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct Futures {
    /// Places taken: by those that live, and by those whose submitter waits for room in a queue.
    places: CachePadded<AtomicUsize>,
    places_max: usize,
    /// Those that were taken in and have not ended.
    live: CachePadded<AtomicUsize>,
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    notes: Vec<Note>,
    /// The indices of notes that stand for nobody.
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    /// 0: nobody.
    address: usize,
    /// Whether the task was taken in: before, it is its submitter's alone.
    admitted: bool,
}

impl Futures {
    pub(crate) fn new(places_max: usize) -> Self {
        Self {
            places: CachePadded::default(),
            places_max,
            live: CachePadded::default(),
            shards: Default::default(),
        }
    }

    /// Makes place for one more and notes it; `false` if there are too many.
    pub(crate) fn enter(&self, task: &TaskRef) -> bool {
        if self.places.fetch_add(1, Relaxed) >= self.places_max {
            self.places.fetch_sub(1, Relaxed);
            return false;
        }
        let address = task.address();
        // Addresses end in zeros and lie close together.
        let number = (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % SHARDS;
        let mut shard = self.shard(number);
        let note = Note { address, admitted: false };
        let index = match shard.free.pop() {
            Some(index) => {
                shard.notes[index as usize] = note;
                index
            }
            None => {
                shard.notes.push(note);
                (shard.notes.len() - 1) as u32
            }
        };
        task.set_place(index * SHARDS as u32 + number as u32);
        true
    }

    /// It was taken in; it may have ended since.
    pub(crate) fn was_admitted(&self, task: &TaskRef) {
        let (mut shard, index) = self.find(task.place());
        let note = &mut shard.notes[index];
        // Another may be in its place already.
        if note.address == task.address() {
            note.admitted = true;
            self.live.fetch_add(1, Relaxed);
        }
    }

    /// The one in this place has ended, or was not taken in.
    pub(crate) fn leave(&self, place: u32) {
        let (mut shard, index) = self.find(place);
        let note = std::mem::replace(&mut shard.notes[index], Note { address: 0, admitted: false });
        shard.free.push(index as u32);
        drop(shard);
        if note.admitted {
            self.live.fetch_sub(1, Relaxed);
        }
        self.places.fetch_sub(1, Relaxed);
    }

    /// How many live.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// How many live or are on their way in.
    pub(crate) fn places(&self) -> usize {
        self.places.load(Relaxed)
    }

    /// References to all that were taken in and live at the moment.
    pub(crate) fn all(&self) -> Vec<TaskRef> {
        let mut all = Vec::with_capacity(self.live());
        for number in 0..SHARDS {
            let shard = self.shard(number);
            let admitted = shard.notes.iter().filter(|note| note.admitted);
            // SAFETY: a noted address is that of a task that has not ended, so its cell lives: whoever ends it comes
            // through `leave`, and so through this lock, before its last reference can go.
            all.extend(admitted.map(|note| unsafe { TaskRef::from_address(note.address) }));
        }
        all
    }

    fn find(&self, place: u32) -> (MutexGuard<'_, Shard>, usize) {
        (self.shard(place as usize % SHARDS), place as usize / SHARDS)
    }

    fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
