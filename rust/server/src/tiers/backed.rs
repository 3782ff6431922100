//! Blocks of the pool of which a tier has a copy: evicting them loses nothing and writes nothing.

use std::collections::{HashMap, HashSet};

use kvframe_core::Key;
use kvframe_core::pool::BlockId;

use super::Tiers;
use crate::cache::Cache;

/// So many blocks beyond those that are needed are looked at first.
const LOOK: u32 = 16;

impl Tiers {
    /// Evicts up to `n` blocks of which a tier has a copy, but for those of `spared`; the first in the policy's order
    /// first.
    pub(super) fn evict_backed(&self, cache: &mut Cache<'_>, n: u32, spared: &[Key]) {
        let spared: HashSet<&Key> = spared.iter().collect();
        let (mut left, mut most) = (n, n.saturating_add(LOOK));
        while left > 0 {
            let order = cache.manager.eviction_order(most);
            let backed = self.backed(cache, &order, &spared);
            left -= cache.manager.evict_of(&backed, left);
            if order.len() < most as usize {
                return;
            }
            most = most.saturating_mul(4);
        }
    }

    /// Those of `blocks` whose prefix some tier has up to them.
    fn backed(
        &self,
        cache: &Cache<'_>,
        blocks: &[BlockId],
        spared: &HashSet<&Key>,
    ) -> Vec<BlockId> {
        let (mut known, mut backed) = (HashMap::new(), Vec::new());
        for block in blocks {
            if !known.contains_key(block) {
                let chain = cache.manager.prefix_of(*block);
                let keys: Vec<Key> = chain.iter().map(|&(_, key)| key).collect();
                let held = self.levels.iter().map(|level| level.pages.find(&keys));
                let held = held.max().unwrap_or(0) as usize;
                let may = |(at, (other, key))| (other, at < held && !spared.contains(&key));
                known.extend(chain.into_iter().enumerate().map(may));
            }
            if known.get(block) == Some(&true) {
                backed.push(*block);
            }
        }
        backed
    }
}
