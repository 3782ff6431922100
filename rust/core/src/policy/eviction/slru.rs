//! Segmented LRU as `SGLang`'s `slru`: used often enough is protected, then recency.

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, Configured, Lfu, PolicyOption, PolicyOptions, Rank, View};
use crate::pool::BlockId;

pub(crate) const PROTECTED_USES: PolicyOption =
    PolicyOption::positive("protected_uses", 2, "A block used this often outlives all used less.");

/// Uses lfu's state, and ranks by it in another way.
#[derive(Debug)]
pub struct Slru {
    protected_uses: u32,
    state: Lfu,
}

impl Configured for Slru {
    const OPTIONS: &'static [PolicyOption] = &[PROTECTED_USES];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { protected_uses: options.get(&PROTECTED_USES), state: Lfu::default() }
    }
}

impl Rank for Slru {
    fn name(&self) -> &'static str {
        "slru"
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
