//! Policies that are a formula over what a block has been through.

use super::rank_order::pack;
use crate::policy::{BlockAccess, Rank, View, grow};
use crate::pool::BlockId;

/// What a block has been through since it became findable.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past {
    /// Uses, the first computation included.
    pub uses: u32,
    /// Blocks of the prefix before it.
    pub depth: u32,
    /// Ticks when it became findable, and when it was used or left last.
    pub inserted: u64,
    /// See `inserted`.
    pub last: u64,
    /// The policy's own, from [`Formula::touch`].
    pub score: u64,
}

/// A ranking by formula.
pub trait Formula: Send {
    /// Its name in configuration.
    const NAME: &'static str;
    /// Lower is evicted first; then the deeper block, then the lower id.
    fn key(&self, past: &Past) -> (u32, u64);
    /// The score of a block that is used now; `past` counts the use already.
    fn touch(&self, past: &Past, _touch: BlockAccess<'_>) -> u64 {
        past.score
    }
    /// A block with this key was the victim.
    fn evicted(&mut self, _key: (u32, u64)) {}
}

/// A [`Rank`] of a [`Formula`]: 32 bytes a block.
#[derive(Debug, Default)]
pub struct Scored<F> {
    formula: F,
    pasts: Vec<Past>,
}

impl<F: Formula> Scored<F> {
    /// The ranking of `formula`.
    pub fn new(formula: F) -> Self {
        Self { formula, pasts: Vec::new() }
    }

    fn touched(&mut self, block: BlockId, past: Past, touch: BlockAccess<'_>) {
        let score = self.formula.touch(&past, touch);
        self.pasts[block as usize] = Past { score, ..past };
    }
}

impl<F: Formula> Rank for Scored<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.pasts, block, Past::default());
        let depth = view.pool.depth(block);
        let past = Past { uses: 1, depth, inserted: view.now, last: view.now, score: 0 };
        self.touched(block, past, touch);
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        let past = self.pasts[block as usize];
        let uses = past.uses.saturating_add(1);
        self.touched(block, Past { uses, last: view.now, ..past }, touch);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.pasts[block as usize].last = view.now;
    }

    fn rank(&self, block: BlockId, _: View<'_>) -> u128 {
        let past = &self.pasts[block as usize];
        let (main, second) = self.formula.key(past);
        pack(main, second, past.depth)
    }

    fn evicted(&mut self, rank: u128) {
        self.formula.evicted(((rank >> 96) as u32, (rank >> 32) as u64));
    }
}
