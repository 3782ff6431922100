//! Least recently used within each retention priority: the leaves in a heap, for pools where some block
//! has another priority than the default.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::heap::{Entry, Heap};
use crate::policy::grow;
use crate::pool::{BlockId, NIL, Pool, State};

/// The order. Blocks inside a prefix wait until what follows them is gone.
#[derive(Debug, Default)]
pub struct PriorityBuckets {
    heap: Heap,
    places: Vec<u32>,
    /// By block: larger was released later, or comes before in a prefix released with it.
    stamps: Vec<u64>,
    clock: u64,
}

impl PriorityBuckets {
    /// `blocks`, in the order of their prefix, are cached from now on.
    pub fn release(&mut self, blocks: &[BlockId], pool: &Pool) {
        for &block in blocks.iter().rev() {
            self.clock += 1;
            grow(&mut self.stamps, block, 0);
            self.stamps[block as usize] = self.clock;
            if pool.is_evictable(block) {
                self.push(block, pool);
            }
        }
    }

    /// The last block after `block` is gone.
    pub fn on_evictable(&mut self, block: BlockId, pool: &Pool) {
        if self.place(block).is_none() {
            self.push(block, pool);
        }
    }

    /// `block` has another priority.
    pub fn priority_changed(&mut self, block: BlockId, pool: &Pool) {
        if self.remove(block) {
            self.push(block, pool);
        }
    }

    /// Takes a block out; whether it was a leaf.
    pub fn remove(&mut self, block: BlockId) -> bool {
        let place = self.place(block);
        if let Some(at) = place {
            self.heap.take_out(&mut self.places, at);
        }
        place.is_some()
    }

    /// The leaf that is evicted next.
    pub fn first(&self) -> Option<BlockId> {
        self.heap.first().map(Entry::block)
    }

    /// How many leaves there are.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaves and, as these go, what they follow: every block that was released, each after what
    /// follows it.
    pub fn descent<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = BlockId> + 'a {
        let mut heap: BinaryHeap<_> = self.heap.entries().iter().copied().map(Reverse).collect();
        let mut gone: HashMap<BlockId, u32> = HashMap::new();
        std::iter::from_fn(move || {
            let block = heap.pop()?.0.block();
            let parent = pool.parent(block);
            if parent != NIL {
                let gone = gone.entry(parent).or_default();
                *gone += 1;
                if *gone == pool.children(parent) && pool.state(parent) == State::Cached {
                    heap.push(Reverse(self.entry(parent, pool)));
                }
            }
            Some(block)
        })
    }

    /// What disagrees with the pool, if anything.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.heap.validate(&self.places)?;
        self.heap.validate_blocks(pool)
    }

    fn place(&self, block: BlockId) -> Option<usize> {
        self.places.get(block as usize).filter(|&&at| at != NIL).map(|&at| at as usize)
    }

    fn entry(&self, block: BlockId, pool: &Pool) -> Entry {
        Entry::of(pool, block, u128::from(self.stamps[block as usize]))
    }

    fn push(&mut self, block: BlockId, pool: &Pool) {
        grow(&mut self.places, block, NIL);
        let entry = self.entry(block, pool);
        self.heap.push(&mut self.places, entry);
    }
}
