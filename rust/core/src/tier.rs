//! The blocks of one tier by themselves, without prefixes: who of them dies next.
//!
//! A tier below the engine's, or another engine's plug point, holds blocks that know no parent. Each
//! is its own leaf. The same [`Eviction`] that ranks the blocks of a [`crate::Manager`] ranks these,
//! and hears of them in the same words; what a policy makes of prefixes it loses here.
//!
//! [`TierPages`] is the tier that does know prefixes, and which of its pages are on their way.

mod chain;
mod check;
mod outside;
mod pages;
mod transfers;

pub use pages::{Opened, Stored, TierLimits, TierPages};
pub use transfers::{Ended, TierStats};

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::{Eviction, Use, View, Why};
use crate::pool::{BlockId, NIL, Pool, State};
use crate::sequence::Meta;

/// What is known of a use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// The request.
    pub meta: Meta,
    /// Its length in tokens, or 0 where that is not known.
    pub tokens: u32,
}

impl Known {
    fn using(&self) -> Use<'static> {
        Use { outlook: &[], meta: self.meta, tokens: self.tokens }
    }
}

/// Blocks without parents under one policy.
///
/// A block is owned (in transfer, pinned, not ready) from [`TierPolicy::insert`] and
/// [`TierPolicy::claim`] on until [`TierPolicy::release`]; only what nobody owns is ever a victim.
pub struct TierPolicy {
    pool: Pool,
    policy: Box<dyn Eviction>,
    now: u64,
    /// Scratch: blocks whose order of death is being changed.
    moved: Vec<BlockId>,
    /// Scratch: protected blocks that the policy named, to go back where they were.
    aside: Vec<BlockId>,
    /// Scratch: protected blocks that lost their last child meanwhile.
    bared: Vec<BlockId>,
}

