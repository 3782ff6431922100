//! Least recently used by what touched a node: a request that ends is no use.

use crate::policy::{BlockAccess, Eviction, Rank, RankOrder, View, grow};
use crate::pool::BlockId;

#[derive(Debug, Default)]
struct Touched {
    last: Vec<u64>,
}

/// The order.
pub(super) fn order() -> Box<dyn Eviction> {
    Box::new(RankOrder::new(Touched::default()))
}

impl Rank for Touched {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.last, block, 0);
        self.last[block as usize] = view.now;
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.last[block as usize] = view.now;
    }

    fn release(&mut self, _: BlockId, _: View<'_>) {}

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        // Of one path, the deeper first.
        u128::from(self.last[block as usize]) << 32 | u128::from(u32::MAX - view.pool.depth(block))
    }
}
