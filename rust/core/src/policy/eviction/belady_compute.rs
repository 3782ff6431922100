//! Belady's rule weighed by work: the block goes first whose time to its next use is longest by what it costs to compute.
//!
//! A block's cost grows with its place in the prefix, because attention does, so hits are not worth the same, and the rule
//! that hits most does not save most. This one evicts the greatest `log(next use - now) - log(cost)`, and what is never
//! used again before all else (`BeladyCompute`, arXiv 2609.28870). It is the best rule known for compute saved, not an
//! optimum.
//!
//! Time counts requests. Blocks whose places differ by less than a 32nd of a power of two are of one class and cost the
//! same; so within a class the farthest next use goes first, and heads are compared.

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    ATTENTION_BLOCKS, BlockAccess, Configured, NEVER, PolicyOption, PolicyOptions, View, grow,
};
use crate::pool::BlockId;

const STEPS: u32 = 32;

/// The class of a place in the prefix, counted from 1.
fn class_of(place: u32) -> u16 {
    if place < STEPS {
        return place as u16;
    }
    let octave = place.ilog2();
    let step = ((u64::from(place) * u64::from(STEPS)) >> octave) as u32 - STEPS;
    (STEPS + (octave - STEPS.ilog2()) * STEPS + step) as u16
}

/// The first place of a class.
fn first_place(class: usize) -> f64 {
    let class = class as u32;
    if class < STEPS {
        return class.into();
    }
    let (octave, step) = ((class - STEPS) / STEPS, (class - STEPS) % STEPS);
    f64::from(STEPS + step) * f64::from(octave).exp2()
}

/// Next uses, and classes of blocks that cost the same.
#[derive(Debug, Clone)]
pub struct BeladyCompute {
    attention_blocks: f64,
    next: Vec<u32>,
    class: Vec<u16>,
    /// The index of the request that is served, as far as its blocks tell: one that hits has a block whose next use this
    /// is.
    request: u32,
    is_known: bool,
    inserted: Option<u64>,
}

impl Configured for BeladyCompute {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            attention_blocks: options.get(&ATTENTION_BLOCKS).into(),
            next: Vec::new(),
            class: Vec::new(),
            request: 0,
            is_known: false,
            inserted: None,
        }
    }
}

impl BeladyCompute {
    /// How long until the block is used, by what it costs to compute it.
    fn wait(&self, block: BlockId, class: usize) -> f64 {
        match self.next[block as usize] {
            NEVER => f64::INFINITY,
            next => {
                let cost = 1.0 + (first_place(class) - 1.0) / self.attention_blocks;
                (f64::from(next) - f64::from(self.request)) / cost
            }
        }
    }
}

impl Classes for BeladyCompute {
    fn name(&self) -> &'static str {
        "belady-compute"
    }

    fn needs_future(&self) -> bool {
        true
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        if self.inserted != Some(view.now) {
            self.request = self.request.saturating_add(u32::from(!self.is_known));
            self.is_known = false;
            self.inserted = Some(view.now);
        }
        grow(&mut self.next, block, NEVER);
        grow(&mut self.class, block, 0);
        self.next[block as usize] = touch.next();
        self.class[block as usize] = class_of(view.pool.depth(block).saturating_add(1));
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, _: View<'_>) {
        let due = self.next[block as usize];
        if due != NEVER {
            self.request = due;
            self.is_known = true;
        }
        self.next[block as usize] = touch.next();
    }

    fn class(&self, block: BlockId) -> usize {
        self.class[block as usize].into()
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(NEVER - self.next[block as usize], 0, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        let mut most = (f64::NEG_INFINITY, u128::MAX, 0);
        for class in 0..heads.classes() {
            if let Some((block, rank)) = heads.first(class) {
                let wait = self.wait(block, class);
                if wait > most.0 || (wait >= most.0 && rank < most.1) {
                    most = (wait, rank, class);
                }
            }
        }
        most.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_exact_first_and_then_a_32nd_of_an_octave() {
        let mut last = 0;
        for place in (1..5_000).chain((13..32).map(|bits| 1 << bits)) {
            let class = class_of(place);
            let first = first_place(class.into());
            assert!(class >= last && first <= f64::from(place), "{place}");
            assert!(f64::from(place) < first * (1.0 + 1.0 / 32.0) + 0.5, "{place}: {first}");
            assert!(place > 64 || (first - f64::from(place)).abs() < 1e-9, "{place}");
            last = class;
        }
    }
}
