//! The blocks of one tier without prefixes: which of them is evicted next.
//!
//! A tier below the engine's, or another engine's plug point, holds blocks that know no parent. Each
//! is its own leaf. The same [`Eviction`] that ranks the blocks of a [`crate::Manager`] ranks these,
//! and hears of them in the same words; what a policy makes of prefixes it loses here.
//!
//! [`TierPages`] is the tier that does know prefixes, and which of its pages are on their way.
//! [`BlockQueue`] ranks the blocks of an engine's own pool, by the engine's ids; [`PrefixTree`] finds and ranks
//! the nodes of an engine's radix tree.

mod chain;
mod changes;
mod check;
mod entry;
mod ordered;
mod pages;
mod prefix;
mod queue;
mod room;
mod switch;
mod tenants;
mod transfers;
mod tree;
mod victims;

pub use changes::TierChanges;
pub use entry::{PageUses, let_in, occasion_of, offer_pages};
pub use ordered::OrderedKeys;
pub use pages::{EvictedPages, LoadResult, StoreResult, TierLimits, TierPages};
pub(crate) use prefix::Place;
pub use queue::BlockQueue;
pub use switch::QueueContents;
pub use transfers::{TierStats, TransferResult};
pub use tree::{EvictedNodes, Found, NodeId, PathNode, PrefixTree, Split, Stored, TreeNode};

use crate::error::{Error, Limit, Result};
use crate::hash::Key;
use crate::policy::{Access, Eviction, RemovalCause, View};
use crate::pool::{BlockId, NIL, Pool, State};
use crate::sequence::Meta;
use crate::tenants::{Ledger, Tenant};

/// What is known of a use.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestInfo<'a> {
    /// The request.
    pub meta: Meta,
    /// Its length in tokens, or 0 where that is not known.
    pub tokens: u32,
    /// When each block is used next, where that is known.
    pub next_use: &'a [u32],
}

impl<'a> RequestInfo<'a> {
    fn access(&self) -> Access<'a> {
        Access { next_use: self.next_use, meta: self.meta, tokens: self.tokens }
    }

    /// When the first block is used next.
    pub fn next(&self) -> u32 {
        self.access().next(0)
    }

    /// This request as the blocks from the place `from` on see it.
    fn behind(self, from: u32) -> Self {
        Self { next_use: self.next_use.get(from as usize..).unwrap_or(&[]), ..self }
    }
}

/// The blocks of one tier under one policy: without parents, or each after its parent
/// ([`TierPolicy::insert_after`]).
///
/// A block is owned (in transfer, pinned, not ready) from [`TierPolicy::insert`] and
/// [`TierPolicy::acquire`] on until [`TierPolicy::release`]; only a block without an owner can be a
/// victim.
pub struct TierPolicy {
    pool: Pool,
    policy: Box<dyn Eviction>,
    now: u64,
    /// Scratch: blocks whose order of eviction is being changed.
    moved: Vec<BlockId>,
    /// Scratch: protected blocks that the policy named, to go back where they were.
    aside: Vec<BlockId>,
    /// Scratch: protected blocks that lost their last child meanwhile.
    bared: Vec<BlockId>,
    /// The block that [`TierPolicy::next`] named and that is evicted next: a policy may name another when it
    /// is asked again, or take this one for gone.
    named: Option<BlockId>,
    block_size: u32,
    /// The number of blocks of which the policy was notified, where the tier grows.
    notified: Option<u32>,
    /// Scratch: how often a block is named in one call.
    times: Vec<u32>,
}

/// The number of blocks of which the policy of a growing tier is notified at first; it then
/// doubles.
const FEW: u32 = 64;

