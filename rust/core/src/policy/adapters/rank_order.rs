//! From a ranking to an order: a heap over the evictable leaves.

use super::heap::{Entry, Heap};
use crate::policy::{Access, BlockAccess, Eviction, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL, Pool};

/// A policy that only ranks. Columns are its own; `grow` them in `insert` and `acquire`.
pub trait Rank: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;
    /// A block became findable.
    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>);
    /// An allocation found it.
    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>);
    /// An allocation found all of `blocks`.
    fn hit_all(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.hit(block, BlockAccess { access: &access, i }, view);
        }
    }
    /// It got an owner, free or cached as it was.
    fn acquire(&mut self, _block: BlockId) {}
    /// Its last owner left.
    fn release(&mut self, block: BlockId, view: View<'_>);
    /// Lower is evicted first. Must not change while the block is neither hit, acquired nor released.
    fn rank(&self, block: BlockId, view: View<'_>) -> u128;
    /// It was the victim, at this rank.
    fn evicted(&mut self, _rank: u128) {}
    /// See [`Eviction::needs_future`].
    fn needs_future(&self) -> bool {
        false
    }
    /// See [`Eviction::refuses`].
    fn refuses(&self, _next_use: u32, _victim: BlockId) -> bool {
        false
    }
}

/// Packs a rank: a main number, then the time of last use, then the deeper block first.
pub fn pack(main: u32, last: u64, depth: u32) -> u128 {
    (u128::from(main) << 96) | (u128::from(last) << 32) | u128::from(u32::MAX - depth)
}

/// An [`Eviction`] that takes the lowest [`Rank`] among the leaves: O(log n) a leaf, nothing for
/// blocks inside a prefix.
#[derive(Debug, Clone)]
pub struct RankOrder<R> {
    policy: R,
    heap: Heap,
    place: Vec<u32>,
}

impl<R: Rank> RankOrder<R> {
    /// The order of `policy`.
    pub fn new(policy: R) -> Self {
        Self { policy, heap: Heap::default(), place: Vec::new() }
    }

    fn push(&mut self, block: BlockId, view: View<'_>) {
        grow(&mut self.place, block, NIL);
        let entry = Entry::of(view.pool, block, self.policy.rank(block, view));
        self.heap.push(&mut self.place, entry);
    }

    /// Where a block stands in the heap, if it does: blocks inside a prefix do not.
    fn placed(&self, block: BlockId) -> Option<usize> {
        self.place.get(block as usize).filter(|&&at| at != NIL).map(|&at| at as usize)
    }

    fn take_out(&mut self, block: BlockId) -> bool {
        let at = self.placed(block);
        if let Some(at) = at {
            self.heap.take_out(&mut self.place, at);
        }
        at.is_some()
    }
}

impl<R: Rank> Eviction for RankOrder<R> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.policy.insert(block, BlockAccess { access: &access, i }, view);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.policy.hit(block, BlockAccess { access: &access, i }, view);
            // A computed copy may touch a block without an owner: its rank has changed.
            if self.take_out(block) {
                self.push(block, view);
            }
        }
    }

    fn take(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.policy.acquire(block);
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.policy.acquire(block);
            self.take_out(block);
        }
    }

    fn own(&mut self, blocks: &[BlockId], first: &[BlockId], access: Access<'_>, view: View<'_>) {
        for &block in first {
            self.policy.acquire(block);
            // Others are inside a prefix, and not in the heap.
            if view.pool.children(block) == 0 {
                self.take_out(block);
            }
        }
        // With an owner none of them is in the heap, so none has to move there.
        self.policy.hit_all(blocks, access, view);
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            self.policy.release(block, view);
            // All of them are cached.
            if view.pool.children(block) == 0 {
                self.push(block, view);
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.push(block, view);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if self.take_out(block) {
            self.push(block, view);
        }
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, _: View<'_>) {
        if let Some(at) = self.placed(block) {
            if cause == RemovalCause::Evicted {
                self.policy.evicted(self.heap.entries()[at].rank());
            }
            self.heap.take_out(&mut self.place, at);
        }
    }

    fn victim(&mut self, _: View<'_>) -> Option<BlockId> {
        self.heap.first().map(Entry::block)
    }

    fn next(&self, _: View<'_>) -> Option<BlockId> {
        self.heap.first().map(Entry::block)
    }

    fn needs_future(&self) -> bool {
        self.policy.needs_future()
    }

    fn refuses(&self, next_use: u32, victim: BlockId) -> bool {
        self.policy.refuses(next_use, victim)
    }

    fn order(&self, _: View<'_>, most: usize) -> Vec<BlockId> {
        self.heap.first_few(most).into_iter().map(Entry::block).collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let name = self.policy.name();
        self.heap.validate(&self.place).map_err(|fault| format!("{name}: {fault}"))?;
        self.heap.validate_blocks(pool).map_err(|fault| format!("{name}: {fault}"))?;
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        if leaves != self.heap.len() {
            return Err(format!(
                "{name}: {} in the heap, {leaves} may be evicted",
                self.heap.len()
            ));
        }
        Ok(())
    }
}
