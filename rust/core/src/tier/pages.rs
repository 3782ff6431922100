//! A tier's pages: which prefixes it holds, and what makes room for more.
//!
//! The pages of a tier are closed under prefix: one comes in only behind its parent, and a parent
//! outlives its children. So what a tier has of a prompt is always its beginning.

use std::collections::{HashSet, VecDeque};

use super::changes::Changes;
use super::transfers::{TierStats, Transfer};
use super::{RequestInfo, TierPolicy};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::{ByKey, Consult, Eviction, View};
use crate::pool::{BlockId, NIL};
use crate::tenants::Tenant;

/// Pages that left, each with the place that it had.
pub type EvictedPages = Vec<(Key, BlockId)>;

/// What a tier may do at once.
#[derive(Debug, Clone, Copy)]
pub struct TierLimits {
    /// Pages.
    pub pages: u32,
    /// Pages on their way, in and out, together.
    pub in_flight: u32,
    /// Pages that a tier below has too are evicted first.
    pub backed_first: bool,
}

impl TierLimits {
    /// Pages of a share of the tier, such as its high mark; at least one.
    pub fn mark(&self, share: f64) -> u32 {
        ((share * f64::from(self.pages) + 0.5).floor() as u32).max(1)
    }
}

/// Pages that are to come in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreResult {
    /// Of the transfer; 0 if every page is there or on its way already.
    pub ticket: u64,
    /// Pages of the prefix that need not move.
    pub present: u32,
    /// Where the others go, in order.
    pub pages: Vec<BlockId>,
    /// The pages evicted to make room. Their bytes stay until those of the transfer are written.
    pub evicted: EvictedPages,
}

/// Pages that are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadResult {
    /// Of the transfer.
    pub ticket: u64,
    /// Where they are, in order.
    pub pages: Vec<BlockId>,
}

/// The state of one tier.
///
/// Every key belongs to one prefix: `keys` of each call are the whole of it, from its first page on.
#[derive(Debug)]
pub struct TierPages {
    pub(super) tier: TierPolicy,
    pub(super) limits: TierLimits,
    pub(super) by_key: ByKey<BlockId>,
    /// By page: its bytes are here, in all parts.
    pub(super) stored: Vec<bool>,
    /// By page: a tier below has it too.
    pub(super) backed: Vec<bool>,
    /// In the order of their tickets.
    pub(super) transfers: VecDeque<Transfer>,
    /// Pages on their way.
    pub(super) moving: u32,
    pub(super) stats: TierStats,
    /// Pages on loan.
    pub(super) lent: u32,
    last: u64,
    /// What a mirror is told next, if there is one.
    pub(super) changes: Option<Box<Changes>>,
}

impl Consult for TierPages {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        self.tier.consulted()
    }

    fn instance(&mut self) -> usize {
        self.tier.instance()
    }

    fn ask_instance(&mut self, at: usize) {
        self.tier.ask_instance(at);
    }
}

