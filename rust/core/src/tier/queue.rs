//! The blocks of an engine's own pool by the engine's ids: which of them it gets next.
//!
//! The engine has the index, counts owners and moves bytes. It says which blocks became findable, which
//! were found, and which lost their last owner; blocks without an owner stand in a queue:
//!
//! ```text
//!   front                                                          back
//!   free: hold nothing, last freed first │ cached: the policy's order │ deferred
//! ```

use std::collections::VecDeque;

use super::{RequestInfo, TierPolicy};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::{Consult, Eviction, RemovalCause, View};
use crate::pool::{BlockId, NIL, State};

/// The blocks of an engine's pool under one policy.
#[derive(Debug)]
pub struct BlockQueue {
    pub(super) tier: TierPolicy,
    /// Deferred blocks, the first of them next. The pool counts the queue as their owner.
    pub(super) deferred: VecDeque<BlockId>,
    pub(super) evictions: u64,
    /// How often each findable block was used, as far as it is counted: a policy that is switched to
    /// is told.
    pub(super) uses: Vec<u8>,
}

impl Consult for BlockQueue {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        self.tier.consulted()
    }
}

impl BlockQueue {
    /// The queue of a pool of `capacity` blocks, which have an owner each until they are freed.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub fn new(capacity: u32, block_size: u32, policy: Box<dyn Eviction>) -> Result<Self> {
        let mut tier = TierPolicy::new(capacity, block_size, policy)?;
        while let Some(block) = tier.pool.take(0) {
            tier.policy.take(&[block]);
        }
        let uses = vec![0; capacity as usize];
        Ok(Self { tier, deferred: VecDeque::new(), evictions: 0, uses })
    }

    /// The tier that ranks the cached ones.
    pub fn tier(&mut self) -> &mut TierPolicy {
        &mut self.tier
    }

    /// Blocks without an owner.
    pub fn available(&self) -> u32 {
        self.tier.pool.available() + self.deferred.len() as u32
    }

    /// Findable blocks that were taken for something else.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The first `n` blocks, which have an owner now and are not findable any more.
    ///
    /// # Errors
    /// [`Error::NoCapacity`] if there are fewer; [`Error::NeedVictims`], for a policy outside the core: find
    /// them and call again.
    pub fn take(&mut self, n: u32) -> Result<Vec<BlockId>> {
        let (free, cached) = (self.tier.pool.free(), self.tier.pool.cached());
        if n > self.available() {
            let (available, total) = (self.available(), self.tier.pool.capacity());
            let (needed, available, total) = (n.into(), available.into(), total.into());
            return Err(Error::NoCapacity { needed, available, total, coming: 0 });
        }
        let mut blocks = Vec::with_capacity(n as usize);
        let victims = match n.saturating_sub(free).min(cached) {
            0 => Vec::new(),
            short => self.tier.victims(short, &[])?.unwrap_or_default(),
        };
        // They lie on top of the free list, and come after what was free before.
        for _ in &victims {
            let _ = self.tier.pool.take(0);
        }
        while blocks.len() < n.min(free) as usize
            && let Some(block) = self.tier.pool.take(0)
        {
            blocks.push(block);
        }
        self.evictions += victims.len() as u64;
        blocks.extend(victims);
        for _ in blocks.len()..n as usize {
            blocks.extend(self.take_deferred());
        }
        self.tier.policy.take(&blocks);
        Ok(blocks)
    }

    fn take_deferred(&mut self) -> Option<BlockId> {
        let block = self.deferred.pop_front()?;
        if self.tier.pool.is_findable(block) {
            self.evictions += 1;
            self.tier.unfind(block, RemovalCause::Evicted);
        }
        Some(block)
    }

    /// `blocks`, which have an owner, became findable, in the order of their prefix: each under a key, at
    /// its place in the prompt. Several may have one key. What a block held before is forgotten.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that has no owner.
    pub fn insert(
        &mut self,
        blocks: &[BlockId],
        keys: &[Key],
        depths: &[u32],
        known: RequestInfo<'_>,
    ) -> Result<()> {
        self.check(blocks, is_owned, "has no owner")?;
        self.check_not_deferred(blocks)?;
        self.tier.tick();
        for ((&block, &key), &depth) in blocks.iter().zip(keys).zip(depths) {
            if self.tier.pool.is_findable(block) {
                self.tier.forget(block);
            }
            self.uses[block as usize] = 1;
            let view = View { pool: &self.tier.pool, now: self.tier.now };
            self.tier.policy.on_miss(key, view);
            self.tier.pool.publish(block, key, NIL, depth);
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.insert(blocks, known.access(), view);
        Ok(())
    }

    /// A request found `blocks`, in the order of their prefix; each has an owner from now on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not findable.
    pub fn hit(&mut self, blocks: &[BlockId], known: RequestInfo<'_>) -> Result<()> {
        let findable = |state| matches!(state, State::Cached | State::Committed);
        self.check(blocks, findable, "not findable")?;
        self.tier.tick();
        self.tier.moved.clear();
        for &block in blocks {
            let uses = &mut self.uses[block as usize];
            *uses = uses.saturating_add(1);
            if self.tier.pool.state(block) == State::Cached {
                self.tier.pool.share(block);
                self.tier.moved.push(block);
            }
        }
        if !self.deferred.is_empty() {
            self.deferred.retain(|block| !blocks.contains(block));
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.acquire(&self.tier.moved, view);
        self.tier.policy.hit(blocks, known.access(), view);
        Ok(())
    }

    /// The last owner of each of `blocks` left, given in the order of a block table: the last of them is
    /// taken first, those that are not findable before all others.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that has no owner.
    pub fn free(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks, is_owned, "has no owner")?;
        self.check_not_deferred(blocks)?;
        self.tier.tick();
        self.tier.moved.clear();
        for &block in blocks {
            match self.tier.pool.unshare(block) {
                Some(State::Cached) => self.tier.moved.push(block),
                _ => self.tier.pool.put_back(block),
            }
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.release(&self.tier.moved, view);
        Ok(())
    }

    /// The last owner of each of `blocks` left, but they are taken after all others, findable or not: what
    /// they hold is still read.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that has no owner.
    pub fn defer(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks, is_owned, "has no owner")?;
        self.check_not_deferred(blocks)?;
        self.deferred.extend(blocks);
        Ok(())
    }

    /// `blocks` are not findable any more, owned or not; those that were not stay as they are.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that the pool has not.
    pub fn remove(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check_ids(blocks)?;
        self.tier.tick();
        for &block in blocks {
            if self.tier.pool.is_findable(block) {
                self.tier.forget(block);
            }
        }
        Ok(())
    }

    /// Blocks without an owner in the order in which they would be taken, given the order of the cached
    /// ones.
    pub fn around(&self, cached: Vec<BlockId>) -> Vec<BlockId> {
        let free = self.tier.pool.free_list().iter().rev().copied();
        free.chain(cached).chain(self.deferred.iter().copied()).collect()
    }

    fn check_ids(&self, blocks: &[BlockId]) -> Result<()> {
        match blocks.iter().find(|&&block| block >= self.tier.pool.capacity()) {
            None => Ok(()),
            Some(&block) => Err(invalid(block, "not a block of this pool")),
        }
    }

    /// Refuses a block that the pool has not, is in another state, or is named twice.
    fn check(&mut self, blocks: &[BlockId], fits: fn(State) -> bool, limit: &str) -> Result<()> {
        self.check_ids(blocks)?;
        let pool = &self.tier.pool;
        if let Some(&block) = blocks.iter().find(|&&block| !fits(pool.state(block))) {
            return Err(invalid(block, limit));
        }
        match self.tier.over(blocks, |_, _| 1) {
            Some(block) => Err(invalid(block, "named twice")),
            None => Ok(()),
        }
    }

    fn check_not_deferred(&self, blocks: &[BlockId]) -> Result<()> {
        match self.deferred.iter().find(|block| blocks.contains(block)) {
            None => Ok(()),
            Some(&block) => Err(invalid(block, "has no owner")),
        }
    }

    /// The queue's and the policy's state against the pool's.
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        if let Some(block) = self.deferred.iter().find(|&&b| self.tier.pool.refs(b) != 1) {
            return Err(Error::Integrity(format!(
                "queue: deferred block {block} has another owner"
            )));
        }
        self.tier.check_integrity()
    }
}

/// Owned once, by a request or by the queue.
fn is_owned(state: State) -> bool {
    matches!(state, State::Pending | State::Committed)
}

fn invalid(block: BlockId, limit: &str) -> Error {
    Error::Invalid { what: "block", value: block.to_string(), limit: limit.into() }
}
