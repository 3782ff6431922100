//! Least frequently used, then least recently; no ageing (`SGLang` and `LMCache` call this `lfu`).

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, Rank, View, grow};
use crate::pool::BlockId;

/// (uses since it became findable, time of last use)
#[derive(Debug, Clone, Default)]
pub struct Lfu {
    uses: Vec<(u32, u64)>,
}

impl Lfu {
    /// Uses of a findable block, and when it was used last.
    pub(crate) fn past(&self, block: BlockId) -> (u32, u64) {
        self.uses[block as usize]
    }
}

impl Rank for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.uses, block, (0, 0));
        self.uses[block as usize] = (1, view.now);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let (uses, last) = &mut self.uses[block as usize];
        *uses = uses.saturating_add(1);
        *last = view.now;
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.uses[block as usize].1 = view.now;
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let (uses, last) = self.uses[block as usize];
        pack(uses, last, view.pool.depth(block))
    }
}
