//! Blocks one by one, for engines with a request table of their own: what `take` gave out is published
//! under a key, found, held and given up again.
pub(super) mod change;
mod clear;
pub(super) mod loans;
pub(super) mod pressure;

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::hash::Key;
use crate::index::KeyMatch;
use crate::manager::Manager;
use crate::manager::blocks::loans::NO_SUCH;
use crate::policy::{Access, NEVER};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::Meta;

const DOUBLE: &str = "it is not in hand: a double free";

impl Manager {
    /// Makes a block on loan findable under `key`, after `parent` (in hand, or [`NIL`]). Returns a
    /// block that was findable under the key before, which stays so.
    ///
    /// # Errors
    /// [`Error::NotLent`]; [`Error::Invalid`] for a parent that is not findable and in hand.
    pub fn publish_block(
        &mut self,
        block: BlockId,
        key: Key,
        parent: BlockId,
    ) -> Result<Option<BlockId>> {
        if self.pool().refs_or_none(block) != Some(1) || self.pool().state(block) != State::Lent {
            let published = self.pool().state(block) == State::Committed;
            return Err(self.not_lent(block, published.then_some("it is published already")));
        }
        if parent != NIL
            && (self.held_blocks.count(parent) == 0
                || self.pool().state(parent) != State::Committed)
        {
            return Err(self.misused("parent", parent, "it is not published and in hand"));
        }
        self.store.index().check_keys()?;
        self.store.tick();
        self.store.enter(block);
        let depth = if parent == NIL { 0 } else { self.pool().depth(parent) + 1 };
        // The caller made the key, so the core has no tokens to compare with it.
        let found = self.store.publish(block, (key, None), (parent, depth));
        self.held_blocks.take(block, parent);
        let copy = match found {
            KeyMatch::Block(copy) => Some(copy),
            _ => None,
        };
        let access = Access { next_use: &[NEVER], meta: Meta::default(), tokens: 0 };
        self.store.insert_unknown(block, access);
        let before = if parent == NIL { Key(0) } else { self.pool().key(parent) };
        self.store.note_stored(0, block, before, &[]);
        Ok(copy)
    }

    /// The blocks under `keys`, one after the other, up to the first that is not there.
    pub fn find_blocks(&self, keys: &[Key]) -> Vec<BlockId> {
        let found = keys.iter().map_while(|&key| match self.store.find_key(key, None) {
            KeyMatch::Block(block) => Some(block),
            _ => None,
        });
        let mut blocks: Vec<BlockId> = found.collect();
        // If a key has several copies, takes the one that the last found block follows.
        for i in (1..blocks.len()).rev() {
            let parent = self.pool().parent(blocks[i]);
            if parent != NIL && self.pool().key(parent) == keys[i - 1] {
                blocks[i - 1] = parent;
            }
        }
        blocks
    }

    /// Holds each of `blocks` once more, those they follow first; all of them or none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is neither findable nor published and held, is of another
    /// generation than said, or follows one that is not in hand.
    pub fn acquire_blocks(&mut self, blocks: &[BlockId], generations: &[u32]) -> Result<()> {
        self.check_generations("touch", blocks, generations)?;
        self.check_tenants_have(blocks)?;
        for (taken, &block) in blocks.iter().enumerate() {
            let findable = matches!(self.pool().state(block), State::Committed | State::Cached);
            let why = if !findable && self.held_blocks.count(block) == 0 {
                "it is not findable, nor published and held"
            } else if !self.held_blocks.take(block, self.pool().parent(block)) {
                "the block it follows is not in hand"
            } else {
                continue;
            };
            for &before in blocks[..taken].iter().rev() {
                self.held_blocks.drop(before);
            }
            return Err(self.misused("touch", block, why));
        }
        self.store.tick();
        self.store.note_ids(Kind::TouchBlocks, 0, (0, 0), blocks);
        self.store.used(blocks, 0);
        for &block in blocks {
            self.store.note_block(Kind::Hit, 0, block, 0);
            self.store.acquire(block);
            if self.pool().state(block) == State::Committed {
                let access = Access { next_use: &[NEVER], meta: Meta::default(), tokens: 0 };
                self.store.hit(&[block], access);
            }
        }
        Ok(())
    }

