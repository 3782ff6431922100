//! LFU with dynamic ageing. A block's rank is its number of uses plus the cache's age when the block was
//! last used. The cache's age is the rank of the last victim (Arlitt et al., Performance Evaluation
//! Review 27(4), 2000).

use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, Rank, View, grow};
use crate::pool::BlockId;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    uses: u32,
    age: u32,
    last: u64,
}

/// Uses, age and time of last use a block, and the cache's age.
#[derive(Debug, Default)]
pub struct Lfuda {
    columns: Vec<Column>,
    age: u32,
}

impl Rank for Lfuda {
    fn name(&self) -> &'static str {
        "lfuda"
    }

    fn acquire(&mut self, block: BlockId) {
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize].age = self.age;
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        // One that was owned before this policy came was never acquired under it.
        grow(&mut self.columns, block, Column::default());
        let column = &mut self.columns[block as usize];
        column.uses = 1;
        column.last = view.now;
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let age = self.age;
        let column = &mut self.columns[block as usize];
        column.uses = column.uses.saturating_add(1);
        column.age = age;
        column.last = view.now;
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let Column { uses, age, last } = self.columns[block as usize];
        pack(age.saturating_add(uses), last, view.pool.depth(block))
    }

    fn evicted(&mut self, rank: u128) {
        self.age = (rank >> 96) as u32;
    }
}
