//! How many other engines hold a block, told to those that hold it.

use std::collections::{BTreeSet, HashMap};

use kvframe_core::{Key, Manager};

use super::feed::Change;

/// Who holds what, as far as events have said.
#[derive(Debug)]
pub(super) struct Copies {
    /// A bit for each engine.
    holders: HashMap<Key, u64>,
    /// Keys whose holders have changed since they were told, each once and in order.
    changed: BTreeSet<Key>,
}

impl Copies {
    /// The most engines.
    pub const MOST: usize = u64::BITS as usize;

    pub fn new(engines: usize) -> Self {
        debug_assert!(engines <= Self::MOST);
        Self { holders: HashMap::new(), changed: BTreeSet::new() }
    }

    /// An event of engine `at`.
    pub fn note(&mut self, at: usize, change: Change) {
        let bit = 1u64 << at;
        let key = match change {
            Change::Stored(key, _) => {
                *self.holders.entry(key).or_default() |= bit;
                key
            }
            Change::Removed(key) => {
                if let Some(holders) = self.holders.get_mut(&key) {
                    *holders &= !bit;
                    if *holders == 0 {
                        self.holders.remove(&key);
                    }
                }
                key
            }
        };
        self.changed.insert(key);
    }

    /// The engines hear what has changed.
    pub fn tell(&mut self, managers: &mut [&mut Manager]) {
        for key in std::mem::take(&mut self.changed) {
            let Some(&holders) = self.holders.get(&key) else { continue };
            for (at, manager) in managers.iter_mut().enumerate() {
                if holders & 1 << at != 0 {
                    manager.set_copies(key, holders.count_ones() - 1);
                }
            }
        }
    }
}
