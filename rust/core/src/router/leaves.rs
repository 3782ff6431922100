//! Blocks without a child, in the order they were last used.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::places::Row;

/// A block without a child, as far as was known when it was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    /// The tick of its last use.
    pub used: u32,
    pub key: u64,
    pub row: Row,
}

/// A queue that is corrected late: a block used since it was queued is queued again when its turn
/// comes, and one that is gone, or no leaf any more, is left out then.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    heap: BinaryHeap<Reverse<Leaf>>,
    /// The parent of the block that went last goes next, mostly: it waits outside of the heap.
    front: Option<Leaf>,
}

impl Leaves {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub fn push(&mut self, leaf: Leaf) {
        self.heap.push(Reverse(leaf));
    }

    /// Queues a leaf that is likely to be dropped, or to stop being a leaf, with the next call.
    pub fn push_front(&mut self, leaf: Leaf) {
        if let Some(before) = self.front.replace(leaf) {
            self.push(before);
        }
    }

    /// Notes that a block is gone. If it is still in the heap, its entry is dropped when its turn comes.
    #[inline]
    pub fn forget_front(&mut self, row: Row) {
        if self.front.is_some_and(|front| front.row == row) {
            self.front = None;
        }
    }

    /// The leaf that was used least lately.
    pub fn pop(&mut self) -> Option<Leaf> {
        match (self.front, self.heap.peek()) {
            (Some(front), least) if least.is_none_or(|&Reverse(least)| front <= least) => {
                self.front.take()
            }
            _ => self.heap.pop().map(|Reverse(leaf)| leaf),
        }
    }

    /// What is queued is replaced.
    pub fn refill(&mut self, leaves: Vec<Leaf>) {
        *self = Self { heap: leaves.into_iter().map(Reverse).collect(), front: None };
    }
}
