//! Marconi's eviction: how recently a block was used, plus α times what it saves to have it (Pan et
//! al., `MLSys` 2025).
//!
//! Recency is 1 / idle time by the largest such, the saving is the work to compute the block by the
//! largest such: attention makes it grow with the block's place in its prefix. Places are told apart
//! in quarters of a power of two; so within a class recency decides, and heads are compared.

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    ATTENTION_BLOCKS, BlockAccess, Configured, PolicyOption, PolicyOptions, View, grow,
};
use crate::pool::BlockId;

const ALPHA_PERCENT: PolicyOption = PolicyOption::number(
    "alpha_percent",
    1,
    "Weight of the work to compute a block, in percent of recency's.",
);

const STEPS: u32 = 4;

/// The quarter of a power of two that a place in the prefix, counted from 1, is in.
fn bucket(place: u32) -> u8 {
    let octave = place.ilog2();
    let step = ((u64::from(place) * u64::from(STEPS)) >> octave) as u32 - STEPS;
    (octave * STEPS + step) as u8
}

/// Where a bucket begins.
fn start(bucket: usize) -> f64 {
    let (octave, step) = (bucket as u32 / STEPS, bucket as u32 % STEPS);
    (1u64 << octave) as f64 * f64::from(STEPS + step) / f64::from(STEPS)
}

/// Buckets of places are the blocks' classes.
#[derive(Debug, Clone)]
pub struct Marconi {
    alpha: f64,
    attention_blocks: f64,
    /// (bucket, tick of the last use)
    columns: Vec<(u8, u64)>,
    newest: u64,
}

impl Configured for Marconi {
    const OPTIONS: &'static [PolicyOption] = &[ALPHA_PERCENT, ATTENTION_BLOCKS];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            alpha: f64::from(options.get(&ALPHA_PERCENT)) / 100.0,
            attention_blocks: options.get(&ATTENTION_BLOCKS).into(),
            columns: Vec::new(),
            newest: 0,
        }
    }
}

impl Marconi {
    /// Work to compute a block, by that for the first of a prefix.
    fn saving(&self, class: usize) -> f64 {
        1.0 + (start(class) - 1.0) / self.attention_blocks
    }
}

impl Classes for Marconi {
    fn name(&self) -> &'static str {
        "marconi"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (0, 0));
        self.columns[block as usize].0 = bucket(view.pool.depth(block).saturating_add(1));
        self.release(block, view);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.release(block, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].1 = view.now;
        self.newest = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].0 as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].1, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        let most = (0..heads.classes()).rfind(|&class| !heads.is_empty(class)).unwrap_or(0);
        let least_idle = (view.now - self.newest).max(1) as f64;
        let mut least = (f64::INFINITY, u128::MAX, 0);
        for class in 0..=most {
            if let Some((block, rank)) = heads.first(class) {
                let idle = (view.now - self.columns[block as usize].1).max(1) as f64;
                let saving = self.saving(class) / self.saving(most);
                let score = least_idle / idle + self.alpha * saving;
                if (score, rank) < (least.0, least.1) {
                    least = (score, rank, class);
                }
            }
        }
        least.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fall_into_buckets_in_order() {
        let mut last = 0;
        for place in (1..5_000).chain((13..32).map(|bits| 1 << bits)) {
            let b = bucket(place);
            assert!(b >= last && start(b.into()) <= f64::from(place), "{place}");
            assert!(
                f64::from(place) < start(usize::from(b) + 1).max(f64::from(place) + 0.5),
                "{place}"
            );
            last = b;
        }
        assert_eq!(bucket(u32::MAX), 31 * 4 + 3);
    }
}
