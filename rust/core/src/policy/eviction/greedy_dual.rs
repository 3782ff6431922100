//! `GreedyDual`: what it takes to compute a block again, above the level of the last victim.
//!
//! All blocks take the same memory; a block deep in its prompt takes more attention. `cost` is Young's
//! rule (Algorithmica 11, 1994), `gdsf` counts the uses, too (Cherkasova, HPL-98-69, 1998).

use crate::policy::adapters::scored::{Formula, Past};
use crate::policy::{BlockAccess, Configured, PolicyOption, PolicyOptions};

pub(crate) const ATTENTION_BLOCKS: PolicyOption = PolicyOption::positive(
    "attention_blocks",
    2_048,
    "Depth in blocks at which a block's attention costs as much as all else.",
);

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

impl<const USES: bool> Configured for GreedyDual<USES> {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { attention_blocks: options.get(&ATTENTION_BLOCKS), level: 0 }
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
}
