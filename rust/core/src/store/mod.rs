//! The blocks of a cache, with all that is known of their content: how they are found, in which order they are
//! evicted, and what happened to them.
//!
//! Pool, index and policy change together or not at all: a block that becomes findable is in all
//! three, and one that is evicted leaves all three.
//!
//! | modules | purpose |
//! | --- | --- |
//! | `publish` | computed blocks become findable |
//! | `owners` | owners come and leave |
//! | `loans` | blocks that callers track themselves |
//! | `approach` | what evictions will read, read ahead of them |
//! | `tenants` | what each tenant can have, and which of them loses blocks |
//! | `size` | a pool that grows or shrinks |
//! | `forget` | blocks that are not to be found any more |
//! | `replace` | another eviction policy over the blocks as they are |
//! | `retain` | how important a block is, and for how long |
//! | `note` | entries of the ordered log |
//! | `check` | all of this, checked from scratch |

mod approach;
mod check;
mod forget;
mod loans;
mod note;
mod owners;
mod publish;
mod replace;
mod retain;
mod size;
mod tenants;

use crate::attachments::Attachments;
use crate::error::{Error, Result};
use crate::events::{EvictionCause, Kind, Log};
use crate::hash::Key;
use crate::index::{Index, KeyMatch, Proof};
use crate::options::Options;
use crate::origins::Origins;
use crate::policy::admission::{AdmissionCounts, Gate};
use crate::policy::{Eviction, RemovalCause, View};
use crate::pool::{BlockId, Pool};
use crate::retention::{RetentionState, Sessions};
use crate::sequence::SeqId;
use crate::stats::{RecentKeys, Removal, Samples, Stats};

/// Blocks, the index that finds them, and the policy that says which is evicted next.
pub(crate) struct Store {
    pool: Pool,
    index: Index,
    policy: Box<dyn Eviction>,
    /// The admission policy; without one, every block becomes findable.
    gate: Option<Box<Gate>>,
    /// Whose KV the findable blocks hold.
    origins: Origins,
    /// What is attached to prefixes.
    attached: Attachments,
    retention: RetentionState,
    sessions: Sessions,
    /// Whether sessions are told apart.
    by_session: bool,
    /// Whether a superfluous copy stays.
    keeps_copies: bool,
    /// Keys that were findable lately.
    ghosts: RecentKeys,
    /// How long blocks live.
    samples: Samples,
    log: Log,
    stats: Stats,
    /// What policies that were replaced have done.
    past_fallbacks: u64,
    past_admission: AdmissionCounts,
    now: u64,
    /// A buffer that outlives a call.
    kept: Vec<BlockId>,
}

