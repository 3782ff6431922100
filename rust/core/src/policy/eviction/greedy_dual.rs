//! `GreedyDual`: what it takes to compute a block again, above the level of the last victim.
//!
//! All blocks take the same memory; a block deep in its prompt takes more attention. `cost` is Young's
//! rule (Algorithmica 11, 1994), `gdsf` counts the uses, too (Cherkasova, HPL-98-69, 1998).

use crate::policy::BlockAccess;
use crate::policy::adapters::scored::{Formula, Past};

/// The cost of a block without attention.
const LINEAR: u64 = 1 << 16;

/// Level and costs in 2^-16 of what the model takes for a block beside attention.
#[derive(Debug)]
pub struct GreedyDual<const USES: bool> {
    attention_blocks: u32,
    level: u64,
}

/// Cost alone.
pub type Cost = GreedyDual<false>;
/// Uses times cost.
pub type Gdsf = GreedyDual<true>;

impl<const USES: bool> GreedyDual<USES> {
    /// A block after `attention_blocks` others takes as much for attention as for all the rest.
    pub fn new(attention_blocks: u32) -> Self {
        Self { attention_blocks: attention_blocks.max(1), level: 0 }
    }
}

impl<const USES: bool> Formula for GreedyDual<USES> {
    const NAME: &'static str = if USES { "gdsf" } else { "cost" };

    fn key(&self, past: &Past) -> (u32, u64) {
        // The score, then the last use, as far as there is room for it.
        let last = past.last.min(u64::from(u32::MAX));
        ((past.score >> 32) as u32, (past.score << 32) | last)
    }

    fn touch(&self, past: &Past, _: BlockAccess<'_>) -> u64 {
        let attention = LINEAR * u64::from(past.depth) / u64::from(self.attention_blocks);
        let uses = if USES { u64::from(past.uses) } else { 1 };
        self.level.saturating_add(uses.saturating_mul(LINEAR + attention))
    }

    fn evicted(&mut self, (upper, lower): (u32, u64)) {
        self.level = (u64::from(upper) << 32) | (lower >> 32);
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("attention_blocks", u64::from(self.attention_blocks))]
    }
}
