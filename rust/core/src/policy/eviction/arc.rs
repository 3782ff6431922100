//! ARC: recency and frequency share the cache by what their ghosts would have hit (Megiddo and
//! Modha, FAST 2003).

use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Memory;
use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, RemovalCause, View, grow};
use crate::pool::BlockId;

const ONCE: usize = 0;
const OFTEN: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    last: u64,
}

/// T1 and T2 are the blocks' classes, B1 and B2 the ghosts; `target` is what T1 should hold.
#[derive(Debug, Clone, Default)]
pub struct Arc {
    columns: Vec<Column>,
    sizes: [usize; 2],
    ghosts: [Memory<()>; 2],
    target: f64,
    /// The ghosts that the block to come was among.
    coming: Option<usize>,
}

impl Arc {
    /// The target follows the ghosts of `list`, which held `before` of them until one was found.
    fn adapt(&mut self, list: usize, before: [usize; 2], capacity: f64) {
        let step = (before[1 - list] as f64 / before[list] as f64).max(1.0);
        let signed = if list == ONCE { step } else { -step };
        self.target = (self.target + signed).clamp(0.0, capacity);
    }

    fn remembered(&self) -> [usize; 2] {
        [self.ghosts[ONCE].len(), self.ghosts[OFTEN].len()]
    }
}

impl Classes for Arc {
    fn name(&self) -> &'static str {
        "arc"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let (key, capacity) = (view.pool.key(block), f64::from(view.pool.usable()));
        let before = self.remembered();
        let mut class = ONCE;
        for list in [ONCE, OFTEN] {
            if let Some((called, ())) = self.ghosts[list].forget(key) {
                class = OFTEN;
                // A generated block exists before any request has asked for its key.
                if !called {
                    self.adapt(list, before, capacity);
                }
            }
        }
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] = Column { class: class as u8, last: view.now };
        self.sizes[class] += 1;
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let column = &mut self.columns[block as usize];
        self.sizes[column.class as usize] -= 1;
        self.sizes[OFTEN] += 1;
        *column = Column { class: OFTEN as u8, last: view.now };
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].last, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        let once = self.sizes[ONCE] as f64;
        let over = once > self.target || (self.coming == Some(OFTEN) && once >= self.target);
        heads.first_of(if over { &[ONCE, OFTEN] } else { &[OFTEN, ONCE] })
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        let class = self.columns[block as usize].class as usize;
        self.sizes[class] -= 1;
        if cause != RemovalCause::Evicted {
            return;
        }
        self.ghosts[class].add(view.pool.key(block), ());
        // T1 and B1 hold one capacity at the most, all lists two. A block that was no ghost joins T1.
        let new = usize::from(self.coming.take().is_none());
        let (blocks, [once, often]) = (view.pool.usable(), self.sizes);
        let capacity = blocks as usize;
        self.ghosts[ONCE].trim(capacity.saturating_sub(once + new), blocks);
        let others = once + often + self.ghosts[ONCE].len() + new;
        self.ghosts[OFTEN].trim((2 * capacity).saturating_sub(others), blocks);
    }

    fn on_miss(&mut self, key: Key, view: View<'_>) {
        let before = self.remembered();
        self.coming = [ONCE, OFTEN].into_iter().find(|&list| self.ghosts[list].call(key).is_some());
        if let Some(list) = self.coming {
            self.adapt(list, before, f64::from(view.pool.usable()));
        }
    }

    fn wants_misses(&self) -> bool {
        true
    }
}
