//! Blocks by key, 16 bytes each: a key is looked up once an event and once a match, anywhere in a table
//! that fits no cache, so what counts is how many cache lines that takes.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::hash::fold;

use super::holders::{Crowds, Held, Holder, Holders, Tier};

#[derive(Debug)]
struct Node {
    key: u64,
    held: Held,
}

/// Blocks that somebody holds.
#[derive(Debug)]
pub(super) struct Nodes {
    table: HashTable<Node>,
    crowds: Crowds,
}

/// Keys are hashes, mostly: one multiplication spreads those that an engine counts up, or shifts.
#[inline]
pub(super) fn slot(key: u64) -> u64 {
    fold(key ^ 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F)
}

impl Nodes {
    pub fn with_capacity(blocks: usize) -> Self {
        Self { table: HashTable::with_capacity(blocks), crowds: Crowds::default() }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.table.find(slot(key), |node| node.key == key).is_some()
    }

    /// Whether `worker` holds a block anywhere.
    pub fn holds(&self, key: u64, worker: u32) -> bool {
        let node = self.table.find(slot(key), |node| node.key == key);
        let held = node.map(|node| self.crowds.of(node.held));
        held.is_some_and(|holders| holders.as_slice().iter().any(|h| h.worker == worker))
    }

    /// `worker` holds a block in a tier; whether nobody held it before.
    #[inline]
    pub fn hold(&mut self, key: u64, worker: u32, tier: Tier) -> bool {
        match self.table.entry(slot(key), |node| node.key == key, |node| slot(node.key)) {
            Entry::Occupied(mut known) => {
                self.crowds.add(&mut known.get_mut().held, Holder::new(worker, tier));
                false
            }
            Entry::Vacant(free) => {
                let held = Held::by(Holder::new(worker, tier));
                free.insert(Node { key, held });
                true
            }
        }
    }

    /// `worker` holds a block in a tier no longer: whether it did, and whether it holds it nowhere any
    /// more. None if nobody holds it.
    pub fn release(&mut self, key: u64, worker: u32, tier: Tier) -> Option<(bool, bool)> {
        let mut known = self.table.find_entry(slot(key), |node| node.key == key).ok()?;
        let held = &mut known.get_mut().held;
        let done = self.crowds.remove(held, worker, tier);
        if held.is_empty() {
            known.remove();
        }
        Some(done)
    }

    /// `worker` holds nothing any more; how many blocks it held.
    pub fn forget_worker(&mut self, worker: u32) -> usize {
        let (mut count, crowds) = (0, &mut self.crowds);
        self.table.retain(|node| {
            count += usize::from(crowds.remove_worker(&mut node.held, worker));
            !node.held.is_empty()
        });
        count
    }

    /// The holders of a block that is asked for.
    #[inline]
    pub fn ask(&mut self, key: u64) -> Option<Holders<'_>> {
        let node = self.table.find_mut(slot(key), |node| node.key == key)?;
        node.held.used = true;
        Some(self.crowds.of(node.held))
    }

    /// A block's turn to be forgotten: unless it was asked for since the last one, it is; whether it
    /// was. None if nobody holds it.
    pub fn take_turn(&mut self, key: u64) -> Option<bool> {
        let mut known = self.table.find_entry(slot(key), |node| node.key == key).ok()?;
        let held = &mut known.get_mut().held;
        if std::mem::take(&mut held.used) {
            return Some(false);
        }
        self.crowds.release(*held);
        known.remove();
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_16_bytes() {
        assert_eq!(size_of::<Node>(), 16);
    }
}
