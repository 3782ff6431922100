//! CLOCK, the second-chance FIFO: what was used goes another round (Corbató, 1968).

use super::classed::{Classes, Heads};
use super::ranked::pack;
use super::{Touch, View, grow};
use crate::pool::BlockId;

/// (time of insertion or of its last round, used since)
#[derive(Debug, Clone, Default)]
pub struct Clock {
    columns: Vec<(u64, bool)>,
}

impl Classes for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        grow(&mut self.columns, block, (0, false));
        self.columns[block as usize] = (view.now, false);
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, _: View<'_>) {
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

    fn spare(&mut self, block: BlockId, view: View<'_>) -> bool {
        let (since, used) = &mut self.columns[block as usize];
        *since = if *used { view.now } else { *since };
        std::mem::replace(used, false)
    }
}
