//! Belady's rule over a known future: the farthest next use is evicted first, the deepest on ties.
//!
//! With deepest-first ties the cache stays closed under prefixes, so leaf-only costs nothing and
//! the rule is optimal for blocks of equal cost.

use crate::policy::adapters::rank_order::pack;
use crate::policy::{Access, BlockAccess, NEVER, Rank, View, grow};
use crate::pool::BlockId;

/// Next use a block. With `BYPASS`, a block that is used later than its would-be victim stays out.
#[derive(Debug, Default)]
pub struct Belady<const BYPASS: bool> {
    next: Vec<u32>,
}

/// May refuse an insertion.
pub type Opt = Belady<true>;
/// Inserts every block.
pub type OptForced = Belady<false>;

impl<const BYPASS: bool> Rank for Belady<BYPASS> {
    fn name(&self) -> &'static str {
        if BYPASS { "opt" } else { "opt-forced" }
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, _: View<'_>) {
        grow(&mut self.next, block, NEVER);
        self.next[block as usize] = touch.next();
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, _: View<'_>) {
        self.next[block as usize] = touch.next();
    }

    fn hit_all(&mut self, blocks: &[BlockId], access: Access<'_>, _: View<'_>) {
        let (told, untold) = blocks.split_at(blocks.len().min(access.next_use.len()));
        for (&block, &next) in told.iter().zip(access.next_use) {
            self.next[block as usize] = next;
        }
        for &block in untold {
            self.next[block as usize] = NEVER;
        }
    }

    fn release(&mut self, _: BlockId, _: View<'_>) {}

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(NEVER - self.next[block as usize], 0, view.pool.depth(block))
    }

    fn needs_future(&self) -> bool {
        true
    }

    fn refuses(&self, next_use: u32, victim: BlockId) -> bool {
        BYPASS && self.next[victim as usize] <= next_use
    }
}
