//! An eviction policy for each tenant, as one.

use std::cell::Cell;

use super::share::Share;
use super::{Account, Amount, Ledger, OTHERS, Tenant};
use crate::hash::Key;
use crate::policy::{Access, Consulted, Eviction, External, RemovalCause, View};
use crate::pool::{BlockId, NIL, Pool};

/// One instance of a policy for each tenant, by number. Which tenant loses a block the pool's ledger says; which
/// of its blocks, that tenant's policy.
pub struct PerTenant {
    shares: Vec<Share>,
    /// Whose policy is to be asked next, where policies lie outside the core.
    asked: Cell<usize>,
    outside: bool,
    /// Of each, where it is limited.
    quotas: Vec<Option<Amount>>,
    /// What each had when its quota was set: it may have more than that, all of which may become findable.
    had: Vec<u32>,
}

impl PerTenant {
    /// `policies`: the others' first, then one for each tenant in their order; all of one kind.
    pub fn new(mut policies: Vec<Box<dyn Eviction>>) -> Self {
        let outside = policies.first_mut().is_some_and(|p| p.external().is_some() || !p.ready(1));
        let shares = policies.into_iter().map(Share::new).collect();
        Self { shares, asked: Cell::new(0), outside, quotas: Vec::new(), had: Vec::new() }
    }

    /// For how many they are, the others included.
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// The quotas of `tenants`: what the policy of each is told of the pool's size.
    pub fn set_quotas(&mut self, tenants: &[Tenant]) {
        let quotas = tenants.iter().map(|tenant| tenant.quota);
        self.quotas = std::iter::once(None).chain(quotas).collect();
    }

    /// What each has while quotas change: the policy of each has room for that.
    pub fn set_had(&mut self, accounts: &[Account]) {
        self.had = accounts.iter().map(|account| account.used).collect();
    }

    /// These take the place of `before`, each on its tenant's clock.
    pub fn follow(&mut self, before: &Self) {
        self.shares.iter_mut().zip(&before.shares).for_each(|(share, old)| share.follow(old));
    }

    /// What the core keeps of blocks for policies outside of it goes over from `before`.
    pub fn take_rows(&mut self, before: &mut Self) {
        let shares = self.shares.iter_mut().zip(&mut before.shares);
        shares.for_each(|(share, old)| share.take_rows(old));
    }

    /// The blocks of each tenant in the order in which it would lose them, tenant by tenant.
    pub fn orders(&self) -> Vec<BlockId> {
        let order = |share: &Share| {
            let view = share.view();
            let order = share.policy().order(view, view.pool.created() as usize);
            order.into_iter().map(|own| share.block(own)).collect::<Vec<_>>()
        };
        self.shares.iter().flat_map(order).collect()
    }

    /// A findable block as the policy of its tenant knows it: by nothing of other tenants.
    pub fn shown(&self, pool: &Pool, block: BlockId) -> BlockId {
        self.shares[pool.tenant(block) as usize].shown(block)
    }

    /// Whether they decide before an operation, outside the core.
    pub fn are_outside(&self) -> bool {
        self.outside
    }

    /// Whether the policy of tenant `at` can name `n` victims now.
    pub fn is_ready(&self, at: usize, n: usize) -> bool {
        self.shares[at].policy().ready(n)
    }

    /// The policy of tenant `at` is the one to be asked.
    pub fn ask(&self, at: usize) {
        self.asked.set(at.min(self.shares.len() - 1));
    }

    /// Whose policy is to be asked.
    pub fn to_ask(&self) -> usize {
        self.asked.get()
    }

    /// That policy, and what it looks at.
    pub fn asked<'a>(&'a mut self, view: View<'_>) -> (&'a mut dyn Eviction, View<'a>) {
        let at = self.asked.get();
        self.shares[at].asked(view.now)
    }

    /// The clock of the policy of `tenant`.
    pub fn now_of(&self, tenant: u8) -> u64 {
        self.shares[tenant as usize].view().now
    }

    /// The states of those outside the core.
    pub fn externals(&mut self) -> impl Iterator<Item = &mut External> {
        self.shares.iter_mut().filter_map(|share| share.policy_mut().external())
    }

    /// The state of the one of `tenant`.
    pub fn external_of(&mut self, tenant: u8) -> Option<&mut External> {
        self.shares[tenant as usize].policy_mut().external()
    }

    /// The operation at hand needs `blocks` itself: they are taken out of choices made before.
    pub fn unpick(&mut self, pool: &Pool, blocks: impl Iterator<Item = BlockId>) {
        if !self.outside {
            return;
        }
        for block in blocks {
            let share = &mut self.shares[pool.tenant(block) as usize];
            let own = share.shown(block);
            if let Some(external) = share.policy_mut().external() {
                external.unpick_all(std::iter::once(own));
            }
        }
    }

    /// The same, and they are kept out of the next offers. Returns whether the policy that is to be asked is
    /// that of the operation's tenant, and hears what it misses.
    pub fn spare(&mut self, pool: &Pool, blocks: impl Iterator<Item = BlockId>) -> bool {
        let blocks: Vec<BlockId> = blocks.collect();
        for (at, share) in self.shares.iter_mut().enumerate() {
            let its = blocks.iter().filter(|&&b| usize::from(pool.tenant(b)) == at);
            let its: Vec<BlockId> = its.map(|&b| share.shown(b)).filter(|&b| b != NIL).collect();
            if let Some(external) = share.policy_mut().external() {
                external.spare(its.into_iter());
            }
        }
        let serving = pool.ledger().map_or(OTHERS, Ledger::serving);
        usize::from(serving) == self.to_ask()
            && self.external_of(serving).is_some_and(|external| external.hears_misses())
    }

    /// So many other engines hold `block` too.
    pub fn set_copies(&mut self, pool: &Pool, block: BlockId, copies: u32) {
        let share = &mut self.shares[pool.tenant(block) as usize];
        let own = share.shown(block);
        if let Some(external) = share.policy_mut().external() {
            external.set_copies(own, copies);
        }
    }

    fn serving(view: View<'_>) -> usize {
        view.pool.ledger().map_or(OTHERS, Ledger::serving).into()
    }

    /// `work` with each tenant's part of `blocks`, which mostly are all of one's.
    fn each(
        &mut self,
        blocks: &[BlockId],
        view: View<'_>,
        mut work: impl FnMut(&mut Share, &[BlockId], usize),
    ) {
        let mut from = 0;
        for run in blocks.chunk_by(|&a, &b| view.pool.tenant(a) == view.pool.tenant(b)) {
            work(&mut self.shares[view.pool.tenant(run[0]) as usize], run, from);
            from += run.len();
        }
    }
}

