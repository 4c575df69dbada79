//! The async tasks that live: how many there may be, and where those are that wait when the pool ends.
//!
//! A future that is queued or running is found there by a stop. One that waits is in no queue; only what will wake it
//! knows of it. So that a stop can end it all the same, its address is noted before it waits for the first time, by
//! the worker that ran it, in a book that is mostly that worker's own; its cell keeps the place. A future that is
//! ready without waiting is never noted.
//!
//! The note is no reference: a future that nobody can wake any more must be seen to be so. What makes it safe to
//! follow is the lock: an address is taken out under it before its task may be freed.

use crate::cell::{NOT_NOTED, TaskRef};
use crate::current;
use crossbeam_utils::CachePadded;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Books to spread the notes over.
const BOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct Futures {
    door: CachePadded<Door>,
    live_max: usize,
    books: [CachePadded<Mutex<Book>>; BOOKS],
    /// How many have left, by the number of the worker on which they did, and on all other threads.
    left: [CachePadded<AtomicU64>; BOOKS],
    left_elsewhere: CachePadded<AtomicU64>,
}

/// What submitters count. Workers look here seldom, so that the two do not wait for each other's cache line.
#[derive(Debug, Default)]
struct Door {
    /// How many have entered, with those whose submitter waits for room in a queue.
    entered: AtomicU64,
    /// As long as fewer have entered, there is room: so many had left, when that was last looked at, and so many may
    /// live.
    room_until: AtomicU64,
}

#[derive(Debug, Default)]
struct Book {
    /// Addresses; 0 is nobody's.
    notes: Vec<usize>,
    /// The indices of notes that stand for nobody.
    free: Vec<u32>,
}

impl Futures {
    pub(crate) fn new(live_max: usize) -> Self {
        Self {
            door: CachePadded::default(),
            live_max,
            books: Default::default(),
            left: Default::default(),
            left_elsewhere: CachePadded::default(),
        }
    }

    /// Counts one more; `false` if there are too many.
    pub(crate) fn enter(&self) -> bool {
        let Door { entered, room_until } = &*self.door;
        let mut number = entered.load(Relaxed);
        loop {
            if number >= room_until.load(Relaxed) && !self.is_room_for(number) {
                return false;
            }
            // Not an addition that is taken back: meanwhile others would be counted by a number that is too high.
            match entered.compare_exchange_weak(number, number + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => number = now,
            }
        }
    }

    /// Looks again how many have left.
    #[cold]
    fn is_room_for(&self, number: u64) -> bool {
        let room_until = self.left() + self.live_max as u64;
        self.door.room_until.fetch_max(room_until, Relaxed);
        number < room_until
    }

    fn left(&self) -> u64 {
        let left = self.left.iter().chain([&self.left_elsewhere]);
        // Acquire: whoever sees that one has left sees that it had entered.
        left.map(|left| left.load(Acquire)).sum()
    }

    /// Notes one that is about to wait. It is running, on this thread.
    pub(crate) fn note(&self, task: &TaskRef) {
        let number = current::worker().map_or(0, |worker| worker.number) % BOOKS;
        let mut book = self.book(number);
        let address = task.address();
        let index = match book.free.pop() {
            Some(index) => {
                book.notes[index as usize] = address;
                index
            }
            None => {
                book.notes.push(address);
                (book.notes.len() - 1) as u32
            }
        };
        task.set_place(index * BOOKS as u32 + number as u32);
    }

    /// The one in this place has ended, or was not taken in.
    pub(crate) fn leave(&self, place: u32) {
        if place != NOT_NOTED {
            let mut book = self.book(place as usize % BOOKS);
            let index = place / BOOKS as u32;
            book.notes[index as usize] = 0;
            book.free.push(index);
        }
        let left = current::worker().map_or(&self.left_elsewhere, |worker| &self.left[worker.number % BOOKS]);
        left.fetch_add(1, Release);
    }

    /// How many live or are on their way in. It may be stale, but is 0 only if there was a moment without any.
    pub(crate) fn live(&self) -> usize {
        // In this order: one that enters meanwhile is counted, and not one that has left.
        let left = self.left();
        (self.door.entered.load(Relaxed) - left) as usize
    }

    /// References to all that have waited and live at the moment.
    pub(crate) fn all(&self) -> Vec<TaskRef> {
        let mut all = Vec::new();
        for number in 0..BOOKS {
            let book = self.book(number);
            let noted = book.notes.iter().filter(|&&address| address != 0);
            // SAFETY: a noted address is that of a task that has not ended, so its cell lives: whoever ends it comes
            // through `leave`, and so through this lock, before its last reference can go.
            all.extend(noted.map(|&address| unsafe { TaskRef::from_address(address) }));
        }
        all
    }

    fn book(&self, number: usize) -> MutexGuard<'_, Book> {
        self.books[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
