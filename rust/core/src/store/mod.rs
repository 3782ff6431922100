//! The blocks of a cache, with all that is known of their content: how they are found, in which order they are
//! evicted, and what happened to them.
//!
//! Pool, index and policy change together or not at all: a block that becomes findable is in all
//! three, and one that is evicted leaves all three.
//!
//! | modules | purpose |
//! | --- | --- |
//! | `owners` | owners come and leave |
//! | `forget` | blocks that are not to be found any more |
//! | `retain` | how important a block is, and for how long |
//! | `note` | entries of the ordered log |

mod forget;
mod note;
mod owners;
mod retain;

use crate::attachments::Attachments;
use crate::error::{Error, Result};
use crate::events::{Kind, Log};
use crate::ghosts::RecentKeys;
use crate::hash::{Key, Space};
use crate::index::{Index, KeyMatch, Proof};
use crate::options::Options;
use crate::origins::Origins;
use crate::policy::admission::Gate;
use crate::policy::{Access, Eviction, RemovalCause, View};
use crate::pool::{BlockId, Pool};
use crate::retention::{RetentionState, Sessions};
use crate::samples::Samples;
use crate::sequence::SeqId;
use crate::stats::Stats;

/// Blocks, the index that finds them, and the policy that says which is evicted next.
pub(crate) struct Store {
    pub(crate) pool: Pool,
    pub(crate) index: Index,
    pub(crate) policy: Box<dyn Eviction>,
    /// The admission policy; without one, every block becomes findable.
    pub(crate) gate: Option<Box<Gate>>,
    /// Whose KV the findable blocks hold.
    pub(crate) origins: Origins,
    /// What is attached to prefixes.
    pub(crate) attached: Attachments,
    pub(crate) retention: RetentionState,
    pub(crate) sessions: Sessions,
    /// Whether sessions are told apart.
    by_session: bool,
    /// Keys that were findable lately.
    pub(crate) ghosts: RecentKeys,
    /// How long blocks live.
    pub(crate) samples: Samples,
    pub(crate) log: Log,
    pub(crate) stats: Stats,
    /// The logical clock.
    pub(crate) now: u64,
    /// A buffer that outlives a call.
    kept: Vec<BlockId>,
}

