//! The least work saved by the chance of another use, which falls slowly up to a gap and steeply after it
//! (`AsymCache`, arXiv 2606.02964).
//!
//! A block of cost `ΔT` that was used `τ` ago is worth `f(τ) · ΔT` with
//! `f(τ) = min(exp(-τ / α), exp(-(τ - τ0) / β))`, where `α = -L / ln p`, `β = α / r`, `τ0 = L (1 - 1 / r)`,
//! `p = 0.5` and `r = 40`. The order under each of the two terms never changes by itself, so a heap for each
//! and a comparison of their heads give the least exactly. `L` is the 99th percentile of the gaps between uses
//! of a block up to the first eviction. The paper counts seconds, and takes 180 of them where no block was used
//! twice by then; here a policy sees ticks, and takes 4,096.

use crate::policy::adapters::heap::{Entry, Heap};
use crate::policy::{
    ATTENTION_BLOCKS, Access, Configured, Consulted, Eviction, PolicyOption, PolicyOptions,
    RemovalCause, View, grow,
};
use crate::pool::{BlockId, NIL, Pool};

/// The chance that is left at `L`, and how much steeper it falls from there on.
const CHANCE: f64 = 0.5;
const STEEPER: f64 = 40.0;
/// `L` in ticks where no block was used twice before the first eviction.
const UNKNOWN: f64 = 4_096.0;
/// Gaps that are kept at the most.
const GAPS: usize = 1 << 16;

/// A term of `f`: exp(-(τ - start) / scale).
#[derive(Debug, Clone, Copy)]
struct Term {
    scale: f64,
    start: f64,
}

/// Both, for a gap of `L`.
fn terms(gap: f64) -> [Term; 2] {
    let scale = -gap / CHANCE.ln();
    let late = Term { scale: scale / STEEPER, start: gap * (1.0 - 1.0 / STEEPER) };
    [Term { scale, start: 0.0 }, late]
}

impl Term {
    /// ln of a block's worth at time 0; it falls by 1 each `scale` ticks for every block alike.
    fn key(self, cost: f64, last: u64) -> f64 {
        cost.ln() + (last as f64 + self.start) / self.scale
    }

    fn rank(self, cost: f64, last: u64, depth: u32) -> u128 {
        // Bits of floats that are not negative are in their order.
        (u128::from(self.key(cost, last).to_bits()) << 32) | u128::from(u32::MAX - depth)
    }

    /// ln of its worth at `now`.
    fn worth(self, rank: u128, now: u64) -> f64 {
        f64::from_bits((rank >> 32) as u64) - now as f64 / self.scale
    }
}

/// The leaves by one of the terms.
#[derive(Debug, Clone)]
struct Side {
    term: Term,
    heap: Heap,
    places: Vec<u32>,
}

/// See the module: 16 bytes a block, and 24 more a leaf and side.
#[derive(Debug, Clone)]
pub struct AsymCache {
    attention_blocks: f64,
    /// Tick at which a block was used or left last.
    last: Vec<u64>,
    sides: [Side; 2],
    /// None after the first eviction.
    gaps: Option<Vec<u64>>,
}

impl Configured for AsymCache {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS];

    fn with(options: PolicyOptions<'_>) -> Self {
        let side = |term| Side { term, heap: Heap::default(), places: Vec::new() };
        Self {
            attention_blocks: options.get(&ATTENTION_BLOCKS).into(),
            last: Vec::new(),
            sides: terms(UNKNOWN).map(side),
            gaps: Some(Vec::new()),
        }
    }
}

impl AsymCache {
    fn put(&mut self, block: BlockId, pool: &Pool) {
        let (depth, last) = (pool.depth(block), self.last[block as usize]);
        let cost = 1.0 + f64::from(depth) / self.attention_blocks;
        for side in &mut self.sides {
            grow(&mut side.places, block, NIL);
            let entry = Entry::of(pool, block, side.term.rank(cost, last, depth));
            side.heap.push(&mut side.places, entry);
        }
    }

    fn take_out(&mut self, block: BlockId) -> bool {
        self.sides.iter_mut().fold(false, |_, side| {
            let place = side.places.get(block as usize).copied().filter(|&at| at != NIL);
            if let Some(at) = place {
                side.heap.take_out(&mut side.places, at as usize);
            }
            place.is_some()
        })
    }

    /// Before the first eviction: from now on the terms are those of the gaps seen so far.
    fn settle(&mut self, mut gaps: Vec<u64>, pool: &Pool) {
        if gaps.is_empty() {
            return;
        }
        let at = (gaps.len() * 99).div_ceil(100) - 1;
        let gap = *gaps.select_nth_unstable(at).1;
        let leaves: Vec<BlockId> = self.sides[0].heap.entries().iter().map(|e| e.block()).collect();
        for (side, term) in self.sides.iter_mut().zip(terms(gap.max(1) as f64)) {
            *side = Side { term, heap: Heap::default(), places: Vec::new() };
        }
        for block in leaves {
            self.put(block, pool);
        }
    }

    fn least(&self, now: u64) -> Option<BlockId> {
        let [near, far] = &self.sides;
        let (a, b) = (near.heap.first()?, far.heap.first()?);
        let is_near = near.term.worth(a.rank(), now) <= far.term.worth(b.rank(), now);
        Some(if is_near { a.block() } else { b.block() })
    }
}

impl Consulted for AsymCache {}

impl Eviction for AsymCache {
    fn name(&self) -> &'static str {
        "asymcache"
    }

    fn insert(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        for &block in blocks {
            grow(&mut self.last, block, 0);
            self.last[block as usize] = view.now;
        }
    }

    fn hit(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        for &block in blocks {
            let last = std::mem::replace(&mut self.last[block as usize], view.now);
            if let Some(gaps) = self.gaps.as_mut().filter(|gaps| gaps.len() < GAPS) {
                gaps.push(view.now - last);
            }
            // A computed copy may touch a block without an owner.
            if self.take_out(block) {
                self.put(block, view.pool);
            }
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.take_out(block);
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            self.last[block as usize] = view.now;
            if view.pool.is_evictable(block) {
                self.put(block, view.pool);
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.put(block, view.pool);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if self.take_out(block) {
            self.put(block, view.pool);
        }
    }

    fn remove(&mut self, block: BlockId, _: RemovalCause, _: View<'_>) {
        self.take_out(block);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        if let Some(gaps) = self.gaps.take() {
            self.settle(gaps, view.pool);
        }
        self.least(view.now)
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        self.least(view.now)
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let mut rest = self.clone();
        std::iter::from_fn(|| {
            let block = rest.victim(view)?;
            rest.take_out(block);
            Some(block)
        })
        .take(most)
        .collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        for side in &self.sides {
            side.heap.validate(&side.places).map_err(|fault| format!("asymcache: {fault}"))?;
            side.heap.validate_blocks(pool).map_err(|fault| format!("asymcache: {fault}"))?;
            let held = side.heap.len();
            if leaves != held {
                return Err(format!("asymcache: {held} held, {leaves} may be evicted"));
            }
        }
        Ok(())
    }
}
