//! Blocks of which no next use is known first, least recently used first among them; then the farthest
//! next use (`inference-lab` calls this `outlook`; `AttentionStore` looks through its queue so).
//!
//! Next uses are those that requests tell. Where all are known this is [`Opt`](crate::policy::Opt).

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, NEVER, Rank, View, grow};
use crate::pool::BlockId;

/// (next use, time of last use)
#[derive(Debug, Default)]
pub struct NextUse {
    columns: Vec<(u32, u64)>,
}

impl Rank for NextUse {
    fn name(&self) -> &'static str {
        "next-use"
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (NEVER, 0));
        self.columns[block as usize] = (touch.next(), view.now);
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        self.columns[block as usize] = (touch.next(), view.now);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].1 = view.now;
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let (next, last) = self.columns[block as usize];
        pack(NEVER - next, last, view.pool.depth(block))
    }
}
