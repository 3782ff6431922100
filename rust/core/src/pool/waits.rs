//! Owners that have left, and wait for a fence: their blocks are on their way.

use super::{Block, BlockId, Pool, WAITS};

impl Pool {
    /// Blocks that can be had once every fence has passed, and cannot now.
    pub fn coming(&self) -> u32 {
        self.coming
    }

    /// Blocks with owners that wait for a fence.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Owners that wait for a fence.
    pub fn waits(&self, block: BlockId) -> u32 {
        self.waits.get(block as usize).copied().unwrap_or(0)
    }

    /// Owners that do not wait for a fence.
    #[inline]
    pub fn stays(&self, block: BlockId) -> u32 {
        let Block { refs, marks, .. } = self.blocks[block as usize];
        if marks & WAITS == 0 { refs } else { refs - self.waits(block) }
    }

    /// One of its owners waits for a fence from now on.
    pub fn wait(&mut self, block: BlockId) {
        let at = block as usize;
        if self.waits.len() <= at {
            self.waits.resize(at + 1, 0);
        }
        self.waiting += u32::from(self.waits[at] == 0);
        self.waits[at] += 1;
        self.blocks[at].marks |= WAITS;
        self.coming += u32::from(self.waits[at] == self.blocks[at].refs);
    }

    /// The fence of one of its owners has passed: that owner is about to be dropped.
    pub fn end_wait(&mut self, block: BlockId) {
        let at = block as usize;
        self.coming -= u32::from(self.waits[at] == self.blocks[at].refs);
        self.waits[at] -= 1;
        if self.waits[at] == 0 {
            self.waiting -= 1;
            self.blocks[at].marks &= !WAITS;
        }
    }

    /// A block with owners that wait for a fence has got one more owner, which does not wait. If all its
    /// owners waited until now, the block is no longer coming.
    #[cold]
    pub(super) fn came_back(&mut self, block: BlockId) {
        self.coming -= u32::from(self.stays(block) == 1);
    }

    /// [`Self::came_back`] for each of `blocks` that waits.
    #[cold]
    pub(super) fn chain_came_back(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            if self.blocks[block as usize].marks & WAITS != 0 {
                self.came_back(block);
            }
        }
    }

    /// [`Self::lost_one`] for each of `blocks` that waits.
    #[cold]
    pub(super) fn chain_lost_one(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            if self.blocks[block as usize].marks & WAITS != 0 {
                self.lost_one(block);
            }
        }
    }

    /// A block that waits has lost an owner, and has another.
    #[cold]
    pub(super) fn lost_one(&mut self, block: BlockId) {
        self.coming += u32::from(self.stays(block) == 0);
    }
}
