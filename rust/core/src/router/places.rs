//! In which row a block's columns stand, by its key: open addressing over one word an entry.
//!
//! An entry holds half of the key's hash beside the row, so that a key which is not there costs one cache
//! line and a table that grows reads nothing but itself.

use crate::hash::fold;

/// The row of a block in every column.
pub(super) type Row = u32;

/// Of ten entries, this many may be in use before the table grows.
const FULL: usize = 7;
/// The least number of entries.
const LEAST: usize = 16;
/// Lookups that are begun together.
const AHEAD: usize = 64;

/// Keys are hashes, mostly: one multiplication spreads those that an engine counts up, or shifts.
#[inline]
fn print(key: u64) -> u32 {
    (fold(key ^ 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F) >> 32) as u32
}

/// The upper half is the key's print, the lower half one more than its row; 0 is no entry.
#[derive(Debug)]
pub(super) struct Places {
    entries: Vec<u64>,
    len: usize,
}

#[inline]
fn entry(print: u32, row: Row) -> u64 {
    u64::from(print) << 32 | (u64::from(row) + 1)
}

#[inline]
fn row_of(entry: u64) -> Row {
    (entry as u32).wrapping_sub(1)
}

impl Places {
    /// Room for `blocks`.
    pub fn new(blocks: usize) -> Self {
        Self { entries: vec![0; size_for(blocks)], len: 0 }
    }

    /// Blocks that there is room for before the table grows.
    pub fn room(&self) -> usize {
        self.entries.len() / 10 * FULL
    }

    /// The row of the block under `key`; `keys` are all blocks' keys.
    #[inline]
    pub fn find(&self, key: u64, keys: &[u64]) -> Option<Row> {
        let (mask, print) = (self.entries.len() - 1, print(key));
        let mut at = print as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == print && keys[row_of(entry) as usize] == key {
                return Some(row_of(entry));
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts the block under `key`, which is not there, into `row`.
    #[inline]
    pub fn insert(&mut self, key: u64, row: Row) {
        if self.len >= self.room() {
            self.grow();
        }
        self.len += 1;
        self.put(entry(print(key), row));
    }

    #[inline]
    fn put(&mut self, new: u64) {
        let mask = self.entries.len() - 1;
        let mut at = (new >> 32) as usize & mask;
        while self.entries[at] != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = new;
    }

    /// Takes out the block under `key` in `row`, which is there.
    pub fn remove(&mut self, key: u64, row: Row) {
        let (mask, gone) = (self.entries.len() - 1, entry(print(key), row));
        let mut hole = (gone >> 32) as usize & mask;
        while self.entries[hole] != gone {
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        // Entries that were displaced past the hole move back, so that no lookup stops there too early.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = self.entries[at];
            if next == 0 {
                break;
            }
            let home = (next >> 32) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = next;
                hole = at;
            }
        }
        self.entries[hole] = 0;
    }

    #[cold]
    fn grow(&mut self) {
        let entries = vec![0; 2 * self.entries.len()];
        let old = std::mem::replace(&mut self.entries, entries);
        old.into_iter().filter(|&entry| entry != 0).for_each(|entry| self.put(entry));
    }

    /// Begins the lookups of the first few of `keys`, each in a cache line of its own, so that memory
    /// answers them together. Returns how many.
    #[inline]
    pub fn warm(&self, keys: &[u64]) -> usize {
        let (mask, few) = (self.entries.len() - 1, keys.len().min(AHEAD));
        let read = keys[..few].iter().map(|&key| self.entries[print(key) as usize & mask]);
        std::hint::black_box(read.fold(0, |all, entry| all ^ entry));
        few
    }
}

fn size_for(blocks: usize) -> usize {
    (blocks * 10).div_ceil(FULL).next_power_of_two().max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_map(calls in prop::collection::vec((any::<bool>(), 0..60_u64), 1..400)) {
            // Rows are the keys, doubled: a table of few entries, in which all push one another on.
            let keys: Vec<u64> = (0..60).collect();
            let mut places = Places::new(1);
            let mut held = std::collections::BTreeSet::new();
            for (put, key) in calls {
                if put && held.insert(key) {
                    places.insert(key, key as Row);
                } else if !put && held.remove(&key) {
                    places.remove(key, key as Row);
                }
                for &key in &keys {
                    prop_assert_eq!(places.find(key, &keys), held.contains(&key).then_some(key as Row));
                }
            }
        }
    }
}