impl Store {
    /// An empty pool under `policy`; its blocks have up to `span` tokens.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub(crate) fn new(options: &Options, span: u32, mut policy: Box<dyn Eviction>) -> Result<Self> {
        if let Some(policies) = policy.tenants_mut() {
            policies.set_quotas(&options.tenants);
        }
        policy.size(options.blocks, options.block_size).map_err(Error::PolicyRefused)?;
        let observe = options.observe;
        let ghosts =
            if observe.statistics { observe.ghosts.min(options.blocks.max(64)) } else { 0 };
        Ok(Self {
            pool: Pool::new(options.blocks, options.null_block).with_ledger(options.ledger()),
            index: Index::new(options, span),
            policy,
            gate: None,
            origins: Origins::default(),
            attached: Attachments::default(),
            // Whether uses count must not depend on what another tenant asked for.
            retention: RetentionState::new(options.sessions || !options.tenants.is_empty()),
            sessions: Sessions::default(),
            by_session: options.sessions,
            keeps_copies: options.keep_duplicates,
            ghosts: RecentKeys::new(ghosts),
            samples: Samples::new(observe.sample),
            log: Log::new(options.event_log),
            stats: Stats::default(),
            past_fallbacks: 0,
            past_admission: AdmissionCounts::default(),
            now: 0,
            kept: Vec::new(),
        })
    }

    /// The blocks.
    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What finds them.
    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// The eviction policy.
    #[inline]
    pub(crate) fn policy(&self) -> &dyn Eviction {
        &*self.policy
    }

    /// The admission policy, if there is one.
    #[inline]
    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// The place of the admission policy.
    pub(crate) fn gate_mut(&mut self) -> &mut Option<Box<Gate>> {
        &mut self.gate
    }

    /// Has `gate` decide from now on; returns the one that did.
    pub(crate) fn replace_gate(&mut self, gate: Option<Box<Gate>>) -> Option<Box<Gate>> {
        self.past_admission = self.admission_counts();
        std::mem::replace(&mut self.gate, gate)
    }

    /// What the admission policies did so far.
    pub(crate) fn admission_counts(&self) -> AdmissionCounts {
        let now = self.gate.as_ref().map(|gate| gate.counts).unwrap_or_default();
        let past = self.past_admission;
        AdmissionCounts {
            kept: past.kept + now.kept,
            dropped: past.dropped + now.dropped,
            lowered: past.lowered + now.lowered,
        }
    }

    /// How many victims the built-in order named for eviction policies outside the core.
    pub(crate) fn fallbacks(&self) -> u64 {
        self.past_fallbacks + self.policy.fallbacks()
    }

    /// Whose KV the findable blocks hold.
    pub(crate) fn origins(&self) -> &Origins {
        &self.origins
    }

    /// What is attached to prefixes.
    #[inline]
    pub(crate) fn attached(&self) -> &Attachments {
        &self.attached
    }

    /// What is attached to prompts, to attach more.
    pub(crate) fn attached_mut(&mut self) -> &mut Attachments {
        &mut self.attached
    }

    /// How long blocks live.
    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The counters.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters, to count what the caller does.
    #[inline]
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Whether a key was ever findable for two blocks at once.
    #[inline]
    pub(crate) fn has_copies(&self) -> bool {
        self.stats.duplicates > 0
    }

    /// How and when the block under `key` was lost, if that is remembered.
    pub(crate) fn recall(&self, key: Key) -> Option<(Removal, u64)> {
        self.ghosts.recall(key)
    }

    /// The logical clock: one tick an operation that changed something.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// What a policy may look at.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { pool: &self.pool, now: self.now }
    }

    /// An operation changes something.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now += 1;
    }

    /// Refuses what needs more blocks than `tenant` can have; `acquired` cached blocks are spoken for.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    #[inline]
    pub(crate) fn check_room(&self, needed: u32, acquired: u32, tenant: u8) -> Result<()> {
        let all = self.available(tenant);
        let available = all.saturating_sub(acquired);
        // What is cached where others have a floor cannot be owned.
        if needed > available || acquired > all {
            return Err(self.no_room(needed, acquired, tenant));
        }
        if self.pool.ledger().is_some() {
            return self.check_tenants_ready(needed, acquired, tenant);
        }
        let short = needed.saturating_sub(self.pool.free());
        if short > 0 && !self.policy.ready(short as usize) {
            return Err(Error::NeedVictims { n: short });
        }
        Ok(())
    }

    #[cold]
    fn no_room(&self, needed: u32, acquired: u32, tenant: u8) -> Error {
        let (all, (total, limit)) = (self.available(tenant), self.limit(tenant));
        Error::NoCapacity {
            needed: u64::from(needed) + u64::from(acquired.saturating_sub(all)),
            available: u64::from(all.saturating_sub(acquired)),
            total,
            limit,
            coming: u64::from(self.pool.coming()),
        }
    }

    /// Gives `seq` a block: a free one, or else the next victim, which is evicted. `None` if no block may
    /// be evicted. `None` also if `next_use` is given and the policy prefers to keep the victim.
    #[inline]
    pub(crate) fn obtain(
        &mut self,
        seq: SeqId,
        group: usize,
        next_use: Option<u32>,
    ) -> Option<BlockId> {
        let block = if self.pool.must_evict() {
            let victim = self.next_victim()?;
            if next_use.is_some_and(|o| self.policy.refuses(o, victim)) {
                return None;
            }
            self.vacate(victim, EvictionCause::Sequence);
            self.pool.retake(victim, group as u8);
            victim
        } else {
            self.pool.take(group as u8)?
        };
        self.policy.take(&[block]);
        self.stats.allocated += 1;
        self.note_block(Kind::Obtain, seq, block, 0);
        Some(block)
    }

    /// The block that is evicted next, if any may.
    #[inline]
    pub(crate) fn next_victim(&mut self) -> Option<BlockId> {
        if self.pool.cached() == 0 {
            return None;
        }
        let view = View { pool: &self.pool, now: self.now };
        let named = self.policy.victim(view).filter(|&b| self.pool.is_evictable(b));
        named.or_else(|| self.any_victim())
    }

    /// Whatever a policy answers, the core finds a leaf: lowest id, so that logs repeat.
    #[cold]
    fn any_victim(&self) -> Option<BlockId> {
        if self.pool.ledger().is_some() {
            return None;
        }
        (0..self.pool.created()).find(|&b| self.pool.is_evictable(b))
    }

    /// Evicts a cached block that nothing findable follows, and frees it: room ahead of need.
    pub(crate) fn evict(&mut self, victim: BlockId) {
        self.stats.evictions_ahead += 1;
        self.vacate(victim, EvictionCause::Ahead);
        self.pool.put_back(victim);
    }

    /// [`Self::evict`] for a caller that takes the block at once: it is never on the free list.
    #[inline]
    fn vacate(&mut self, victim: BlockId, cause: EvictionCause) {
        self.note_block(Kind::Evict, 0, victim, cause as u64);
        self.stats.evictions += 1;
        self.forget(victim, RemovalCause::Evicted);
        self.count_loss(victim, cause);
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
}
