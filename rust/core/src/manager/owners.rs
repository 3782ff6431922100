//! What happens when the last owner of a block leaves.

use super::Manager;
use crate::events::Kind;
use crate::policy::View;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::SeqId;

impl Manager {
    /// Drops one owner of each of `blocks`, given in the order of their prefix, from its end. A
    /// block left without an owner becomes cached or free.
    pub(super) fn drop_owners(&mut self, seq: SeqId, blocks: &[BlockId]) {
        self.note_blocks(Kind::Release, seq, blocks.iter().rev(), 0);
        self.drop_each(blocks);
    }

    /// The same for the end of a table, in which each block is there once.
    pub(super) fn drop_table(&mut self, seq: SeqId, blocks: &[BlockId]) {
        self.note_blocks(Kind::Release, seq, blocks.iter().rev(), 0);
        // Of those at the front that others own, too, nothing changes but the count.
        let shared = self.pool.leave_shared(blocks);
        self.drop_each(&blocks[shared..]);
    }

    fn drop_each(&mut self, blocks: &[BlockId]) {
        // The common end of a sequence: all of its own, the last block not full.
        let (full, tail) = match blocks.split_last() {
            Some((&tail, full)) if tail != NIL && self.pool.is_pending_alone(tail) => {
                (full, Some(tail))
            }
            _ => (blocks, None),
        };
        if self.pool.unshare_chain(full) {
            if let Some(tail) = tail {
                self.pool.unshare(tail);
                self.pool.put_back(tail);
            }
            self.policy.release(full, View { pool: &self.pool, now: self.tick });
            return;
        }
        let mut kept = std::mem::take(&mut self.scratch.kept);
        kept.clear();
        for &block in blocks.iter().rev().filter(|&&b| b != NIL) {
            match self.pool.unshare(block) {
                None => {}
                Some(State::Cached) => match self.copy_of(block) {
                    None => kept.push(block),
                    Some(copy) => self.drop_for_copy(block, copy, &mut kept),
                },
                Some(_) => self.pool.put_back(block),
            }
        }
        self.release_kept(&mut kept);
        self.scratch.kept = kept;
    }

    /// Tells the policy of what was kept, gathered from the end of a prefix.
    fn release_kept(&mut self, kept: &mut Vec<BlockId>) {
        kept.reverse();
        self.policy.release(kept, View { pool: &self.pool, now: self.tick });
        kept.clear();
    }

    /// Frees `block`, which `copy` makes superfluous. The prefix was used just now, so the copy takes
    /// its place in the order.
    #[cold]
    fn drop_for_copy(&mut self, block: BlockId, copy: BlockId, kept: &mut Vec<BlockId>) {
        // Brings the order up to date first: `copy` or what `block` follows may be in it.
        kept.push(block);
        self.release_kept(kept);
        if self.notes_uses() {
            self.inherit(copy, block);
        }
        self.invalidate(block);
        if self.pool.share(copy) {
            self.policy.acquire(&[copy], View { pool: &self.pool, now: self.tick });
            kept.push(copy);
        }
        self.pool.unshare(copy);
    }

    /// The copy that makes `block` superfluous, which nothing follows: findable under the same key.
    fn copy_of(&mut self, block: BlockId) -> Option<BlockId> {
        if !self.pool.may_be_copy(block) {
            return None;
        }
        let copy = self.index.other_copy(&self.pool, block);
        self.pool.set_duplicated(block, copy.is_some());
        copy
    }
}