impl TierPages {
    /// An empty tier under a policy of its own; a page has `block_size` tokens.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub fn new(limits: TierLimits, block_size: u32, policy: Box<dyn Eviction>) -> Result<Self> {
        Self::with_tenants(limits, block_size, policy, &[])
    }

    /// The same, whose pages `tenants` have floors and quotas of; `policy` is a
    /// [`PerTenant`](crate::tenants::PerTenant) for as many.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub fn with_tenants(
        limits: TierLimits,
        block_size: u32,
        policy: Box<dyn Eviction>,
        tenants: &[Tenant],
    ) -> Result<Self> {
        Ok(Self {
            tier: TierPolicy::with_tenants(limits.pages, block_size, policy, tenants)?,
            limits,
            by_key: ByKey::default(),
            stored: Vec::new(),
            backed: Vec::new(),
            transfers: VecDeque::new(),
            moving: 0,
            stats: TierStats::default(),
            lent: 0,
            last: 0,
            changes: None,
        })
    }

    /// The blocks and their policy.
    pub fn tier(&mut self) -> &mut TierPolicy {
        &mut self.tier
    }

    /// What it may do at once.
    pub fn limits(&self) -> TierLimits {
        self.limits
    }

    /// (free, cached, owned) pages.
    pub fn counts(&self) -> (u32, u32, u32) {
        let pool = self.tier.pool();
        (pool.free(), pool.cached(), pool.referenced())
    }

    /// What has happened.
    pub fn stats(&self) -> TierStats {
        self.stats
    }

    /// Pages on their way.
    pub fn moving(&self) -> u32 {
        self.moving
    }

    /// How many of a prefix can be read now, from the first on. Changes nothing.
    pub fn find(&self, keys: &[Key]) -> u32 {
        let pool = self.tier.pool();
        let on_its_way = |transfer: &Transfer| {
            let first = *transfer.moves().first().filter(|_| transfer.is_coming())?;
            // What was forgotten meanwhile keeps its page, and no longer its key.
            let is_found = pool.is_findable(first);
            let depth = Some(pool.depth(first)).filter(|_| is_found)?;
            (keys.get(depth as usize) == Some(&pool.key(first))).then_some(depth)
        };
        let coming = self.transfers.iter().filter_map(on_its_way).min();
        let present = self.present(keys);
        coming.map_or(present, |depth| depth.min(present))
    }

    /// How many of a prefix are here or on their way, from the first on: a page is here only behind all before it.
    /// Changes nothing.
    pub fn present(&self, keys: &[Key]) -> u32 {
        keys.partition_point(|key| self.by_key.contains_key(key)) as u32
    }

    /// The keys of the prefix that ends with `page`; none if the page is not findable.
    pub fn prefix(&self, page: BlockId) -> Vec<Key> {
        let pool = self.tier.pool();
        let found = Some(page).filter(|&page| pool.is_findable(page));
        let up = |&page: &BlockId| Some(pool.parent(page)).filter(|&parent| parent != NIL);
        let mut keys: Vec<Key> = std::iter::successors(found, up).map(|b| pool.key(b)).collect();
        keys.reverse();
        keys
    }

    /// Every page that can be read, with its key, in the order of the pages' ids.
    pub fn stored_pages(&self) -> EvictedPages {
        let pool = self.tier.pool();
        let stored =
            (0..pool.created()).filter(|&b| pool.is_findable(b) && self.stored[b as usize]);
        stored.map(|page| (pool.key(page), page)).collect()
    }

    fn pages_of(&self, keys: &[Key]) -> Vec<BlockId> {
        keys.iter().map_while(|key| self.by_key.get(key).copied()).collect()
    }

    /// Reserves room behind what is here of a prefix for the rest of it, which `parts` movers bring.
    ///
    /// # Errors
    /// [`Error::Busy`] if too much is on its way; [`Error::NoCapacity`]; [`Error::NeedVictims`]. In
    /// each case nothing has changed.
    pub fn store(
        &mut self,
        keys: &[Key],
        parts: u32,
        known: RequestInfo<'_>,
    ) -> Result<StoreResult> {
        let mut chain = self.pages_of(keys);
        let present = chain.len() as u32;
        let wanted = keys.len() as u32 - present;
        if wanted == 0 {
            return Ok(StoreResult { present, ..StoreResult::default() });
        }
        self.check_flight(wanted)?;
        let evicted = self.make_room(wanted, &chain)?;
        self.tier.acquire(&chain)?;
        self.tier.on_miss(&keys[present as usize..]);
        let mut parent = chain.last().copied().unwrap_or(NIL);
        for (depth, &key) in (present..).zip(&keys[present as usize..]) {
            let page = self.tier.insert_after(key, parent, depth, known.behind(depth))?;
            self.enter(key, page, false);
            chain.push(page);
            parent = page;
        }
        let pages = chain[present as usize..].to_vec();
        let ticket = self.open(true, chain, wanted, parts);
        Ok(StoreResult { ticket, present, pages, evicted })
    }

    /// As [`TierPages::store`], of as much of the prefix as there is room for now: the pages of it that are
    /// here then. `None` if there is room for none.
    ///
    /// # Errors
    /// [`Error::NeedVictims`]. Nothing has changed.
    pub fn store_some(
        &mut self,
        keys: &[Key],
        parts: u32,
        known: RequestInfo<'_>,
    ) -> Result<Option<(StoreResult, u32)>> {
        let all = keys.len() as u32;
        match self.store(keys, parts, known) {
            Err(Error::Busy { .. } | Error::NoCapacity { .. }) => {}
            settled => return settled.map(|stored| Some((stored, all))),
        }
        let present = self.present(keys);
        let room = match self.tier.pool().ledger() {
            Some(_) => self.tier.available(&self.pages_of(&keys[..present as usize])),
            None => self.tier.pool().available().saturating_sub(present),
        };
        let flight =
            if self.moving > 0 { self.limits.in_flight.saturating_sub(self.moving) } else { all };
        let fits = room.min(flight).min((all - present).saturating_sub(1));
        if fits == 0 {
            return Ok(None);
        }
        let taken = present + fits;
        match self.store(&keys[..taken as usize], parts, known) {
            Err(Error::Busy { .. } | Error::NoCapacity { .. }) => Ok(None),
            settled => settled.map(|stored| Some((stored, taken))),
        }
    }

    /// Opens the pages of a prefix from the place `from` on, for `parts` movers to read; `used` if a
    /// request wants them, rather than a tier below.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`] if some cannot be read. Nothing has changed.
    pub fn load(
        &mut self,
        keys: &[Key],
        from: u32,
        parts: u32,
        used: Option<RequestInfo<'_>>,
    ) -> Result<LoadResult> {
        let found = self.find(keys);
        if (found as usize) < keys.len() || from > found {
            return Err(Error::Invalid {
                what: "load",
                value: format!("pages {from} to {}", keys.len()),
                limit: format!("{found} of the prefix can be read"),
            });
        }
        let wanted = found - from;
        self.check_flight(wanted)?;
        let chain = self.pages_of(keys);
        if let Some(known) = used {
            self.tier.hit(&chain, known)?;
        }
        self.tier.acquire(&chain)?;
        let pages = chain[from as usize..].to_vec();
        let ticket = self.open(false, chain, wanted, parts);
        Ok(LoadResult { ticket, pages })
    }

    /// Adds a page whose bytes were in the tier before this state existed, behind `parent`. Returns `None`
    /// and changes nothing if `parent` is not here, there is no room, or the page is known already.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn adopt(&mut self, key: Key, parent: Option<Key>) -> Result<Option<BlockId>> {
        let above = parent.map(|parent| self.by_key.get(&parent).copied());
        let full = self.tier.pool().free() == 0;
        if full || above == Some(None) || self.by_key.contains_key(&key) {
            return Ok(None);
        }
        let above = above.flatten().unwrap_or(NIL);
        let depth = if above == NIL { 0 } else { self.tier.pool().depth(above) + 1 };
        let page = self.tier.insert_after(key, above, depth, RequestInfo::default())?;
        self.enter(key, page, true);
        self.note_stored(page);
        self.tier.release(&[page])?;
        Ok(Some(page))
    }

    /// A prefix is used without being read: a tier above has it.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn touch(&mut self, keys: &[Key], known: RequestInfo<'_>) -> Result<()> {
        let chain = self.pages_of(keys);
        self.tier.hit(&chain, known)
    }

    /// Forgets a page that turned out to be gone or wrong, and all that follow it; each after those
    /// that follow it.
    pub fn forget(&mut self, key: Key) -> EvictedPages {
        self.by_key.get(&key).copied().map_or_else(Vec::new, |page| self.forget_from(page))
    }

    /// Forgets every page, those on their way too; each after those that follow it.
    pub fn clear(&mut self) -> EvictedPages {
        let pool = self.tier.pool();
        let mut pages: Vec<BlockId> =
            (0..pool.created()).filter(|&page| pool.is_findable(page)).collect();
        pages.sort_unstable_by_key(|&page| (u32::MAX - pool.depth(page), page));
        self.drop_all(pages)
    }

    /// Says which pages a tier below has too.
    pub fn set_backed(&mut self, keys: &[Key], backed: bool) {
        for key in keys {
            if let Some(&page) = self.by_key.get(key) {
                self.backed[page as usize] = backed;
            }
        }
    }

    /// Whether a tier below has `page` too.
    pub fn is_backed(&self, page: BlockId) -> bool {
        self.backed.get(page as usize).copied().unwrap_or(false)
    }

    /// Forgets `page` and all that follow it, the deepest first.
    pub(super) fn forget_from(&mut self, page: BlockId) -> EvictedPages {
        let pool = self.tier.pool();
        let depth = pool.depth(page);
        let found = (0..pool.created()).filter(|&b| pool.is_findable(b) && pool.depth(b) > depth);
        let mut below: Vec<BlockId> = found.collect();
        below.sort_by_key(|&b| (pool.depth(b), b));
        let mut gone = vec![page];
        let mut named = HashSet::from([page]);
        for block in below {
            if named.contains(&pool.parent(block)) {
                named.insert(block);
                gone.push(block);
            }
        }
        gone.reverse();
        self.drop_all(gone)
    }

    fn drop_all(&mut self, pages: Vec<BlockId>) -> EvictedPages {
        self.stats.forgotten += pages.len() as u64;
        let forgotten = |page: BlockId| {
            let key = self.leave(page);
            self.tier.forget(page);
            (key, page)
        };
        pages.into_iter().map(forgotten).collect()
    }

    fn enter(&mut self, key: Key, page: BlockId, stored: bool) {
        for column in [&mut self.stored, &mut self.backed] {
            if column.len() <= page as usize {
                column.resize(page as usize + 1, false);
            }
        }
        self.stored[page as usize] = stored;
        self.backed[page as usize] = false;
        self.by_key.insert(key, page);
    }

    pub(super) fn leave(&mut self, page: BlockId) -> Key {
        let key = self.tier.pool().key(page);
        self.by_key.remove(&key);
        self.note_left(page, key);
        self.stored[page as usize] = false;
        key
    }

    fn open(&mut self, store: bool, chain: Vec<BlockId>, moving: u32, parts: u32) -> u64 {
        self.last += 1;
        self.moving += moving;
        let ticket = self.last;
        let (good, cancelled, deadline) = (moving, false, None);
        let parts = parts.max(1);
        self.transfers.push_back(Transfer {
            ticket,
            store,
            chain,
            moving,
            parts,
            good,
            cancelled,
            deadline,
        });
        ticket
    }
}
