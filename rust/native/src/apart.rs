//! Cached blocks of a retention priority too high to be evicted soon. They are kept out of the
//! order of a policy that names one victim at a time: it would name them over and over.

use kvframe_core::policy::PriorityBuckets;
use kvframe_core::pool::{BlockId, Pool};

/// See the module.
#[derive(Debug, Default)]
pub struct Apart {
    buckets: PriorityBuckets,
    /// By block: whether it is here.
    here: Vec<bool>,
    count: usize,
}

impl Apart {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn has(&self, block: BlockId) -> bool {
        self.here.get(block as usize).copied().unwrap_or(false)
    }

    /// Takes blocks in the order of their prefix.
    pub fn release(&mut self, blocks: &[BlockId], pool: &Pool) {
        self.here.resize(self.here.len().max(pool.created() as usize), false);
        for &block in blocks {
            self.here[block as usize] = true;
        }
        self.count += blocks.len();
        self.buckets.release(blocks, pool);
    }

    /// Takes out a block that is here.
    pub fn remove(&mut self, block: BlockId) {
        self.here[block as usize] = false;
        self.count -= 1;
        self.buckets.remove(block);
    }

    pub fn on_evictable(&mut self, block: BlockId, pool: &Pool) {
        self.buckets.on_evictable(block, pool);
    }

    pub fn priority_changed(&mut self, block: BlockId, pool: &Pool) {
        self.buckets.priority_changed(block, pool);
    }

    /// The leaf here that is evicted first.
    pub fn first(&self) -> Option<BlockId> {
        self.buckets.first()
    }
}