impl std::fmt::Debug for TierPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierPolicy")
            .field("policy", &self.policy.name())
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl TierPolicy {
    /// An empty tier of `capacity` blocks of `block_size` tokens.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub fn new(capacity: u32, block_size: u32, policy: Box<dyn Eviction>) -> Result<Self> {
        Self::with_tenants(capacity, block_size, policy, &[])
    }

    /// The same, whose blocks `tenants` have floors and quotas of; `policy` is one for each of them then.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_tenants(
        capacity: u32,
        block_size: u32,
        mut policy: Box<dyn Eviction>,
        tenants: &[Tenant],
    ) -> Result<Self> {
        policy.infer_parents();
        if let Some(policies) = policy.tenants_mut() {
            policies.set_quotas(tenants);
        }
        let ledger = (!tenants.is_empty()).then(|| Ledger::new(tenants, capacity));
        let mut tier = Self {
            pool: Pool::new(capacity, false).with_ledger(ledger),
            policy,
            now: 0,
            moved: Vec::new(),
            aside: Vec::new(),
            bared: Vec::new(),
            named: None,
            block_size,
            notified: None,
            times: Vec::new(),
        };
        tier.notify_size(capacity)?;
        Ok(tier)
    }

    /// An empty tier without a fixed capacity: it grows on demand.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`], here and not later: the policy cannot grow.
    pub fn growing(block_size: u32, policy: Box<dyn Eviction>) -> Result<Self> {
        let mut tier = Self::new(0, block_size, policy)?;
        tier.notify_size(FEW)?;
        tier.notify_size(2 * FEW)?;
        tier.notified = Some(2 * FEW);
        Ok(tier)
    }

    fn notify_size(&mut self, blocks: u32) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        self.policy.size(blocks, self.block_size).map_err(Error::PolicyRefused)
    }

    /// Grows the tier by one block. `told` is the number of blocks of which the policy was notified.
    fn grow(&mut self, told: u32) -> Result<()> {
        let capacity = self.pool.capacity().saturating_add(1);
        if capacity > told {
            self.notify_size(told.saturating_mul(2))?;
            self.notified = Some(told.saturating_mul(2));
        }
        self.pool.resize(capacity);
        Ok(())
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
    /// [`Error::InUse`], [`Error::PolicyRefused`].
    pub fn resize(&mut self, capacity: u32) -> Result<()> {
        let used = (capacity..self.pool.created()).filter(|&b| self.pool.state(b) != State::Free);
        let (blocks, first) = used.fold((0, u32::MAX), |(n, least), b| (n + 1, b.min(least)));
        if blocks > 0 {
            let from = capacity.into();
            return Err(Error::InUse { blocks, from, first: first.into(), coming: 0 });
        }
        self.notify_size(capacity)?;
        self.take_back_named();
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

    /// Tells the policy that blocks for `keys` are about to be obtained. No lookup found these keys here, but
    /// the policy may remember them as ghosts.
    pub fn on_miss(&mut self, keys: &[Key]) {
        self.tick();
        let view = View { pool: &self.pool, now: self.now };
        for &key in keys {
            self.policy.on_miss(key, view);
        }
    }

    /// A block enters, owned once; `depth` is its place in a prefix where the caller knows it.
    ///
    /// # Errors
    /// [`Error::NoCapacity`]; [`Error::PolicyRefused`] in a tier that grows.
    pub fn insert(&mut self, key: Key, depth: u32, known: RequestInfo<'_>) -> Result<BlockId> {
        self.insert_after(key, NIL, depth, known)
    }

    /// As [`TierPolicy::insert`], after `parent`, which cannot be evicted before it; [`NIL`] is none.
    ///
    /// # Errors
    /// As there.
    pub fn insert_after(
        &mut self,
        key: Key,
        parent: BlockId,
        depth: u32,
        known: RequestInfo<'_>,
    ) -> Result<BlockId> {
        if let Some(told) = self.notified
            && self.pool.free() == 0
        {
            self.grow(told)?;
        }
        let Some(block) = self.pool.take(0) else {
            return Err(Error::NoCapacity {
                needed: 1,
                available: 0,
                total: self.pool.capacity().into(),
                limit: Limit::Pool,
                coming: 0,
            });
        };
        self.tick();
        self.policy.take(&[block]);
        self.pool.publish(block, key, parent, depth);
        let view = View { pool: &self.pool, now: self.now };
        self.policy.insert(&[block], known.access(), view);
        Ok(block)
    }

    /// An allocation found `blocks`, in the order of their prefix: the last is evicted first of them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here.
    pub fn hit(&mut self, blocks: &[BlockId], known: RequestInfo<'_>) -> Result<()> {
        self.check(blocks)?;
        self.tick();
        self.take_unowned(blocks);
        self.policy.hit(blocks, known.access(), View { pool: &self.pool, now: self.now });
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

    /// Adds an owner to each of `blocks` that has none, and remembers those blocks in `moved`.
    fn take_unowned(&mut self, blocks: &[BlockId]) {
        self.take_back_named();
        self.moved.clear();
        for &block in blocks {
            if self.pool.state(block) == State::Cached {
                self.pool.share(block);
                self.moved.push(block);
            }
        }
        self.policy.acquire(&self.moved, View { pool: &self.pool, now: self.now });
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
    pub fn acquire(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks)?;
        self.tick();
        self.take_back_named();
        self.moved.clear();
        for &block in blocks {
            if self.pool.share(block) {
                self.moved.push(block);
            }
        }
        self.policy.acquire(&self.moved, View { pool: &self.pool, now: self.now });
        Ok(())
    }

    /// Drops one owner of each of `blocks`, given in the order of their prefix.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here, or has not that many owners: a double release.
    pub fn release(&mut self, blocks: &[BlockId]) -> Result<()> {
        self.check(blocks)?;
        if let Some(block) = self.over(blocks, Pool::refs) {
            return Err(Error::Invalid {
                what: "block",
                value: block.to_string(),
                limit: "has no owner left to release it".into(),
            });
        }
        self.tick();
        self.moved.clear();
        for &block in blocks {
            if self.pool.unshare(block) == Some(State::Cached) {
                self.moved.push(block);
            }
        }
        self.policy.release(&self.moved, View { pool: &self.pool, now: self.now });
        Ok(())
    }

    /// `blocks` leave the tier, owned or not: a failed store, a reset, a move elsewhere.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a block that is not here, or is named twice.
    pub fn remove(&mut self, blocks: &[BlockId], cause: RemovalCause) -> Result<()> {
        self.check(blocks)?;
        if let Some(block) = self.over(blocks, |_, _| 1) {
            return Err(Error::Invalid {
                what: "block",
                value: block.to_string(),
                limit: "named twice".into(),
            });
        }
        self.tick();
        self.take_back_named();
        for &block in blocks {
            self.leave(block, cause);
        }
        Ok(())
    }

    /// The first of `blocks` that is named more often than `limit` allows for it. The caller: all of them are
    /// in this tier.
    fn over(&mut self, blocks: &[BlockId], limit: fn(&Pool, BlockId) -> u32) -> Option<BlockId> {
        self.times.resize(self.pool.created() as usize, 0);
        let mut found = None;
        for &block in blocks {
            let times = &mut self.times[block as usize];
            *times += 1;
            if *times > limit(&self.pool, block) {
                found = found.or(Some(block));
            }
        }
        for &block in blocks {
            self.times[block as usize] = 0;
        }
        found
    }

    fn leave(&mut self, block: BlockId, cause: RemovalCause) {
        self.unfind(block, cause);
        while self.pool.refs(block) > 0 {
            self.pool.unshare(block);
        }
        self.pool.put_back(block);
    }

    /// The policy's own state against the tier's.
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
