//! Blocks by key, 32 bytes each: a key is looked up once an event and once a match, anywhere in a table
//! that fits no cache, so what counts is how many cache lines that takes.
//!
//! Each block knows the one before it and counts those behind it, so that a full index forgets tails
//! before heads. A block that no worker holds stays as long as one behind it does: when a worker holds
//! it again, its children are still counted.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::holders::{BlockHolders, Crowds, Holders, TierId};
use super::leaves::{Leaf, Leaves};
use crate::hash::fold;

#[derive(Debug)]
#[repr(align(32))] // A block that lies in two cache lines costs twice as much.
pub(super) struct Node {
    pub key: u64,
    /// The block before it, which counts this one where `held.linked`.
    pub parent: u64,
    pub held: BlockHolders,
    /// The tick of its last use.
    pub used: u32,
    /// Blocks that are linked to it.
    pub children: u32,
}

/// Blocks for which there is room up front; a larger index grows as it is fed.
const RESERVE: usize = 1 << 18;

/// Leaves beyond twice the blocks are looked through, but not below this many.
const FEW: usize = 1024;

/// Blocks that workers hold, and those before them.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) table: HashTable<Node>,
    pub(super) crowds: Crowds,
    pub(super) leaves: Leaves,
    pub(super) capacity: usize,
    /// Blocks that a worker holds.
    pub(super) live: usize,
    /// Counts events and matches.
    pub(super) now: u32,
    /// Blocks forgotten because the index was full.
    pub dropped: u64,
}

/// Keys are hashes, mostly: one multiplication spreads those that an engine counts up, or shifts.
#[inline]
pub(super) fn slot(key: u64) -> u64 {
    fold(key ^ 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F)
}

impl Nodes {
    /// For at most `capacity` blocks.
    pub fn new(capacity: usize) -> Self {
        Self {
            table: HashTable::with_capacity(capacity.min(RESERVE)),
            crowds: Crowds::default(),
            leaves: Leaves::default(),
            capacity,
            live: 0,
            now: 0,
            dropped: 0,
        }
    }

    /// Blocks that a worker holds.
    pub fn len(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<&Node> {
        self.table.find(slot(key), |node| node.key == key)
    }

    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.find(key).is_some()
    }

    /// Whether `worker` holds a block anywhere.
    pub fn holds(&self, key: u64, worker: u32) -> bool {
        let held = self.find(key).map(|node| self.crowds.of(node.held));
        held.is_some_and(|h| h.as_slice().iter().any(|h| h.worker == worker && h.tiers != 0))
    }

    /// `worker` holds a block in a tier no longer: whether it did, and whether it holds it nowhere any
    /// more. None if no worker holds it.
    pub fn release(&mut self, key: u64, worker: u32, tier: TierId) -> Option<(bool, bool)> {
        let mut known = self.table.find_entry(slot(key), |node| node.key == key).ok()?;
        let node = known.get_mut();
        if node.held.is_empty() {
            return None;
        }
        let done = self.crowds.remove(&mut node.held, worker, tier);
        if node.held.is_empty() {
            self.live -= 1;
            if node.children == 0 {
                let (node, _) = known.remove();
                self.unlink(&node);
            }
        }
        Some(done)
    }

    /// `worker` holds a block nowhere any more.
    pub fn release_all(&mut self, key: u64, worker: u32) {
        let Ok(mut known) = self.table.find_entry(slot(key), |node| node.key == key) else {
            return;
        };
        let node = known.get_mut();
        if self.crowds.remove_worker(&mut node.held, worker) && node.held.is_empty() {
            self.live -= 1;
            if node.children == 0 {
                let (node, _) = known.remove();
                self.unlink(&node);
            }
        }
    }

    /// `worker` holds nothing any more; how many blocks it held.
    pub fn forget_worker(&mut self, worker: u32) -> usize {
        let (mut count, mut gone) = (0, Vec::new());
        for node in &mut self.table {
            if self.crowds.remove_worker(&mut node.held, worker) {
                count += 1;
                if node.held.is_empty() {
                    self.live -= 1;
                    if node.children == 0 {
                        gone.push(node.key);
                    }
                }
            }
        }
        for key in gone {
            if let Ok(known) = self.table.find_entry(slot(key), |node| node.key == key) {
                let (node, _) = known.remove();
                self.unlink(&node);
            }
        }
        count
    }