impl Store {
    /// An empty pool under `policy`; its blocks have up to `span` tokens.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub(crate) fn new(options: &Options, span: u32, mut policy: Box<dyn Eviction>) -> Result<Self> {
        policy.size(options.blocks, options.block_size).map_err(Error::PolicyRefused)?;
        let observe = options.observe;
        let ghosts =
            if observe.statistics { observe.ghosts.min(options.blocks.max(64)) } else { 0 };
        Ok(Self {
            pool: Pool::new(options.blocks, options.null_block),
            index: Index::new(options, span),
            policy,
            gate: None,
            origins: Origins::default(),
            attached: Attachments::default(),
            retention: RetentionState::new(options.sessions),
            sessions: Sessions::default(),
            by_session: options.sessions,
            ghosts: RecentKeys::new(ghosts),
            samples: Samples::new(observe.sample),
            log: Log::new(options.event_log),
            stats: Stats::default(),
            now: 0,
            kept: Vec::new(),
        })
    }

    /// What a policy may look at.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { pool: &self.pool, now: self.now }
    }

    /// The policy, and what it looks at.
    pub(crate) fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        (self.policy.as_mut(), View { pool: &self.pool, now: self.now })
    }

    /// An operation changes something.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now += 1;
    }

    /// Refuses what needs more blocks than can be had; `acquired` cached blocks are spoken for.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    pub(crate) fn check_room(&self, needed: u32, acquired: u32) -> Result<()> {
        let available = self.pool.available() - acquired;
        if needed > available {
            return Err(Error::NoCapacity {
                needed: u64::from(needed),
                available: u64::from(available),
                total: u64::from(self.pool.usable()),
                coming: u64::from(self.pool.coming()),
            });
        }
        let short = needed.saturating_sub(self.pool.free());
        if short > 0 && !self.policy.ready(short as usize) {
            return Err(Error::NeedVictims { n: short });
        }
        Ok(())
    }

    /// A block for `seq`: a free one, else the next victim's. With `next_use`, the policy may refuse.
    #[inline]
    pub(crate) fn obtain(
        &mut self,
        seq: SeqId,
        group: usize,
        next_use: Option<u32>,
    ) -> Option<BlockId> {
        if self.pool.free() == 0 {
            let victim = self.next_victim()?;
            if next_use.is_some_and(|o| self.policy.refuses(o, victim)) {
                return None;
            }
            self.evict(victim);
        }
        let block = self.pool.take(group as u8)?;
        self.policy.take(&[block]);
        self.stats.allocated += 1;
        self.note_block(Kind::Allocate, seq, block, 0);
        Some(block)
    }

    /// The block that is evicted next, if any may.
    pub(crate) fn next_victim(&mut self) -> Option<BlockId> {
        if self.pool.cached() == 0 {
            return None;
        }
        let view = View { pool: &self.pool, now: self.now };
        let named = self.policy.victim(view).filter(|&b| self.pool.is_evictable(b));
        // Whatever a policy answers, the core finds a leaf: lowest id, so that logs repeat.
        named.or_else(|| (0..self.pool.created()).find(|&b| self.pool.is_evictable(b)))
    }

    /// Evicts a cached block that nothing findable follows.
    pub(crate) fn evict(&mut self, victim: BlockId) {
        self.note_block(Kind::Evict, 0, victim, 0);
        self.stats.evictions += 1;
        self.forget(victim, RemovalCause::Evicted);
    }

    /// The block under `key`, if `proof` does not say otherwise.
    #[inline]
    pub(crate) fn find_key(&self, key: Key, proof: Option<Proof<'_>>) -> KeyMatch {
        self.index.find(&self.pool, key, proof)
    }

    /// A block is about to be got for `key`, which was not found.
    pub(crate) fn on_miss(&mut self, key: Key) {
        self.policy.on_miss(key, View { pool: &self.pool, now: self.now });
    }

    /// `blocks` became findable: a request in `space`, whose keys start from `root`, computed them.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        blocks: &[BlockId],
        (root, space): (Key, Space<'_>),
        access: Access<'_>,
    ) {
        self.origins.publish(blocks, root, space, access.meta.session);
        self.enter_order(blocks, access);
    }

    /// `block` became findable under a key of its owner's.
    pub(crate) fn insert_unknown(&mut self, block: BlockId, access: Access<'_>) {
        self.origins.publish_unknown(block);
        self.enter_order(&[block], access);
    }

    #[inline]
    fn enter_order(&mut self, blocks: &[BlockId], access: Access<'_>) {
        self.stats.stored += blocks.len() as u64;
        self.policy.insert(blocks, access, View { pool: &self.pool, now: self.now });
        if self.samples.is_on() {
            self.samples.born(blocks, self.now);
        }
    }

    /// `block` is findable under the same key as `copy` is.
    pub(crate) fn mark_copies(&mut self, block: BlockId, copy: BlockId) {
        self.pool.set_duplicated(block, true);
        self.pool.set_duplicated(copy, true);
        self.stats.duplicates += 1;
    }

    /// An allocation found `blocks`, or computed copies of them.
    #[inline]
    pub(crate) fn hit(&mut self, blocks: &[BlockId], access: Access<'_>) {
        self.policy.hit(blocks, access, View { pool: &self.pool, now: self.now });
    }

    /// Compares what index, policy, retention and origins say with the pool.
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub(crate) fn validate(&self) -> std::result::Result<(), String> {
        self.index.validate(&self.pool)?;
        self.policy.validate(&self.pool)?;
        self.retention.validate(&self.pool)?;
        self.sessions.validate()?;
        self.origins.validate(&self.pool)
    }
}
