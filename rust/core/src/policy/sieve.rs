//! SIEVE: a FIFO whose hand spares what was used since it last came by, without moving it (Zhang et
//! al., NSDI 2024).

use super::classed::{Classes, Heads};
use super::{Touch, View, Why, grow};
use crate::pool::BlockId;

/// The hand moves from the oldest on. Blocks ahead of it are one class, those behind it the other;
/// when it starts anew, the two change their parts. It does so behind the newest block, even if others
/// come before the next one must die.
#[derive(Debug, Clone, Default)]
pub struct Sieve {
    /// (place in the queue, used since the hand came by)
    columns: Vec<(u128, bool)>,
    hand: u128,
    newest: u128,
    ahead: usize,
}

impl Sieve {
    fn start_anew(&mut self) {
        (self.hand, self.ahead) = (0, 1 - self.ahead);
    }
}

impl Classes for Sieve {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (0, false));
        // Each its own, in the order of `pack` and the heap: the hand must pass no two at once.
        let deeper = u32::MAX - view.pool.depth(block);
        let place = (u128::from(view.now) << 64) | (u128::from(deeper) << 32) | u128::from(block);
        self.columns[block as usize] = (place, false);
        self.newest = self.newest.max(place);
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
            self.start_anew();
        }
        self.ahead
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        let (place, used) = &mut self.columns[block as usize];
        self.hand = *place;
        std::mem::replace(used, false)
    }

    fn removed(&mut self, _: BlockId, _: Why, _: View<'_>) {
        if self.hand == self.newest {
            self.start_anew();
        }
    }
}
