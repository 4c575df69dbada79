//! Payloads that are too large for a slot: blocks beside the queue, given out by whoever sends.
//!
//! Blocks are powers of two, split and put together again in pairs (a buddy allocator), so any payload up to the
//! whole arena fits, and no hole lasts. Which block is taken is known to the sender alone, in its own memory:
//! nobody else ever allocates, so there is no protocol that a dying process could leave half done, and nothing to
//! leak. The reader is told an offset and a length, and checks only that they lie inside.
//!
//! Not here: when a block is free again (`channel.rs` has a receipt for each).

use crate::layout::BLOCK_BYTES_MIN;
use millpond_queue::wpol::Memory;
use std::collections::BTreeSet;

/// An arena on the side that sends.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Memory,
    /// Offsets of free blocks by size: `BLOCK_BYTES_MIN << index`.
    free: Vec<BTreeSet<usize>>,
}

/// A block that was given out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    offset: usize,
    /// Its size is `BLOCK_BYTES_MIN << order`.
    order: usize,
}

impl Arena {
    /// All of the memory, whose length is a power of two, as one free block.
    pub(crate) fn new(memory: Memory) -> Self {
        let orders = (memory.len() / BLOCK_BYTES_MIN).ilog2() as usize + 1;
        let mut free = vec![BTreeSet::new(); orders];
        free[orders - 1].insert(0);
        Self { memory, free }
    }

    /// The largest payload there can be.
    pub(crate) fn bytes_max(&self) -> usize {
        self.memory.len()
    }

    /// The bytes themselves.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A block with a copy of the payload in it; none if there is no room now.
    pub(crate) fn put(&mut self, payload: &[u8]) -> Option<Block> {
        let wanted = payload.len().div_ceil(BLOCK_BYTES_MIN).next_power_of_two().ilog2() as usize;
        let mut order = (wanted..self.free.len()).find(|order| !self.free[*order].is_empty())?;
        let offset = self.free[order].pop_first()?;
        while order > wanted {
            order -= 1;
            self.free[order].insert(offset + (BLOCK_BYTES_MIN << order));
        }
        self.memory.copy_in(offset, payload);
        Some(Block { offset, order })
    }

    /// Gives a block back: its reader is done with it.
    pub(crate) fn give_back(&mut self, block: Block) {
        let Block { mut offset, mut order } = block;
        while order + 1 < self.free.len() {
            let twin = offset ^ (BLOCK_BYTES_MIN << order);
            if !self.free[order].remove(&twin) {
                break;
            }
            offset = offset.min(twin);
            order += 1;
        }
        self.free[order].insert(offset);
    }

    /// Bytes that are not given out.
    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        self.free.iter().enumerate().map(|(order, blocks)| blocks.len() * (BLOCK_BYTES_MIN << order)).sum()
    }
}

impl Block {
    /// What a message says of it: the offset in blocks of the smallest size, and the length of the payload. Never
    /// 0, since no payload that needs a block is empty.
    pub(crate) fn attachment(&self, payload: &[u8]) -> u64 {
        ((self.offset / BLOCK_BYTES_MIN) as u64) << 32 | payload.len() as u64
    }
}

/// Copies a payload out of an arena; false if a peer that cannot be trusted named bytes outside of it.
pub(crate) fn read_attachment(arena: &Memory, attachment: u64, payload: &mut Vec<u8>) -> bool {
    let offset = (attachment >> 32) as usize * BLOCK_BYTES_MIN;
    let bytes = (attachment & u64::from(u32::MAX)) as usize;
    // Whole words are copied; the arena is a multiple of them long.
    let fits = offset <= arena.len() && bytes <= arena.len() - offset;
    if fits {
        payload.clear();
        payload.resize(bytes, 0);
        arena.copy_out(offset, payload);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: usize = 1 << 16;

    fn arena() -> Arena {
        Arena::new(Memory::heap(ARENA).unwrap())
    }

    #[test]
    fn payloads_of_every_size_come_back_whole() {
        let mut arena = arena();
        for bytes in [1, 255, 256, 257, 4096, 10_000, ARENA] {
            let payload: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
            let block = arena.put(&payload).unwrap();
            let mut back = Vec::new();
            assert!(read_attachment(&arena.memory, block.attachment(&payload), &mut back));
            assert_eq!(back, payload);
            arena.give_back(block);
            assert_eq!((arena.free_bytes(), arena.free[8].len()), (ARENA, 1), "all of it is one block again");
        }
    }

    #[test]
    fn blocks_never_overlap_and_a_full_arena_says_so() {
        let mut arena = arena();
        // A small generator with a fixed seed: the order of events is the same in every run.
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % limit
        };
        let mut taken: Vec<(Block, Vec<u8>)> = Vec::new();
        let mut refused = 0;
        for round in 0..20_000 {
            if next(2) == 0 || taken.is_empty() {
                let payload = vec![round as u8; next(9_000) + 1];
                match arena.put(&payload) {
                    Some(block) => taken.push((block, payload)),
                    None => refused += 1,
                }
            } else {
                let at = next(taken.len());
                let (block, payload) = taken.swap_remove(at);
                let mut back = Vec::new();
                assert!(read_attachment(&arena.memory, block.attachment(&payload), &mut back));
                assert!(back == payload, "round {round}: another block wrote here");
                arena.give_back(block);
            }
            let given: usize = taken.iter().map(|(block, _)| BLOCK_BYTES_MIN << block.order).sum();
            assert_eq!(arena.free_bytes() + given, ARENA);
        }
        assert!(refused > 0, "the arena was never full");
    }

    #[test]
    fn an_attachment_that_leaves_the_arena_is_refused() {
        let arena = Memory::heap(1024).unwrap();
        let mut payload = Vec::new();
        for (offset, bytes, fits) in
            [(0, 1024, true), (0, 1025, false), (3, 256, true), (3, 257, false), (4, 0, true), (5, 0, false)]
        {
            assert_eq!(read_attachment(&arena, offset << 32 | bytes, &mut payload), fits, "{offset} {bytes}");
        }
        assert!(!read_attachment(&arena, u64::MAX, &mut payload));
    }
}
