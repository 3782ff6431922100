//! The blocks of an engine's own pool by the engine's ids: which of them it gets next.
//!
//! The engine has the index, counts owners and moves bytes. It says which blocks became findable, which
//! were found, and which lost their last owner; blocks without an owner stand in a queue:
//!
//! ```text
//!   front                                            back
//!   free: hold nothing, last freed first │ cached: the policy's order
//! ```

use super::{RequestInfo, TierPolicy};
use crate::error::{Error, Limit, Result};
use crate::hash::Key;
use crate::policy::{Consult, Eviction, View};
use crate::pool::{BlockId, NIL, State};

/// The blocks of an engine's pool under one policy.
#[derive(Debug)]
pub struct BlockQueue {
    pub(super) tier: TierPolicy,
    pub(super) evictions: u64,
    /// How often each findable block was used, as far as it is counted: a policy that is switched to
    /// is told.
    pub(super) uses: Vec<u8>,
    /// Blocks that were kept without a key so far: each gets one that no other has.
    pub(super) keyless: u64,
    /// Scratch: the blocks of a call that the policy is told of.
    named: Vec<BlockId>,
    /// The last call that named each block, and how many there were: none may name one twice.
    named_by: Vec<u64>,
    calls: u64,
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
        let (uses, named_by) = (vec![0; capacity as usize], vec![0; capacity as usize]);
        Ok(Self { tier, evictions: 0, uses, keyless: 0, named: Vec::new(), named_by, calls: 0 })
    }

    /// The tier that ranks the cached ones.
    pub fn tier(&mut self) -> &mut TierPolicy {
        &mut self.tier
    }

    /// Blocks without an owner.
    pub fn available(&self) -> u32 {
        self.tier.pool.available()
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
        if n > self.available() {
            let (available, total) = (self.available(), self.tier.pool.capacity());
            let (needed, available, total) = (n.into(), available.into(), total.into());
            return Err(Error::NoCapacity {
                needed,
                available,
                total,
                limit: Limit::Pool,
                coming: 0,
            });
        }
        let (blocks, evicted) = self.tier.take_blocks(n)?;
        self.evictions += evicted as u64;
        Ok(blocks)
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
        self.check(blocks.iter().copied(), is_owned, "has no owner")?;
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

    /// A request found `blocks`, in the order of their prefix; each has an owner from now on. One that is not
    /// findable only leaves the free ones, if it is among them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that the pool has not, or that is named twice.
    pub fn hit(&mut self, blocks: &[BlockId], known: RequestInfo<'_>) -> Result<()> {
        self.check(blocks.iter().copied(), |_| true, "")?;
        self.tier.tick();
        self.tier.moved.clear();
        self.named.clear();
        for &block in blocks {
            match self.tier.pool.state(block) {
                State::Free => {
                    self.tier.pool.take_free(block);
                    self.tier.policy.take(&[block]);
                    continue;
                }
                State::Cached => {
                    self.tier.pool.share(block);
                    self.tier.moved.push(block);
                }
                State::Committed => {}
                State::Pending | State::Lent | State::Null => continue,
            }
            let uses = &mut self.uses[block as usize];
            *uses = uses.saturating_add(1);
            self.named.push(block);
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.acquire(&self.tier.moved, view);
        self.tier.policy.hit(&self.named, known.access(), view);
        Ok(())
    }

    /// The last owner of each of these blocks left, given in the order of a block table.
    ///
    /// `blocks` keep what they hold; one that is not findable enters the policy now, without a key: nothing
    /// finds it again but an engine that kept its id. `empty` hold nothing any more: the last of them is
    /// taken first of all.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that has no owner, or that is named twice.
    pub fn free(&mut self, blocks: &[BlockId], empty: &[BlockId]) -> Result<()> {
        self.check(empty.iter().chain(blocks).copied(), is_owned, "has no owner")?;
        self.tier.tick();
        for &block in empty {
            if self.tier.pool.is_findable(block) {
                self.tier.forget(block);
            }
            self.tier.pool.unshare(block);
            self.tier.pool.put_back(block);
        }
        self.keep(blocks);
        for &block in blocks {
            self.tier.pool.unshare(block);
        }
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.release(blocks, view);
        Ok(())
    }

    /// Has the policy know those of `blocks` that it does not.
    fn keep(&mut self, blocks: &[BlockId]) {
        self.named.clear();
        for &block in blocks {
            if !self.tier.pool.is_findable(block) {
                self.keyless += 1;
                // No hash is so low.
                self.tier.pool.publish(block, Key(self.keyless.into()), NIL, 0);
                self.uses[block as usize] = 1;
                self.named.push(block);
            }
        }
        if !self.named.is_empty() {
            let view = View { pool: &self.tier.pool, now: self.tier.now };
            self.tier.policy.insert(&self.named, RequestInfo::default().access(), view);
        }
    }

    /// `blocks` are not findable any more, owned or not; those that were not stay as they are.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that the pool has not.
    pub fn remove(&mut self, blocks: &[BlockId]) -> Result<()> {
        if let Some(&block) = blocks.iter().find(|&&block| block >= self.tier.pool.capacity()) {
            return Err(invalid(block, NOT_HERE));
        }
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
        free.chain(cached).collect()
    }

    /// Refuses a block that the pool has not, is in another state, or is named twice.
    fn check(
        &mut self,
        blocks: impl Iterator<Item = BlockId>,
        fits: impl Fn(State) -> bool,
        limit: &str,
    ) -> Result<()> {
        self.calls += 1;
        for block in blocks {
            let Some(named_by) = self.named_by.get_mut(block as usize) else {
                return Err(invalid(block, NOT_HERE));
            };
            if !fits(self.tier.pool.state(block)) {
                return Err(invalid(block, limit));
            }
            if std::mem::replace(named_by, self.calls) == self.calls {
                return Err(invalid(block, "named twice"));
            }
        }
        Ok(())
    }

    /// The queue's and the policy's state against the pool's.
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.tier.check_integrity()
    }
}

const NOT_HERE: &str = "not a block of this pool";

fn is_owned(state: State) -> bool {
    matches!(state, State::Pending | State::Committed)
}

fn invalid(block: BlockId, limit: &str) -> Error {
    Error::Invalid { what: "block", value: block.to_string(), limit: limit.into() }
}
