//! The least that moves bytes between two processes: one ring, one sender, one receiver, both spinning.
//!
//! Each cell has a turn, which says whether it is full and in which lap. Sender and receiver keep their positions to
//! themselves, so that no word is shared but the cell's own. Nothing survives the death of either, nobody can sleep,
//! and nobody checks anything: it is what the others can be measured against, and no more.
//!
//! Not here: rings that can be used (`millpond_queue`).

use super::terms::MESSAGE_BYTES_MAX;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A turn, a length, and the bytes: two lines.
const CELL_WORDS: usize = 2 + MESSAGE_BYTES_MAX / 8;
const CELLS: usize = 1024;
/// Words that a ring takes.
const WORDS: usize = CELL_WORDS * CELLS;

/// One end of a ring.
pub(crate) struct RawEnd<'m> {
    words: &'m [AtomicU64],
    position: u64,
}

impl<'m> RawEnd<'m> {
    /// Of the ring that begins with these words, which are zero before either end is used; so many messages have
    /// passed this end.
    pub(crate) fn at(words: &'m [AtomicU64], position: u64) -> Self {
        Self { words: &words[..WORDS], position }
    }

    /// The sender's: false if the ring is full.
    pub(crate) fn try_send(&mut self, message: &[u8]) -> bool {
        let (cell, turn) = self.cell();
        if cell[0].load(Acquire) != turn {
            return false;
        }
        cell[1].store(message.len() as u64, Relaxed);
        for (word, chunk) in cell[2..].iter().zip(message.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        cell[0].store(turn + 1, Release);
        self.position += 1;
        true
    }

    /// The receiver's: the message, in a buffer that is used again and again.
    pub(crate) fn try_receive<'b>(&mut self, buffer: &'b mut [u8; MESSAGE_BYTES_MAX]) -> Option<&'b [u8]> {
        let (cell, turn) = self.cell();
        if cell[0].load(Acquire) != turn + 1 {
            return None;
        }
        let length = (cell[1].load(Relaxed) as usize).min(MESSAGE_BYTES_MAX);
        for (word, chunk) in cell[2..].iter().zip(buffer[..length].chunks_mut(8)) {
            chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..chunk.len()]);
        }
        cell[0].store(turn + 2, Release);
        self.position += 1;
        Some(&buffer[..length])
    }

    /// The cell of the next message, and its turn while it is empty.
    fn cell(&self) -> (&'m [AtomicU64], u64) {
        let at = self.position as usize % CELLS * CELL_WORDS;
        (&self.words[at..at + CELL_WORDS], self.position / CELLS as u64 * 2)
    }
}
