//! Owners of blocks come and leave. A policy hears of the first one and of the last.

use super::Store;
use crate::events::Kind;
use crate::policy::{Access, View};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::SeqId;
use crate::tenants::Ledger;

impl Store {
    /// Gives `block` one more owner. Returns whether it had none before.
    #[inline]
    pub(crate) fn acquire(&mut self, block: BlockId) -> bool {
        let first = self.pool.share(block);
        if first {
            self.policy.acquire(&[block], View { pool: &self.pool, now: self.now });
        }
        first
    }

    /// Gives each of the findable blocks `found`, of one group and without gaps, one more owner: an
    /// allocation uses them. `prefix` says that a request which uses one of them also uses all blocks before
    /// it.
    pub(crate) fn own(&mut self, found: &[BlockId], prefix: bool, access: Access<'_>) {
        let mut first = std::mem::take(&mut self.kept);
        first.clear();
        let some_owned = self.pool.share_chain(found) < found.len();
        if some_owned {
            first.extend(found.iter().filter(|&&block| self.pool.refs(block) == 1));
        }
        let session = access.meta.session;
        if prefix {
            self.origins.used_prefix(found, session);
        } else {
            self.origins.used(found, session);
        }
        let view = View { pool: &self.pool, now: self.now };
        self.policy.own(found, if some_owned { &first } else { found }, access, view);
        if self.samples.is_on() {
            self.samples.used(found, self.now);
        }
        self.kept = first;
    }

    /// Gives each block of `path` one more owner. The blocks of one group stand together in `path`.
    pub(crate) fn acquire_path(&mut self, path: &[BlockId]) {
        let cached = path.iter().copied().filter(|&block| self.pool.share(block));
        let cached: Vec<BlockId> = cached.collect();
        for blocks in cached.chunk_by(|&a, &b| self.pool.group(a) == self.pool.group(b)) {
            self.policy.acquire(blocks, View { pool: &self.pool, now: self.now });
        }
    }

    /// `seq`, or a ticket or a fence without it, owns each of `blocks` once more; they have an owner
    /// already.
    #[inline]
    pub(crate) fn hold(&mut self, seq: SeqId, blocks: &[BlockId]) {
        for &block in blocks.iter().filter(|&&b| b != NIL) {
            self.pool.share_owned(block);
        }
        self.note_blocks(Kind::Hold, seq, blocks.iter(), 0);
    }

    /// Notes that an owner of each of `blocks` has left. It still counts as an owner until the step `fence`
    /// has run.
    pub(crate) fn wait(&mut self, fence: u64, blocks: &[BlockId]) {
        for &block in blocks {
            self.pool.wait(block);
        }
        self.note_blocks(Kind::Wait, 0, blocks.iter(), fence);
    }

    /// The step that [`Self::wait`] named has run: the owners that it kept leave.
    pub(crate) fn end_wait(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.pool.end_wait(block);
        }
        self.drop_owners(0, blocks);
    }

    /// `seq` gives back a block that it obtained in this operation.
    pub(crate) fn give_back(&mut self, seq: SeqId, block: BlockId) {
        self.note_block(Kind::Release, seq, block, 0);
        self.pool.unshare(block);
        self.pool.put_back(block);
    }

    /// Drops one owner of each of `blocks`, given in the order of their prefix, from its end. A
    /// block left without an owner becomes cached or free.
    pub(crate) fn drop_owners(&mut self, seq: SeqId, blocks: &[BlockId]) {
        self.note_blocks(Kind::Release, seq, blocks.iter().rev(), 0);
        self.drop_each(blocks);
    }

    /// [`Self::drop_owners`] for the end of a table, in which each block stands once.
    pub(crate) fn drop_table(&mut self, seq: SeqId, blocks: &[BlockId]) {
        self.note_blocks(Kind::Release, seq, blocks.iter().rev(), 0);
        // Of those at the front that others own, too, nothing changes but the count.
        let shared = self.pool.leave_shared(blocks);
        self.drop_each(&blocks[shared..]);
    }

    fn drop_each(&mut self, blocks: &[BlockId]) {
        self.leave_each(blocks);
        if self.pool.ledger().is_some_and(Ledger::may_be_above) {
            self.shed();
        }
    }

    fn leave_each(&mut self, blocks: &[BlockId]) {
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
            self.policy.release(full, View { pool: &self.pool, now: self.now });
            return;
        }
        let mut kept = std::mem::take(&mut self.kept);
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
        self.kept = kept;
    }

    /// Tells the policy of what was kept, gathered from the end of a prefix.
    fn release_kept(&mut self, kept: &mut Vec<BlockId>) {
        kept.reverse();
        self.policy.release(kept, View { pool: &self.pool, now: self.now });
        kept.clear();
    }

    /// Frees `block`, which `copy` makes superfluous. The prefix was used just now, so the copy takes
    /// its place in the order.
    #[cold]
    fn drop_for_copy(&mut self, block: BlockId, copy: BlockId, kept: &mut Vec<BlockId>) {
        // Brings the order up to date first: `copy` or what `block` follows may be in it.
        kept.push(block);
        self.release_kept(kept);
        self.inherit(copy, block);
        self.origins.inherit(copy, block);
        self.invalidate(block);
        if self.acquire(copy) {
            kept.push(copy);
        }
        self.pool.unshare(copy);
    }

    /// The copy that makes `block` superfluous, which nothing follows: findable under the same key.
    fn copy_of(&mut self, block: BlockId) -> Option<BlockId> {
        if self.keeps_copies || !self.pool.may_be_copy(block) {
            return None;
        }
        let copy = self.index.other_copy(&self.pool, block);
        self.pool.set_duplicated(block, copy.is_some());
        copy
    }
}