/// `access` as the blocks from `from` on see it.
fn behind(access: Access<'_>, from: usize) -> Access<'_> {
    Access { next_use: access.next_use.get(from..).unwrap_or(&[]), ..access }
}

impl Eviction for PerTenant {
    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.each(blocks, view, |share, run, from| share.insert(run, behind(access, from), view));
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.each(blocks, view, |share, run, from| share.hit(run, behind(access, from), view));
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.each(blocks, view, |share, run, _| share.acquire(run, view));
    }

    fn own(&mut self, blocks: &[BlockId], first: &[BlockId], access: Access<'_>, view: View<'_>) {
        let mut came = first;
        self.each(blocks, view, |share, run, from| {
            let its = came.iter().take_while(|block| run.contains(block)).count();
            let (mine, rest) =
                came.split_at(if run.len() == blocks.len() { came.len() } else { its });
            share.own(run, mine, behind(access, from), view);
            came = rest;
        });
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.each(blocks, view, |share, run, _| share.release(run, view));
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.shares[view.pool.tenant(block) as usize].on_evictable(block, view);
    }

    fn keeps_places(&self) -> bool {
        self.shares[0].policy().keeps_places()
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.shares[view.pool.tenant(block) as usize].priority_changed(block, view);
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.shares[view.pool.tenant(block) as usize].remove(block, cause, view);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        let loser = view.pool.ledger()?.loser()?;
        self.shares[loser as usize].victim(view.now)
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        // What the tenant that is served would lose itself: all that its admission policy may know.
        let share = &self.shares[Self::serving(view)];
        share.policy().next(share.view()).map(|own| share.block(own))
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let orders = self.shares.iter().map(|share| {
            let order = share.policy().order(share.view(), most);
            order.into_iter().map(|own| share.block(own)).collect::<Vec<_>>()
        });
        let mut orders: Vec<_> = orders.map(Vec::into_iter).collect();
        let losers = view.pool.ledger().map(Ledger::losers).unwrap_or_default();
        losers.into_iter().filter_map(|at| orders[at as usize].next()).take(most).collect()
    }

    fn refuses(&self, next_use: u32, victim: BlockId) -> bool {
        let mut shares = self.shares.iter();
        let knows = shares.find(|share| share.shown(victim) != NIL);
        knows.is_some_and(|share| share.policy().refuses(next_use, share.shown(victim)))
    }

    fn infer_parents(&mut self) {
        self.shares.iter_mut().for_each(|share| share.policy_mut().infer_parents());
    }

    fn on_miss(&mut self, key: Key, view: View<'_>) {
        let at = Self::serving(view);
        let (policy, view) = self.shares[at].asked(view.now);
        policy.on_miss(key, view);
    }

    fn wants_misses(&self) -> bool {
        self.shares[0].policy().wants_misses()
    }

    fn wants_keys(&self) -> bool {
        self.shares[0].policy().wants_keys()
    }

    fn name(&self) -> &'static str {
        self.shares[0].policy().name()
    }

    fn needs_future(&self) -> bool {
        self.shares[0].policy().needs_future()
    }

    fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        let of =
            |quota: &Option<Amount>| quota.map_or(blocks, |quota| quota.of(blocks).min(blocks));
        let sizes = self.quotas.iter().map(of).chain(std::iter::repeat(blocks));
        let had = self.had.iter().copied().chain(std::iter::repeat(0));
        let mut shares = self.shares.iter_mut().zip(sizes.zip(had));
        shares.try_for_each(|(share, (blocks, had))| share.size(blocks.max(had), block_size))
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let mut shares = self.shares.iter().enumerate();
        shares.try_for_each(|(at, share)| {
            let valid = share.validate(pool, |block| usize::from(pool.tenant(block)) == at);
            valid.map_err(|what| format!("tenant {at}: {what}"))
        })
    }
}

impl Consulted for PerTenant {
    fn ready(&self, n: usize) -> bool {
        self.is_ready(self.to_ask(), n)
    }

    fn decide(&mut self, n: usize, view: View<'_>) -> bool {
        let (policy, view) = self.asked(view);
        policy.decide(n, view)
    }

    fn external(&mut self) -> Option<&mut External> {
        let at = self.asked.get();
        self.shares[at].policy_mut().external()
    }

    fn tenants(&self) -> Option<&Self> {
        Some(self)
    }

    fn tenants_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn fallbacks(&self) -> u64 {
        self.shares.iter().map(|share| share.policy().fallbacks()).sum()
    }

    fn shows_order(&self) -> bool {
        self.shares[0].policy().shows_order()
    }
}
