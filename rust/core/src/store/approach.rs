//! Blocks that are about to be evicted, read ahead of it.
//!
//! In a large pool, what an eviction reads (the block's key, its entry of the index, what the policy keeps of
//! it) is in memory and no longer in the processor's caches. Read for one block after the other,
//! each waits for memory; read for many at once beforehand, their waits overlap.

use std::hint::black_box;

use super::Store;

/// In pools of fewer blocks, all of it stays in the caches.
const LARGE: u32 = 1 << 15;
/// Rows of blocks that are read ahead at a time: few enough to stay in the first cache until they are evicted.
const AHEAD: u32 = 64;

impl Store {
    /// An operation has obtained `done` rows of a block in each of `groups`, and is about to obtain `left` more.
    #[inline]
    pub(crate) fn approach(&mut self, done: u32, left: u32, groups: usize) {
        if done.is_multiple_of(AHEAD) && self.pool.created() >= LARGE {
            let blocks = left.min(AHEAD) as usize * groups;
            self.read_ahead(blocks.saturating_sub(self.pool.free() as usize));
        }
    }

    #[cold]
    #[inline(never)]
    fn read_ahead(&mut self, victims: usize) {
        let mut blocks = std::mem::take(&mut self.kept);
        blocks.clear();
        self.policy.upcoming(victims, self.view(), &mut blocks);
        for &block in &blocks {
            black_box(self.index.holds(&self.pool, block));
        }
        self.kept = blocks;
    }
}
