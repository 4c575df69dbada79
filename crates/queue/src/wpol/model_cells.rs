//! What stands for the contents of slots in the models: plain cells that the checker watches.
//!
//! Shared memory itself is atomic throughout, so loom has nothing to object to there. These cells are not. loom
//! refuses any two accesses to one of them that the protocol's orderings do not separate, even where the right
//! value happens to arrive.

use crate::sync::UnsafeCell;
use alloc::vec::Vec;

/// One cell per item or slot.
pub(super) struct Cells(Vec<UnsafeCell<u32>>);

impl Cells {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    /// Writes as only an owner may.
    pub(super) fn write(&self, index: u32, value: u32) {
        // SAFETY: the protocol gives the cell to this thread alone; loom stops the model where it does not.
        self.0[index as usize].with_mut(|cell| unsafe { *cell = value });
    }

    /// Reads as an owner or a holder of a reference may.
    pub(super) fn read(&self, index: u32) -> u32 {
        // SAFETY: as for `write`, except that others may be reading the cell as well.
        self.0[index as usize].with(|cell| unsafe { *cell })
    }
}

// SAFETY: whether the cells are shared rightly is what the models are about; loom reports every access that is not.
unsafe impl Send for Cells {}
// SAFETY: as for `Send`: sharing them wrongly stops the model, and there is no product code here.
unsafe impl Sync for Cells {}
