//! The built-in order that stands in for a policy with an order of its own. It stores 8 bytes a
//! block, and builds a list only when it has to name a victim.

use kvframe_core::policy::{Eviction, Lru, RemovalCause, View};
use kvframe_core::pool::{BlockId, State};

/// Least recently used, as [`Lru`] has it.
#[derive(Debug, Default)]
pub struct Spare {
    /// By block: larger was released later, or comes before in a prefix released with it.
    stamps: Vec<u64>,
    clock: u64,
    order: Option<Lru>,
}

impl Spare {
    pub fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        if let Some(order) = &mut self.order {
            order.acquire(blocks, view);
        }
    }

    pub fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        if let Some(order) = &mut self.order {
            return order.release(blocks, view);
        }
        let created = view.pool.created() as usize;
        if self.stamps.len() < created {
            self.stamps.resize(created, 0);
        }
        for &block in blocks.iter().rev() {
            self.clock += 1;
            self.stamps[block as usize] = self.clock;
        }
    }

    pub fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        if let Some(order) = &mut self.order {
            order.remove(block, cause, view);
        }
    }

    pub fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        if let Some(order) = &mut self.order {
            order.on_evictable(block, view);
        }
    }

    pub fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if let Some(order) = &mut self.order {
            order.priority_changed(block, view);
        }
    }

    /// The block that the built-in order names; none of `aside`.
    pub fn victim(&mut self, aside: &[BlockId], view: View<'_>) -> Option<BlockId> {
        let cached = self.cached(aside, view);
        self.order.get_or_insert_with(|| list(&cached, view)).victim(view)
    }

    /// The first `most` cached blocks, the next to be evicted first.
    pub fn order(&self, aside: &[BlockId], view: View<'_>, most: usize) -> Vec<BlockId> {
        if let Some(order) = &self.order {
            return order.order(view, most);
        }
        let mut cached = self.cached(aside, view);
        cached.truncate(most);
        cached
    }

    /// The cached blocks in order while there is no list; empty once there is one. Blocks set `aside` count as
    /// cached: only the operation under way owns them.
    fn cached(&self, aside: &[BlockId], view: View<'_>) -> Vec<BlockId> {
        if self.order.is_some() {
            return Vec::new();
        }
        let is_cached = |&block: &BlockId| {
            view.pool.state(block) == State::Cached || aside.binary_search(&block).is_ok()
        };
        let mut blocks: Vec<BlockId> = (0..view.pool.created()).filter(is_cached).collect();
        blocks.sort_unstable_by_key(|&block| self.stamps[block as usize]);
        blocks
    }
}

fn list(cached: &[BlockId], view: View<'_>) -> Lru {
    let mut order = Lru::default();
    let latest_first: Vec<BlockId> = cached.iter().rev().copied().collect();
    order.release(&latest_first, view);
    order
}
