//! The block table of a sequence in one layer group.

use std::ops::{Deref, Range};

use smallvec::SmallVec;

use crate::pool::{BlockId, NIL};

/// One block table for each group. The table of the only group, the common case, lies within the sequence.
pub type Tables = SmallVec<[BlockTable; 1]>;

/// The blocks of a sequence, in order; entries that left a window are `NIL`. Reads as a slice.
// The last entry is also kept in the struct. A decode step needs only that entry, and reading it from the
// end of the vector would be a cache miss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTable {
    blocks: Vec<BlockId>,
    last: BlockId,
}

impl Default for BlockTable {
    fn default() -> Self {
        Self { blocks: Vec::new(), last: NIL }
    }
}

impl Deref for BlockTable {
    type Target = [BlockId];

    #[inline]
    fn deref(&self) -> &[BlockId] {
        &self.blocks
    }
}

impl<'a> IntoIterator for &'a BlockTable {
    type Item = &'a BlockId;
    type IntoIter = std::slice::Iter<'a, BlockId>;

    fn into_iter(self) -> Self::IntoIter {
        self.blocks.iter()
    }
}

impl BlockTable {
    /// The last block; `NIL` in an empty table.
    #[inline]
    pub fn last_block(&self) -> BlockId {
        self.last
    }

    /// Becomes what `other` is, in its own buffer.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.blocks.clone_from(&other.blocks);
        self.last = other.last;
    }

    /// Makes room for `more` blocks.
    pub fn reserve(&mut self, more: usize) {
        self.blocks.reserve(more);
    }

    /// Adds a block.
    pub fn push(&mut self, block: BlockId) {
        self.blocks.push(block);
        self.last = block;
    }

    /// Adds `blocks`.
    pub fn extend_from_slice(&mut self, blocks: &[BlockId]) {
        self.blocks.extend_from_slice(blocks);
        self.note_last();
    }

    /// Takes the last block away.
    pub fn pop(&mut self) -> Option<BlockId> {
        let popped = self.blocks.pop();
        self.note_last();
        popped
    }

    /// Leaves the first `len` blocks.
    pub fn truncate(&mut self, len: usize) {
        self.blocks.truncate(len);
        self.note_last();
    }

    /// Puts `block` into place `at`, and returns the block that was there.
    pub fn replace(&mut self, at: usize, block: BlockId) -> BlockId {
        let before = std::mem::replace(&mut self.blocks[at], block);
        self.note_last();
        before
    }

    /// Gives up the blocks in `places`: the entries stay, as `NIL`.
    pub fn give_up(&mut self, places: Range<usize>) {
        self.blocks[places].fill(NIL);
        self.note_last();
    }

    fn note_last(&mut self) {
        self.last = self.blocks.last().copied().unwrap_or(NIL);
    }
}
