//! Segmented LRU as `SGLang`'s `slru`: used often enough is protected, then recency.

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, Lfu, Rank, View};
use crate::pool::BlockId;

/// Uses lfu's state, and ranks by it in another way.
#[derive(Debug)]
pub struct Slru {
    protected_uses: u32,
    state: Lfu,
}

impl Slru {
    /// Blocks are protected from their `protected_uses`-th use on.
    pub fn new(protected_uses: u32) -> Self {
        Self { protected_uses, state: Lfu::default() }
    }
}

impl Rank for Slru {
    fn name(&self) -> &'static str {
        "slru"
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("protected_uses", u64::from(self.protected_uses))]
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        self.state.insert(block, touch, view);
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        self.state.hit(block, touch, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.state.release(block, view);
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let (uses, last) = self.state.past(block);
        pack(u32::from(uses >= self.protected_uses), last, view.pool.depth(block))
    }
}
