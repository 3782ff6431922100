//! Blocks of a tier that follow each other: a parent outlives its children.

use super::TierPolicy;
use crate::error::Result;
use crate::policy::{RemovalCause, View};
use crate::pool::{BlockId, NIL, State};

impl TierPolicy {
    /// Takes a block out of the order and the tree; its owners keep it.
    pub(super) fn unfind(&mut self, block: BlockId, cause: RemovalCause) {
        // The policy tells a cached block from an owned one by its owners, so its owners must still be
        // counted here.
        let parent = self.pool.unpublish(block);
        let view = View { pool: &self.pool, now: self.now };
        self.policy.remove(block, cause, view);
        if parent == NIL || self.pool.children(parent) > 0 {
            return;
        }
        if self.pool.is_evictable(parent) {
            self.policy.on_evictable(parent, view);
        } else if self.moved.contains(&parent) {
            self.bared.push(parent);
        }
    }

    /// Makes a block unfindable. The block is free at once, or when its last owner releases it.
    pub(super) fn forget(&mut self, block: BlockId) {
        self.take_back_named();
        self.moved.clear();
        self.unfind(block, RemovalCause::Invalidated);
        if self.pool.refs(block) == 0 {
            self.pool.put_back(block);
        }
    }

    /// Drops one owner of each of `blocks`, which are a prefix or the end of one. Some may have been
    /// forgotten.
    pub(super) fn let_go(&mut self, blocks: &[BlockId]) -> Result<()> {
        let (found, lost): (Vec<BlockId>, Vec<BlockId>) =
            blocks.iter().partition(|&&block| self.pool.is_findable(block));
        for block in lost {
            if self.pool.unshare(block) == Some(State::Pending) {
                self.pool.put_back(block);
            }
        }
        self.release(&found)
    }

    /// Takes a free block, outside the order, for a caller that tracks it itself; `None` if none is
    /// free.
    pub(super) fn take(&mut self) -> Option<BlockId> {
        self.pool.lend()
    }

    /// Takes such a block back.
    pub(super) fn free(&mut self, block: BlockId) {
        self.pool.end_loans(&[block]);
        self.pool.put_back(block);
    }

    /// How many of `blocks` have no owner.
    pub(super) fn unowned(&self, blocks: &[BlockId]) -> u32 {
        blocks.iter().filter(|&&block| self.pool.state(block) == State::Cached).count() as u32
    }

    /// Blocks that can be had now without those of `chain`: by the tenant that is served, where there are some.
    pub(super) fn available(&self, chain: &[BlockId]) -> u32 {
        let all = match self.pool.ledger() {
            None => self.pool.available(),
            Some(ledger) => ledger.available(ledger.serving()),
        };
        all.saturating_sub(self.unowned(chain))
    }

    /// Whether a policy outside the core has to name `n` victims first, none of `spared`.
    pub(super) fn must_ask(&mut self, n: u32, spared: &[BlockId]) -> bool {
        if let Some(outside) = self.policy.external() {
            outside.unpick_all(spared.iter().copied());
        }
        let must = n > 0 && !self.policy.ready(n as usize);
        if must && let Some(outside) = self.policy.external() {
            outside.spare(spared.iter().copied());
        }
        must
    }

    /// Evicts a block that may be evicted.
    pub(super) fn evict(&mut self, block: BlockId) {
        self.take_back_named();
        self.moved.clear();
        self.leave(block, RemovalCause::Evicted);
    }
}
