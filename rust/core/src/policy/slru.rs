//! Segmented LRU as `SGLang`'s `slru`: used often enough is protected, then recency.

use super::ranked::pack;
use super::{Rank, Touch, View, grow};
use crate::pool::BlockId;

/// (uses since it became findable, time of last use)
#[derive(Debug)]
pub struct Slru {
    protected_uses: u32,
    uses: Vec<(u32, u64)>,
}

impl Slru {
    /// Blocks are protected from their `protected_uses`-th use on.
    pub fn new(protected_uses: u32) -> Self {
        Self { protected_uses, uses: Vec::new() }
    }
}

impl Rank for Slru {
    fn name(&self) -> &'static str {
        "slru"
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("protected_uses", u64::from(self.protected_uses))]
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        grow(&mut self.uses, block, (0, 0));
        self.uses[block as usize] = (1, view.now);
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        let (uses, last) = &mut self.uses[block as usize];
        *uses = uses.saturating_add(1);
        *last = view.now;
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.uses[block as usize].1 = view.now;
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let (uses, last) = self.uses[block as usize];
        pack(u32::from(uses >= self.protected_uses), last, view.pool.depth(block))
    }
}
