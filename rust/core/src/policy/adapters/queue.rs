//! All members of a bounded list in their order, those that may not be evicted now, too.

use super::heap::{Entry, Heap};
use crate::policy::{View, grow};
use crate::pool::{BlockId, NIL};

/// Blocks by rank, the lowest first. Adding, moving and taking out one is O(log n).
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    heap: Heap,
    places: Vec<u32>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The member that leaves first, and its rank.
    pub fn first(&self) -> Option<(BlockId, u128)> {
        self.heap.first().map(|entry| (entry.block(), entry.rank()))
    }

    /// Puts `block` where `rank` says, wherever it was before.
    pub fn put(&mut self, block: BlockId, rank: u128) {
        self.take(block);
        grow(&mut self.places, block, NIL);
        self.heap.push(&mut self.places, Entry::new(0, rank, block));
    }

    /// Takes `block` out; false if it is no member.
    pub fn take(&mut self, block: BlockId) -> bool {
        let place = self.places.get(block as usize).copied().filter(|&at| at != NIL);
        if let Some(at) = place {
            self.heap.take_out(&mut self.places, at as usize);
        }
        place.is_some()
    }

    /// Takes out the member that leaves first, if there are more than `most`.
    pub fn over(&mut self, most: usize) -> Option<BlockId> {
        let (block, _) = self.first().filter(|_| self.len() > most)?;
        self.take(block);
        Some(block)
    }
}

/// That share of all blocks, rounded down.
pub(crate) fn share(view: View<'_>, percent: u32) -> usize {
    (u64::from(view.pool.usable()) * u64::from(percent) / 100) as usize
}
