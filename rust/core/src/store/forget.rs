//! Removes blocks from the index, the prefix tree and the policy together, so that no lookup finds them.

use std::collections::HashMap;

use super::Store;
use crate::events::Kind;
use crate::index::KeyMatch;
use crate::policy::{RemovalCause, View};
use crate::pool::{BlockId, NIL, State};
use crate::stats::Removal;

impl Store {
    /// Forgets a cached block that is not to be found any more.
    pub(crate) fn invalidate(&mut self, block: BlockId) {
        self.note_block(Kind::Forget, 0, block, 0);
        self.forget(block, RemovalCause::Invalidated);
        self.pool.put_back(block);
    }

    /// Takes a cached block out of the index, the tree and the policy. The caller frees it or takes it.
    #[inline]
    pub(super) fn forget(&mut self, block: BlockId, cause: RemovalCause) {
        let parent = self.withdraw(block, cause);
        if parent != NIL && self.pool.is_evictable(parent) {
            self.policy.on_evictable(parent, View { pool: &self.pool, now: self.now });
        }
    }

    /// Takes a findable block out of the index, the tree and the policy. Returns the block it followed.
    #[inline]
    fn withdraw(&mut self, block: BlockId, cause: RemovalCause) -> BlockId {
        self.note_gone(block, cause);
        self.unfind(block);
        let parent = self.pool.unpublish(block);
        self.policy.remove(block, cause, View { pool: &self.pool, now: self.now });
        parent
    }

    /// Takes a block out of the index, and what only it carried with it.
    fn unfind(&mut self, block: BlockId) {
        self.index.remove(&self.pool, block);
        self.origins.unpublish(block);
        if !self.attached.is_empty() {
            let key = self.pool.key(block);
            if self.attached.has(key) && self.find_key(key, None) == KeyMatch::Nothing {
                self.attached.drop_key(key);
            }
        }
    }

    /// Notes how `block` leaves the cache, while its key is still known.
    #[inline]
    fn note_gone(&mut self, block: BlockId, cause: RemovalCause) {
        let evicted = cause == RemovalCause::Evicted;
        let gone = if evicted { Removal::Evicted } else { Removal::Cleared };
        self.ghosts.note(self.pool.key(block), gone, self.now);
        if self.samples.is_on() {
            self.samples.ended(block, evicted, self.now);
        }
    }

    /// Forgets the findable `blocks`. The caller: every findable block that follows one of them is among
    /// them.
    pub(crate) fn forget_all(&mut self, mut blocks: Vec<BlockId>) -> u32 {
        // Deepest first, so that a block goes before the one it follows.
        blocks.sort_unstable_by_key(|&b| (u32::MAX - self.pool.depth(b), b));
        let mut freed = 0;
        for block in blocks {
            if self.pool.state(block) == State::Cached {
                self.invalidate(block);
                freed += 1;
            } else {
                self.note_block(Kind::Forget, 0, block, 0);
                self.withdraw(block, RemovalCause::Invalidated);
            }
        }
        freed
    }

    /// `blocks` and the findable blocks that follow them. A follower of another origin is among them only if
    /// a caller published that follower by itself.
    pub(crate) fn with_followers(&self, mut blocks: Vec<BlockId>) -> Vec<BlockId> {
        let mut followers: HashMap<BlockId, u32> = blocks.iter().map(|&block| (block, 0)).collect();
        for &block in &blocks {
            if let Some(count) = followers.get_mut(&self.pool.parent(block)) {
                *count += 1;
            }
        }
        if blocks.iter().all(|block| followers[block] == self.pool.children(*block)) {
            return blocks;
        }
        let findable = |&b: &BlockId| self.pool.is_findable(b) && self.pool.parent(b) != NIL;
        let mut rest: Vec<BlockId> = (0..self.pool.created()).filter(findable).collect();
        rest.sort_unstable_by_key(|&b| self.pool.depth(b));
        for block in rest {
            if followers.contains_key(&self.pool.parent(block)) && !followers.contains_key(&block) {
                followers.insert(block, 0);
                blocks.push(block);
            }
        }
        blocks
    }
}
