//! Blocks that are about to be evicted, read ahead of it.
//!
//! In a large pool, what an eviction reads (the block's key, its entry of the index, what the policy keeps of
//! it) is in memory and no longer in the processor's caches. Read for one block after the other,
//! each waits for memory; read for many at once beforehand, their waits overlap.

use std::hint::black_box;

use super::Store;

/// In pools of fewer blocks, all of it stays in the caches.
const LARGE: u32 = 1 << 15;
/// Blocks that are read ahead at the most: few enough to be in the second cache until they are evicted.
const AHEAD: u32 = 1_024;

impl Store {
    /// An operation is about to obtain `n` blocks.
    #[inline]
    pub(crate) fn approach(&mut self, n: u32) {
        let victims = n.min(AHEAD).saturating_sub(self.pool.free());
        if victims > 1 && self.pool.created() >= LARGE {
            self.read_ahead(victims as usize);
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