impl std::fmt::Debug for TierPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierPolicy")
            .field("policy", &self.policy.name())
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl TierPolicy {
    /// An empty tier of `capacity` blocks.
    pub fn new(capacity: u32, policy: Box<dyn Eviction>) -> Self {
        let pool = Pool::new(capacity, false);
        let (moved, aside, bared) = (Vec::new(), Vec::new(), Vec::new());
        Self { pool, policy, now: 0, moved, aside, bared }
    }

    /// The blocks.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The logical clock: one tick a call.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Another capacity, not below what is in use.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub fn resize(&mut self, capacity: u32) -> Result<()> {
        let used = (capacity..self.pool.created()).filter(|&b| self.pool.state(b) != State::Free);
        let (blocks, first) = used.fold((0, u32::MAX), |(n, least), b| (n + 1, b.min(least)));
        if blocks > 0 {
            let from = capacity.into();
            return Err(Error::InUse { blocks, from, first: first.into() });
        }
        self.pool.resize(capacity);
        Ok(())
    }

    fn tick(&mut self) {
        self.now += 1;
    }

    /// Refuses ids that are not of a block of this tier.
    fn check(&self, blocks: &[BlockId]) -> Result<()> {
        match blocks.iter().find(|&&block| !self.pool.is_findable(block)) {
            None => Ok(()),
            Some(&block) => Err(Error::Invalid {
                what: "block",
                value: block.to_string(),
                limit: "not in the tier".into(),
            }),
        }
    }

    /// Blocks for `keys` are about to be got, which were not here: ghosts may be.
    pub fn missed(&mut self, keys: &[Key]) {
        self.tick();
        let view = View { pool: &self.pool, now: self.now };
        for &key in keys {
            self.policy.missed(key, view);
        }
    }

    /// A block enters, owned once; `depth` is its place in a prefix where the caller knows it.
    ///
    /// # Errors
    /// [`Error::NoCapacity`].
    pub fn insert(&mut self, key: Key, depth: u32, known: Known) -> Result<BlockId> {
        self.insert_after(key, NIL, depth, known)
    }

    /// As [`TierPolicy::insert`], after `parent`, which cannot die before it; [`NIL`] is none.
    ///
    /// # Errors
    /// As there.
    pub fn insert_after(
        &mut self,
        key: Key,
        parent: BlockId,
        depth: u32,
        known: Known,
    ) -> Result<BlockId> {
        let Some(block) = self.pool.take(0) else {
            return Err(Error::NoCapacity {
                needed: 1,
                available: 0,
                total: self.pool.capacity().into(),
            });
        };
        self.tick();
        self.policy.take(block);
        self.pool.publish(block, key, parent, depth);
        let view = View { pool: &self.pool, now: self.now };
        self.policy.insert(&[block], known.using(), view);
        Ok(block)
    }

    /// An admission found `blocks`, in the order of their prefix: the last dies first of them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here.
    pub fn hit(&mut self, blocks: &[BlockId], known: Known) -> Result<()> {
        self.check(blocks)?;
        self.tick();
        self.take_unowned(blocks);
        self.policy.hit(blocks, known.using(), View { pool: &self.pool, now: self.now });
        self.put_moved_back();
        Ok(())
    }

    /// `blocks`, in the order of their prefix, are as recent as if they had been released now, but it
    /// counts as no use.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here.
    pub fn refresh(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks)?;
        self.tick();
        self.take_unowned(blocks);
        self.put_moved_back();
        Ok(())
    }

    /// Gives those of `blocks` that nobody owns an owner, and remembers which.
    fn take_unowned(&mut self, blocks: &[BlockId]) {
        self.moved.clear();
        for &block in blocks {
            if self.pool.state(block) == State::Cached {
                self.pool.share(block);
                self.moved.push(block);
            }
        }
        self.policy.claim(&self.moved, View { pool: &self.pool, now: self.now });
    }

    fn put_moved_back(&mut self) {
        for &block in &self.moved {
            self.pool.unshare(block);
        }
        self.policy.release(&self.moved, View { pool: &self.pool, now: self.now });
    }

    /// Another owner for each of `blocks`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here.
    pub fn claim(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks)?;
        self.tick();
        self.moved.clear();
        for &block in blocks {
            if self.pool.share(block) {
                self.moved.push(block);
            }
        }
        self.policy.claim(&self.moved, View { pool: &self.pool, now: self.now });
        Ok(())
    }

    /// An owner less for each of `blocks`, in the order of their prefix.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here, or has not that many owners: a double release.
    pub fn release(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks)?;
        for (i, &block) in blocks.iter().enumerate() {
            let before = blocks[..i].iter().filter(|&&b| b == block).count();
            if self.pool.refs(block) as usize <= before {
                return Err(Error::Invalid {
                    what: "block",
                    value: block.to_string(),
                    limit: "has no owner left to release it".into(),
                });
            }
        }
        self.put_down(blocks);
        Ok(())
    }

    /// `release` of blocks that are known to have an owner each.
    fn put_down(&mut self, blocks: &[BlockId]) {
        self.tick();
        self.moved.clear();
        for &block in blocks {
            if self.pool.unshare(block) == Some(State::Cached) {
                self.moved.push(block);
            }
        }
        self.policy.release(&self.moved, View { pool: &self.pool, now: self.now });
    }

    /// `blocks` leave the tier, owned or not: a failed store, a reset, a move elsewhere.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here, or is named twice.
    pub fn remove(&mut self, blocks: &[BlockId], why: Why) -> Result<()> {
        self.check(blocks)?;
        let twice = |(i, block): (usize, &BlockId)| blocks[..i].contains(block);
        if let Some(i) = blocks.iter().enumerate().position(twice) {
            return Err(Error::Invalid {
                what: "block",
                value: blocks[i].to_string(),
                limit: "named twice".into(),
            });
        }
        self.tick();
        for &block in blocks {
            self.leave(block, why);
        }
        Ok(())
    }

    fn leave(&mut self, block: BlockId, why: Why) {
        self.unfind(block, why);
        while self.pool.refs(block) > 0 {
            self.pool.unshare(block);
        }
        self.pool.put_back(block);
    }

    /// The `n` blocks that die, in order, none of them owned or in `spared`; they have left the tier.
    /// `None`, and nothing has changed, if there are fewer.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again.
    pub fn victims(&mut self, n: u32, spared: &[BlockId]) -> Result<Option<Vec<BlockId>>> {
        if !self.prepare(n, spared)? {
            return Ok(None);
        }
        let mut victims = Vec::with_capacity(n as usize);
        while victims.len() < n as usize
            && let Some(block) = self.name()
        {
            self.leave(block, Why::Evicted);
            victims.push(block);
        }
        self.end();
        self.settle();
        if victims.len() < n as usize {
            let message = format!("{} named {} of {n} victims", self.policy.name(), victims.len());
            return Err(Error::Integrity(message));
        }
        Ok(Some(victims))
    }

    /// The block that [`TierPolicy::victims`] would take next. It stays.
    ///
    /// # Errors
    /// As there.
    pub fn next(&mut self, spared: &[BlockId]) -> Result<Option<BlockId>> {
        if !self.prepare(1, spared)? {
            return Ok(None);
        }
        let named = self.name();
        self.end();
        Ok(named)
    }

    /// `page`, which `next` named, dies.
    fn evict(&mut self, page: BlockId) {
        self.moved.clear();
        self.leave(page, Why::Evicted);
    }

    /// Sets `spared` aside. False if less than `n` blocks are left that may die.
    fn prepare(&mut self, n: u32, spared: &[BlockId]) -> Result<bool> {
        self.moved.clear();
        self.moved.extend(spared.iter().filter(|&&b| self.pool.state(b) == State::Cached));
        self.moved.sort_unstable();
        self.moved.dedup();
        if (self.pool.cached() as usize) < self.moved.len() + n as usize {
            self.settle();
            return Ok(false);
        }
        if let Some(books) = self.policy.external() {
            books.unpick_all(self.moved.iter().copied());
            if !books.ready(n as usize) {
                books.spare(self.moved.iter().copied());
                return Err(Error::NeedVictims { n });
            }
        }
        self.tick();
        // Owned for the pool only: their place in the order stays.
        for &block in &self.moved {
            self.pool.share(block);
        }
        Ok(true)
    }

    /// The next victim that is not set aside.
    fn name(&mut self) -> Option<BlockId> {
        loop {
            let view = View { pool: &self.pool, now: self.now };
            let block = self.policy.victim(view)?;
            if self.pool.is_evictable(block) {
                return Some(block);
            }
            self.policy.claim(&[block], view);
            self.aside.push(block);
        }
    }

    /// Puts back what was set aside.
    fn end(&mut self) {
        for &block in &self.moved {
            self.pool.unshare(block);
        }
        let view = View { pool: &self.pool, now: self.now };
        let late = self.bared.drain(..).filter(|&block| view.pool.is_evictable(block));
        self.aside.drain(..).chain(late).for_each(|block| self.policy.expose(block, view));
    }

    fn settle(&mut self) {
        if let Some(books) = self.policy.external() {
            books.settle();
        }
    }

    /// The policy's own books against the tier's.
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        let created = 0..self.pool.created();
        let cached = created.filter(|&b| self.pool.state(b) == State::Cached).count();
        if cached != self.pool.cached() as usize {
            let message = format!("tier: {cached} cached, {} counted", self.pool.cached());
            return Err(Error::Integrity(message));
        }
        self.policy.validate(&self.pool).map_err(Error::Integrity)
    }
}
