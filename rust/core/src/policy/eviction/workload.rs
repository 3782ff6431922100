//! The workload-aware policy of "`KVCache` in the Wild" (Wang et al., USENIX ATC 2025): how likely a block
//! is used again depends on the type of the request that computed it, on the turn, and on how long
//! it has been idle.
//!
//! Turns are counted along the prefix, so that no session has to be named. The paper fits its curves
//! in the background from a sampled history; here each use counts as it comes, and evicted blocks are
//! watched for as long as there are blocks.

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Ghosts;
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::returns::Returns;
use crate::policy::{BlockAccess, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL};

/// Types of requests that are told apart; higher ones count as the last.
const TYPES: u32 = 4;
/// Turns 0, 1, 2–3, 4–7, 8–15 and more.
const TURNS: u32 = 6;

/// 0, 1, 2–3, 4–7, … as 0, 1, 2, 3, …
pub(crate) fn log(turn: u32) -> u32 {
    turn.checked_ilog2().map_or(0, |log| (log + 1).min(TURNS - 1))
}

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    /// The turn that computed it.
    turn: u32,
    inserted: u64,
    last: u64,
}

/// Types and turns are the blocks' classes.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    columns: Vec<Column>,
    returns: Returns,
    /// (class, tick of the last use)
    ghosts: Ghosts<(u8, u64)>,
}

impl Classes for Workload {
    fn name(&self) -> &'static str {
        "workload"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        if let Some((class, last)) = self.ghosts.forget(view.pool.key(block)) {
            self.returns.returned(class.into(), view.now - last);
        }
        let parent = view.pool.parent(block);
        let turn = match self.columns.get(parent as usize) {
            Some(p) if parent != NIL => p.turn + u32::from(p.inserted != view.now),
            _ => 0,
        };
        let class = (touch.access.meta.class.min(TYPES - 1) * TURNS + log(turn)) as u8;
        self.returns.begin(class.into());
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] = Column { class, turn, inserted: view.now, last: view.now };
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let Column { class, last, .. } = self.columns[block as usize];
        self.returns.returned(class.into(), view.now - last);
        self.returns.begin(class.into());
        self.columns[block as usize].last = view.now;
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

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        self.returns.least(heads, view.now, |block| self.columns[block as usize].last)
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        if cause == RemovalCause::Evicted {
            let Column { class, last, .. } = self.columns[block as usize];
            self.returns.evicted(view.now - last);
            self.ghosts.add(view.pool.key(block), (class, last));
            self.ghosts.trim(view.pool.usable() as usize);
        }
    }
}