    /// Holds each of `blocks` (given as their table has them) once less; all of them or none. What is
    /// not held any more stays cached, the last one first in line to be evicted, or is free if it was never
    /// published.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is not held so often (a double free), is of another generation
    /// than said, or is followed by one that stays in hand.
    pub fn free_blocks(&mut self, blocks: &[BlockId], generations: &[u32]) -> Result<()> {
        self.check_generations("free", blocks, generations)?;
        let ended = self.store.end_loans(blocks);
        if ended == blocks.len() {
            // The common case: scratch blocks, none of which was published.
            self.store.tick();
            self.store.note_ids(Kind::Free, 0, (0, 0), blocks);
            self.store.take_back(blocks);
            return Ok(());
        }
        self.store.mark_lent(&blocks[..ended]);
        self.free_any(blocks)
    }

    /// [`Manager::free_blocks`] where some block was published, or may not be freed.
    fn free_any(&mut self, blocks: &[BlockId]) -> Result<()> {
        let (mut lent, mut dropped) = (Vec::new(), Vec::new());
        for &block in blocks.iter().rev() {
            // An ended loan marks the id, so that naming it twice is caught in one pass.
            if self.store.end_loans(&[block]) == 1 {
                lent.push(block);
                continue;
            }
            let on_loan = self.pool().state(block) == State::Lent;
            let parent = self.held_blocks.parent(block);
            let why = if on_loan {
                "it is named twice: a double free"
            } else if self.held_blocks.count(block) == 0 {
                let ours = dropped.iter().any(|&(before, _)| before == block);
                let owned = self.pool().refs_or_none(block) > Some(0);
                let never = block < self.pool().capacity() && self.pool().generation(block) == 0;
                match (owned && !ours, never && !ours) {
                    (true, _) => "it is not in hand: others own it",
                    (_, true) => "it was never taken",
                    _ => DOUBLE,
                }
            } else if !self.held_blocks.drop(block) {
                "a block in hand follows it"
            } else {
                dropped.push((block, parent));
                continue;
            };
            // What it followed in hand, which the pool may have forgotten.
            for &(before, parent) in dropped.iter().rev() {
                self.held_blocks.take(before, parent);
            }
            self.store.mark_lent(&lent);
            return Err(self.misused("free", block, why));
        }
        self.store.tick();
        self.store.note_ids(Kind::Free, 0, (0, 0), blocks);
        lent.reverse();
        self.store.take_back(&lent);
        let held: Vec<BlockId> = dropped.iter().rev().map(|&(block, _)| block).collect();
        self.store.drop_owners(0, &held);
        Ok(())
    }

    /// How often a block is held one by one, on loan or findable.
    pub fn held(&self, block: BlockId) -> u32 {
        self.held_blocks.count(block) + u32::from(self.pool().state(block) == State::Lent)
    }

    /// Whether the tenants of `blocks` may own those that are cached.
    ///
    /// # Errors
    /// [`Error::NoCapacity`].
    fn check_tenants_have(&self, blocks: &[BlockId]) -> Result<()> {
        for tenant in (0..).take(self.store.accounts().len()) {
            let its = |&&b: &&BlockId| {
                self.pool().tenant(b) == tenant && self.pool().state(b) == State::Cached
            };
            let (needed, available) =
                (blocks.iter().filter(its).count() as u64, self.store.available(tenant).into());
            if needed > available {
                let (total, limit) = self.store.limit(tenant);
                return Err(Error::NoCapacity { needed, available, total, limit, coming: 0 });
            }
        }
        Ok(())
    }

    fn check_generations(
        &self,
        what: &'static str,
        blocks: &[BlockId],
        generations: &[u32],
    ) -> Result<()> {
        for (&block, &generation) in blocks.iter().zip(generations) {
            if self.pool().generation(block) != generation {
                return Err(self.misused(what, block, "it was freed since: a stale id"));
            }
        }
        Ok(())
    }

    fn misused(&self, what: &'static str, block: BlockId, why: &str) -> Error {
        let state = self.pool().state(block).name();
        let known = block < self.pool().capacity();
        let limit = if known { format!("{why} ({state})") } else { NO_SUCH.into() };
        Error::Invalid { what, value: block.to_string(), limit }
    }
}
