//! First in, first out among the leaves.

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, Rank, View, grow};
use crate::pool::BlockId;

/// When each block became findable.
#[derive(Debug, Default)]
pub struct Fifo {
    inserted: Vec<u64>,
}

impl Rank for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.inserted, block, 0);
        self.inserted[block as usize] = view.now;
    }

    fn hit(&mut self, _: BlockId, _: BlockAccess<'_>, _: View<'_>) {}

    fn release(&mut self, _: BlockId, _: View<'_>) {}

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.inserted[block as usize], view.pool.depth(block))
    }
}
