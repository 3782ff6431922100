//! SIEVE: a FIFO whose hand spares what was used since it last came by, without moving it (Zhang et
//! al., NSDI 2024).

use super::classed::{Classes, Heads};
use super::ranked::pack;
use super::{Touch, View, grow};
use crate::pool::BlockId;

/// The hand moves from the oldest on. Blocks ahead of it are one class, those behind it the other;
/// when it starts anew, the two change their parts.
#[derive(Debug, Clone, Default)]
pub struct Sieve {
    /// (place in the queue, used since the hand came by)
    columns: Vec<(u128, bool)>,
    hand: u128,
    ahead: usize,
}

impl Classes for Sieve {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (0, false));
        self.columns[block as usize] = (pack(0, view.now, view.pool.depth(block)), false);
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, _: View<'_>) {
        self.columns[block as usize].1 = true;
    }

    fn class(&self, block: BlockId) -> usize {
        if self.columns[block as usize].0 > self.hand { self.ahead } else { 1 - self.ahead }
    }

    fn rank(&self, block: BlockId, _: View<'_>) -> u128 {
        self.columns[block as usize].0
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        if heads.is_empty(self.ahead) {
            (self.hand, self.ahead) = (0, 1 - self.ahead);
        }
        self.ahead
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        let (place, used) = &mut self.columns[block as usize];
        self.hand = *place;
        std::mem::replace(used, false)
    }
}
