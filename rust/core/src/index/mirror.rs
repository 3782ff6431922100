//! What changed among the findable blocks, for an index outside the core.

use crate::hash::Key;
use crate::pool::{BlockId, Pool};

/// Changes since they were last delivered.
#[derive(Debug, Default)]
pub struct Mirror {
    /// Blocks that became findable or ceased to be, each listed once, in the order of their first change.
    touched: Vec<BlockId>,
    waiting: Vec<bool>,
    /// The key under which each block was last delivered as findable, if it was.
    notified: Vec<Option<Key>>,
}

/// The changes delivered to an index outside: removals first, then what is findable now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Findable no more.
    pub removed: Vec<BlockId>,
    /// Findable now.
    pub inserted: Vec<BlockId>,
    /// Of each inserted: its key.
    pub keys: Vec<Key>,
    /// The block it follows, or [`crate::NIL`].
    pub parents: Vec<BlockId>,
    /// Its place in the prefix.
    pub depths: Vec<u32>,
}

impl Mirror {
    pub(super) fn touch(&mut self, block: BlockId) {
        let at = block as usize;
        if self.waiting.len() <= at {
            self.waiting.resize(at + 1, false);
            self.notified.resize(at + 1, None);
        }
        if !std::mem::replace(&mut self.waiting[at], true) {
            self.touched.push(block);
        }
    }

    /// The changes since the last call.
    pub(super) fn take(&mut self, pool: &Pool, is_findable: impl Fn(BlockId) -> bool) -> Changes {
        let mut changes = Changes::default();
        for block in std::mem::take(&mut self.touched) {
            let at = block as usize;
            self.waiting[at] = false;
            let key = is_findable(block).then(|| pool.key(block));
            if self.notified[at] == key {
                continue;
            }
            if self.notified[at].is_some() {
                changes.removed.push(block);
            }
            self.notified[at] = key;
            if let Some(key) = key {
                changes.inserted.push(block);
                changes.keys.push(key);
                changes.parents.push(pool.parent(block));
                changes.depths.push(pool.depth(block));
            }
        }
        changes
    }
}
