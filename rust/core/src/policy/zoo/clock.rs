//! CLOCK, the second-chance FIFO: what was used goes another round (Corbató, 1968).

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::turns::Turns;
use crate::policy::{BlockAccess, View, grow};
use crate::pool::BlockId;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// (place in the queue, used since it got there)
    columns: Vec<(u64, bool)>,
    turns: Turns,
}

impl Classes for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (0, false));
        self.columns[block as usize] = (self.turns.at(view.now), false);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, _: View<'_>) {
        self.columns[block as usize].1 = true;
    }

    fn class(&self, _: BlockId) -> usize {
        0
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].0, view.pool.depth(block))
    }

    fn choose(&mut self, _: Heads<'_>, _: View<'_>) -> usize {
        0
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        let (since, used) = &mut self.columns[block as usize];
        if *used {
            *since = self.turns.next();
        }
        std::mem::replace(used, false)
    }
}