    /// A block is gone from the table.
    pub(super) fn unlink(&mut self, gone: &Node) {
        self.leaves.forget_front(gone.key);
        if gone.held.linked {
            self.let_go(gone.parent, gone.used);
        }
    }

    /// A block counts one less behind it. It goes too if only that kept it, and so on upwards.
    pub(super) fn let_go(&mut self, parent: u64, mut used: u32) {
        let mut next = Some(parent);
        while let Some(key) = next.take() {
            let Ok(mut known) = self.table.find_entry(slot(key), |node| node.key == key) else {
                return;
            };
            let node = known.get_mut();
            node.children -= 1;
            // Who used the child had the parent as well.
            used = node.used.max(used);
            node.used = used;
            if node.children > 0 {
                return;
            }
            if node.held.is_empty() {
                next = node.held.linked.then_some(node.parent);
                known.remove();
            } else {
                let bucket = known.bucket_index() as u32;
                self.leaves.push_front(Leaf { used, key, bucket });
            }
        }
    }

    /// The holders of a block that is asked for.
    #[inline]
    pub fn ask(&mut self, key: u64) -> Option<Holders<'_>> {
        let node = self.table.find_mut(slot(key), |node| node.key == key)?;
        if node.held.is_empty() {
            return None;
        }
        node.used = self.now;
        Some(self.crowds.of(node.held))
    }

    /// Another event or match begins.
    #[inline]
    pub fn tick(&mut self) {
        if self.now == u32::MAX {
            self.renumber();
        }
        self.now += 1;
    }

    /// Ticks begin again in the middle; what was used in the first half of them was used at once.
    fn renumber(&mut self) {
        const HALF: u32 = 1 << 31;
        self.now -= HALF;
        self.table.iter_mut().for_each(|node| node.used = node.used.saturating_sub(HALF));
        self.queue_again();
    }

    fn queue_again(&mut self) {
        let leaves = self.table.iter().filter(|node| node.children == 0);
        let leaf = |node: &Node| Leaf { used: node.used, key: node.key, bucket: 0 };
        self.leaves.refill(leaves.map(leaf));
    }

    /// Memory that is no longer needed goes back.
    pub fn tidy(&mut self) {
        if self.table.is_empty() {
            self.crowds = Crowds::default();
        }
        if self.leaves.len() > 2 * self.table.len().max(FEW) {
            self.queue_again();
        }
        let room = self.table.capacity();
        if room > 2 * RESERVE && self.table.len() < room / 8 {
            self.table.shrink_to(RESERVE, |node| slot(node.key));
        }
    }

    /// Counts that must agree; for tests.
    pub fn check(&self) -> Result<(), String> {
        let live = self.table.iter().filter(|node| !node.held.is_empty()).count();
        let linked = self.table.iter().filter(|node| node.held.linked);
        let mut children = hashbrown::HashMap::<u64, u32>::new();
        linked.for_each(|node| *children.entry(node.parent).or_default() += 1);
        for node in &self.table {
            let counted = children.remove(&node.key).unwrap_or(0);
            if counted != node.children || (counted == 0 && node.held.is_empty()) {
                return Err(format!("{node:?}: {counted} blocks are linked to it"));
            }
        }
        let places = (self.table.len(), live, children.len());
        let right = live == self.live && children.is_empty() && self.table.len() <= self.capacity;
        if right { Ok(()) } else { Err(format!("(blocks, held, orphans) = {places:?}")) }
    }

    #[inline]
    pub(super) fn entry(&mut self, key: u64) -> Entry<'_, Node> {
        self.table.entry(slot(key), |node| node.key == key, |node| slot(node.key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::holders::Holder;
    use super::*;

    #[test]
    fn a_block_takes_32_bytes() {
        assert_eq!(size_of::<Node>(), 32);
    }

    #[test]
    fn ticks_that_run_out_keep_the_order_of_the_last_ones() {
        let mut nodes = Nodes::new(3);
        nodes.now = u32::MAX - 2;
        for key in 1..=5 {
            nodes.tick();
            let mut chain = nodes.begin(None);
            assert!(nodes.place(&mut chain, key, Holder::new(0, 0), false));
            nodes.end(&chain);
        }
        assert!(!nodes.contains(1) && !nodes.contains(2) && nodes.contains(3));
        assert_eq!((nodes.check(), nodes.now), (Ok(()), (1 << 31) + 2));
    }
}
