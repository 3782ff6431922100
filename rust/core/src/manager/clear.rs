//! The cache is forgotten: all of it, or what one adapter, salt or session left in it.

use std::collections::HashMap;

use super::Manager;
use crate::events::Kind;
use crate::hash::Space;
use crate::origins::Scope;
use crate::policy::{RemovalCause, View};
use crate::pool::{BlockId, NIL, State};

impl Manager {
    /// Forgets every cached block; running sequences keep theirs, and leave nothing findable.
    /// Returns how many blocks were freed.
    pub fn reset_prefix_cache(&mut self) -> u32 {
        self.tick += 1;
        let freed = self.forget_all(self.index.blocks());
        self.attached.drop_below();
        self.sequences.make_private();
        self.computing.clear();
        self.note(Kind::Reset, 0, u64::from(freed));
        freed
    }

    /// Forgets what `scope` holds. Running sequences in it keep their blocks, leave nothing findable,
    /// and count as of other weights ([`Manager::is_current`]). Returns how many blocks were freed.
    /// One pass over the pool and over the sequences.
    pub fn clear_scope(&mut self, scope: Scope<'_>) -> u32 {
        self.tick += 1;
        let found = self.origins.blocks_in(scope, &self.pool);
        let freed = self.forget_all(self.with_followers(found));
        // A handle below a block does not say whose it is.
        self.attached.drop_below();
        for seq in self.sequences.disown(scope) {
            self.end_computing(seq);
        }
        self.note_scope(scope);
        freed
    }

    /// Salts of findable blocks and of running sequences, each once; those without one apart.
    pub fn salts(&self) -> Vec<Vec<u8>> {
        let mut salts: Vec<Vec<u8>> =
            self.origins.salts().into_iter().map(<[u8]>::to_vec).collect();
        salts.extend(
            self.sequences.iter().map(|(_, s)| s.cache_salt.clone()).filter(|s| !s.is_empty()),
        );
        salts.sort_unstable();
        salts.dedup();
        salts
    }

    /// Forgets findable blocks, and nothing findable follows one of them that is not among them.
    fn forget_all(&mut self, mut blocks: Vec<BlockId>) -> u32 {
        // Deepest first, so that a block goes before the one it follows.
        blocks.sort_unstable_by_key(|&b| (u32::MAX - self.pool.depth(b), b));
        let mut freed = 0;
        for block in blocks {
            if self.pool.state(block) == State::Cached {
                self.invalidate(block);
                freed += 1;
            } else {
                self.note_block(Kind::Forget, 0, block, 0);
                self.note_gone(block, RemovalCause::Invalidated);
                self.unfind(block);
                self.pool.unpublish(block);
                let view = View { pool: &self.pool, now: self.tick };
                self.policy.remove(block, RemovalCause::Invalidated, view);
            }
        }
        freed
    }

    /// `blocks`, and what follows them: of other origins only where a caller published it by itself.
    fn with_followers(&self, mut blocks: Vec<BlockId>) -> Vec<BlockId> {
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

    /// The bytes are logged as ids: the number of the salt's bytes, these bytes, then the
    /// adapter's.
    fn note_scope(&mut self, scope: Scope<'_>) {
        let Scope { cache_salt: salt, lora_name: adapter, session } = scope;
        let given = [salt.is_some(), adapter.is_some(), session.is_some()];
        let given = (0..).zip(given).map(|(at, given)| u64::from(given) << at).sum();
        let (salt, adapter) = (salt.unwrap_or_default(), adapter.unwrap_or_default());
        let bytes = salt.iter().chain(adapter).map(|&byte| u32::from(byte));
        let ids: Vec<u32> = std::iter::once(salt.len() as u32).chain(bytes).collect();
        self.note_ids(Kind::ResetScope, 0, (given, session.unwrap_or_default()), &ids);
    }

    /// The space of a sequence's keys.
    pub(super) fn space_of(sequence: &crate::sequence::Sequence) -> Space<'_> {
        let crate::sequence::Sequence { cache_salt: salt, lora_name: adapter, encoder, .. } =
            sequence;
        Space { cache_salt: salt, lora_name: adapter, encoder }
    }
}
