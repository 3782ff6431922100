//! From a weight to an order by samples: some of the blocks that may be evicted are drawn, and the one that
//! weighs least is evicted.

use super::dice::Dice;
use super::leaves::Leaves;
use crate::policy::{Access, Consulted, Eviction, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL, Pool};

/// What a block has been through, as far as samples are weighed by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Blocks of the prefix before it.
    pub depth: u32,
    /// Uses since it became findable, the first included.
    pub uses: u32,
    /// Accesses of any block since its last use.
    pub age: u64,
}

/// A policy that weighs what is drawn.
pub trait Weighed: Clone + Send + 'static {
    /// Its name in configuration.
    const NAME: &'static str;
    /// The least is evicted; of equals, what was drawn first.
    fn weight(&self, drawn: Drawn) -> f64;
    /// How many are drawn; where no more may be evicted, each is looked at instead.
    fn samples(&self) -> u32;
    /// How many blocks of a node the tail loses after one draw.
    fn chunk(&self) -> u32 {
        1
    }
}

/// How often a block was used, and at which access last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    uses: u32,
    last: u64,
}

/// The rest of a node's chunk: blocks of one node have been used together, always. What `next` must have been
/// through to be one of them is `seen`.
#[derive(Debug, Clone, Copy)]
struct Rest {
    next: BlockId,
    seen: Seen,
    left: u32,
}

/// An [`Eviction`] of [`Weighed`]: O(samples) a victim, 24 bytes a block.
#[derive(Debug, Clone)]
pub struct Sampled<P> {
    policy: P,
    dice: Dice,
    leaves: Leaves,
    seen: Vec<Seen>,
    /// Block accesses so far.
    time: u64,
    rest: Option<Rest>,
}

impl<P: Weighed> Sampled<P> {
    pub(crate) fn new(policy: P, seed: u32) -> Self {
        let (dice, leaves, seen) = (Dice::of(seed), Leaves::default(), Vec::new());
        Self { policy, dice, leaves, seen, time: 0, rest: None }
    }

    fn used(&mut self, block: BlockId, uses: u32) {
        self.time += 1;
        self.seen[block as usize] = Seen { uses, last: self.time };
    }

    fn weight(&self, block: BlockId, pool: &Pool) -> f64 {
        let Seen { uses, last } = self.seen[block as usize];
        self.policy.weight(Drawn { depth: pool.depth(block), uses, age: self.time - last })
    }

    fn draw(&mut self, pool: &Pool) -> Option<BlockId> {
        let (leaves, samples) = (self.leaves.lowest().len(), self.policy.samples() as usize);
        let mut best: Option<(f64, BlockId)> = None;
        for i in 0..samples.min(leaves) {
            let at = if leaves <= samples { i } else { self.dice.below(leaves) };
            let block = self.leaves.lowest()[at];
            let weight = self.weight(block, pool);
            if best.is_none_or(|(least, _)| weight < least) {
                best = Some((weight, block));
            }
        }
        best.map(|(_, block)| block)
    }

    /// The next block of a node that has not lost its chunk yet, if it has not been used since.
    fn rest(&self) -> Option<Rest> {
        self.rest.filter(|rest| {
            rest.left > 0
                && self.leaves.is_lowest(rest.next)
                && self.seen[rest.next as usize] == rest.seen
        })
    }
}

impl<P: Weighed> Consulted for Sampled<P> {}

impl<P: Weighed> Eviction for Sampled<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn insert(&mut self, blocks: &[BlockId], _: Access<'_>, _: View<'_>) {
        for &block in blocks {
            grow(&mut self.seen, block, Seen::default());
            self.used(block, 1);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], _: Access<'_>, _: View<'_>) {
        for &block in blocks {
            let uses = self.seen[block as usize].uses.saturating_add(1);
            self.used(block, uses);
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.leaves.take(block);
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            if view.pool.is_evictable(block) {
                self.leaves.put(block, view);
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.leaves.put(block, view);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if self.leaves.take(block) {
            self.leaves.put(block, view);
        }
    }

    fn remove(&mut self, block: BlockId, _: RemovalCause, _: View<'_>) {
        self.leaves.take(block);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        let (block, left) = match self.rest() {
            Some(rest) => (rest.next, rest.left),
            None => (self.draw(view.pool)?, self.policy.chunk()),
        };
        // Blocks that are used together are accessed one after the other.
        let (next, Seen { uses, last }) = (view.pool.parent(block), self.seen[block as usize]);
        let seen = Seen { uses, last: last - 1 };
        self.rest = (next != NIL && left > 1).then_some(Rest { next, seen, left: left - 1 });
        Some(block)
    }

    fn next(&self, _: View<'_>) -> Option<BlockId> {
        self.rest().map(|rest| rest.next).or_else(|| self.leaves.lowest().first().copied())
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let mut rest = self.clone();
        std::iter::from_fn(|| {
            let block = rest.victim(view)?;
            rest.leaves.take(block);
            Some(block)
        })
        .take(most)
        .collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.leaves.validate(pool).map_err(|fault| format!("{}: {fault}", P::NAME))
    }
}
