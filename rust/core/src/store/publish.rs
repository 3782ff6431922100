//! Computed blocks become findable: index, tree, origins, policy and lifetimes hear of them.

use super::Store;
use crate::hash::{Key, Space};
use crate::index::radix::Path;
use crate::index::{Changes, Index, KeyMatch, Proof};
use crate::policy::{Access, View};
use crate::pool::{BlockId, NIL};

impl Store {
    /// Makes `block` findable under `key`, behind its parent and at its place in the prefix. Not if the
    /// key stands for other tokens, as `proof` says, nor in an index that knows no keys.
    pub(crate) fn publish(
        &mut self,
        block: BlockId,
        (key, proof): (Key, Option<Proof<'_>>),
        place: (BlockId, u32),
    ) -> KeyMatch {
        let Index::Hash(index) = &mut self.index else { return KeyMatch::Collision };
        let found = index.store(&self.pool, block, key, proof);
        self.enter_tree(block, key, place, found)
    }

    /// [`Self::publish`] in the radix index, which knows tokens and no keys.
    pub(crate) fn publish_path(
        &mut self,
        block: BlockId,
        (key, path): (Key, Path<'_>),
        place: (BlockId, u32),
    ) -> KeyMatch {
        let Index::Radix(index) = &mut self.index else { return KeyMatch::Collision };
        let found = index.store(block, place.0, place.1, path);
        self.enter_tree(block, key, place, found)
    }

    #[inline]
    fn enter_tree(
        &mut self,
        block: BlockId,
        key: Key,
        (parent, depth): (BlockId, u32),
        found: KeyMatch,
    ) -> KeyMatch {
        if found == KeyMatch::Collision {
            return found;
        }
        // A block that follows one of another tenant would keep that one from its own tenant's policy.
        let parent = if self.is_of_other(block, parent) { NIL } else { parent };
        self.pool.publish(block, key, parent, depth);
        if let KeyMatch::Block(copy) = found {
            self.pool.set_duplicated(block, true);
            self.pool.set_duplicated(copy, true);
            self.stats.duplicates += 1;
        }
        found
    }

    /// Makes the first of `blocks`, a chain, findable under their `keys`. Stops at the first block that is
    /// not the common case (see `HashIndex::store_plain`). Returns how many became findable.
    #[inline]
    pub(crate) fn publish_plain(
        &mut self,
        blocks: &[BlockId],
        keys: &[Key],
        (parent, depth): (BlockId, u32),
    ) -> usize {
        let Index::Hash(index) = &mut self.index else { return 0 };
        let named = self.pool.name_chain(blocks, keys);
        let stored = index.store_plain(&self.pool, &blocks[..named], keys);
        self.pool.publish_chain(&blocks[..stored], parent, depth);
        stored
    }

    /// `blocks` became findable: a request in `space`, whose keys start from `root`, computed them.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        blocks: &[BlockId],
        (root, space): (Key, Space<'_>),
        access: Access<'_>,
    ) {
        self.origins.publish(blocks, root, space, access.meta.session);
        self.enter_order(blocks, access);
    }

    /// `block` became findable under a key of its owner's.
    pub(crate) fn insert_unknown(&mut self, block: BlockId, access: Access<'_>) {
        self.origins.publish_unknown(block);
        self.enter_order(&[block], access);
    }

    #[inline]
    fn enter_order(&mut self, blocks: &[BlockId], access: Access<'_>) {
        self.stats.stored += blocks.len() as u64;
        self.policy.insert(blocks, access, View { pool: &self.pool, now: self.now });
        if self.samples.is_on() {
            self.samples.born(blocks, self.now);
        }
    }

    /// An allocation found `blocks`, or computed copies of them.
    #[inline]
    pub(crate) fn hit(&mut self, blocks: &[BlockId], access: Access<'_>) {
        self.policy.hit(blocks, access, View { pool: &self.pool, now: self.now });
    }

    /// A request of `session` uses findable `blocks`.
    #[inline]
    pub(crate) fn used(&mut self, blocks: &[BlockId], session: u64) {
        self.origins.used(blocks, session);
    }

    /// From now on, all keys are numbered below `count`.
    pub(crate) fn number_keys(&mut self, count: u32) {
        if let Index::Hash(index) = &mut self.index {
            index.number(count);
        }
    }

    /// From now on, an index outside is told what changes.
    pub(crate) fn mirror(&mut self) {
        if let Index::Hash(index) = &mut self.index {
            index.mirror();
        }
    }

    /// What became findable, and what is no more, since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        match &mut self.index {
            Index::Hash(index) => index.take_changes(&self.pool),
            Index::Radix(_) => Changes::default(),
        }
    }
}
