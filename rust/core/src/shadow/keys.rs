//! Which block of a shadow a key stands for.

use hashbrown::HashMap;

use crate::hash::Key;
use crate::pool::BlockId;

/// Findable blocks by key. Of several with one key, the one that became findable first is found, as in the
/// engines that keep several.
#[derive(Debug, Default)]
pub(super) struct Keys {
    first: HashMap<Key, BlockId>,
    /// The others with the same key, the earlier in front.
    more: HashMap<Key, Vec<BlockId>>,
}

impl Keys {
    pub fn find(&self, key: Key) -> Option<BlockId> {
        self.first.get(&key).copied()
    }

    /// Number of findable blocks.
    pub fn len(&self) -> usize {
        self.first.len() + self.more.values().map(Vec::len).sum::<usize>()
    }

    pub fn insert(&mut self, key: Key, block: BlockId) {
        let first = *self.first.entry(key).or_insert(block);
        if first != block {
            self.more.entry(key).or_default().push(block);
        }
    }

    pub fn remove(&mut self, key: Key, block: BlockId) {
        let Some(others) = self.more.get_mut(&key) else {
            self.first.remove(&key);
            return;
        };
        if self.first.get(&key) == Some(&block) {
            self.first.insert(key, others.remove(0));
        } else {
            others.retain(|&other| other != block);
        }
        if others.is_empty() {
            self.more.remove(&key);
        }
    }
}
