//! What each tenant can have of the blocks, and which of them loses some. Without tenants, all is anyone's.

use super::Store;
use crate::error::{Error, Limit, Result};
use crate::events::EvictionCause;
use crate::options::Fault;
use crate::policy::{Eviction, External, View};
use crate::pool::{BlockId, NIL, State};
use crate::tenants::{Account, Ledger, OTHERS, Tenant, TenantCounts};

impl Store {
    /// The operation is of `tenant` from now on: what it takes is that tenant's.
    #[inline]
    pub(crate) fn serve(&mut self, tenant: u8) {
        if let Some(ledger) = self.pool.ledger_mut() {
            ledger.serve(tenant);
        }
    }

    /// The sequences of `tenant` are promised `more` blocks than before, and `less` of those.
    pub(crate) fn promise(&mut self, tenant: u8, more: u32, less: u32) {
        if let Some(ledger) = self.pool.ledger_mut() {
            ledger.promise(tenant, more, less);
        }
    }

    /// What happened to `tenant`, to count more.
    #[inline]
    pub(crate) fn tenant_counts_mut(&mut self, tenant: u8) -> Option<&mut TenantCounts> {
        self.pool.ledger_mut().map(|ledger| ledger.counts_mut(tenant))
    }

    /// What each tenant has, by number; none where tenants are not told apart.
    pub(crate) fn accounts(&self) -> &[Account] {
        self.pool.ledger().map_or(&[], |ledger| ledger.accounts())
    }

    /// Blocks that `tenant` can get now.
    #[inline]
    pub(crate) fn available(&self, tenant: u8) -> u32 {
        match self.pool.ledger() {
            None => self.pool.available(),
            Some(ledger) => ledger.available(tenant),
        }
    }

    /// Blocks that `tenant` can ever have.
    #[inline]
    pub(crate) fn usable(&self, tenant: u8) -> u32 {
        match self.pool.ledger() {
            None => self.pool.usable(),
            Some(ledger) => ledger.most(tenant),
        }
    }

    /// The same, and what sets it.
    pub(crate) fn limit(&self, tenant: u8) -> (u64, Limit) {
        let total = self.usable(tenant);
        let quota = self.accounts().get(tenant as usize).map(|account| account.quota);
        let limit = match quota {
            _ if total == self.pool.usable() => Limit::Pool,
            Some(quota) if quota == total => Limit::Quota,
            _ => Limit::Floors,
        };
        (total.into(), limit)
    }

    /// Whether a pool of `blocks` has the floors beside what is owned above them.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check_floors(&self, blocks: u32) -> Result<()> {
        let Some(ledger) = self.pool.ledger() else { return Ok(()) };
        let usable = blocks - (self.pool.capacity() - self.pool.usable());
        let needed = ledger.spoken_of(usable);
        if needed <= u64::from(usable) {
            return Ok(());
        }
        let limit = format!("floors, and what is owned above them, take {needed} blocks");
        Err(Error::Invalid { what: "blocks", value: blocks.to_string(), limit })
    }

    /// What is wrong with other floors and quotas now.
    pub(crate) fn share_fault(&self, tenants: &[Tenant]) -> Option<Fault> {
        self.pool.ledger().and_then(|ledger| ledger.share_fault(tenants))
    }

    /// Tells the policies of tenants, which stay, of other quotas; `before`, the present ones.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`]; nothing has changed then.
    pub(crate) fn size_policies(
        &mut self,
        (tenants, before): (&[Tenant], &[Tenant]),
        block_size: u32,
    ) -> Result<()> {
        let (blocks, accounts) = (self.pool.capacity(), self.accounts().to_vec());
        let Some(policies) = self.policy.tenants_mut() else { return Ok(()) };
        policies.set_had(&accounts);
        policies.set_quotas(tenants);
        policies.size(blocks, block_size).map_err(|why| {
            policies.set_quotas(before);
            // Sizes that all of them have taken before.
            drop(policies.size(blocks, block_size));
            Error::PolicyRefused(why)
        })
    }

    /// Gives the same `tenants` other floors and quotas, which their policies know. Cached blocks above a quota are
    /// evicted.
    pub(crate) fn set_shares(&mut self, tenants: &[Tenant]) {
        if let Some(ledger) = self.pool.ledger_mut() {
            ledger.set_shares(tenants);
        }
        self.tick();
        self.shed();
    }

    /// Evicts what is cached of tenants above their quotas: what runs keeps its blocks, and they go as it ends.
    #[cold]
    #[inline(never)]
    pub(super) fn shed(&mut self) {
        while let Some(tenant) = self.pool.ledger_mut().and_then(Ledger::above_quota) {
            self.set_losing(Some(tenant));
            let victim = self.next_victim();
            self.set_losing(None);
            let Some(victim) = victim else { return };
            self.evict(victim);
        }
    }

    fn set_losing(&mut self, tenant: Option<u8>) {
        if let Some(ledger) = self.pool.ledger_mut() {
            ledger.set_losing(tenant);
        }
    }

    /// Asks for the policies of all tenants that lose blocks once `tenants` have these shares.
    ///
    /// # Errors
    /// [`Error::NeedVictims`] of the first that has to be asked.
    pub(crate) fn check_ready_to_shed(&self, tenants: &[Tenant]) -> Result<()> {
        let shed = self.pool.ledger().map(|ledger| ledger.shed_by(tenants)).unwrap_or_default();
        self.check_losers_ready(shed)
    }

    /// Blocks that may be evicted ahead of need.
    pub(crate) fn evictable_ahead(&self) -> u32 {
        self.pool.ledger().map_or_else(|| self.pool.cached(), Ledger::evictable)
    }

    /// Asks for the policies of all tenants that lose blocks if `tenant` takes `needed`.
    ///
    /// # Errors
    /// [`Error::NeedVictims`] of the first that has to be asked.
    #[cold]
    pub(super) fn check_tenants_ready(&self, needed: u32, acquired: u32, tenant: u8) -> Result<()> {
        let (Some(ledger), Some(policies)) = (self.pool.ledger(), self.policy.tenants()) else {
            return Ok(());
        };
        if !policies.are_outside() {
            return Ok(());
        }
        self.check_losers_ready(ledger.plan(tenant, needed, acquired, self.pool.free()))
    }

    /// Whether the policies of tenants can name as many victims as each is to lose.
    fn check_losers_ready(&self, losses: Vec<u32>) -> Result<()> {
        let Some(policies) = self.policy.tenants().filter(|all| all.are_outside()) else {
            return Ok(());
        };
        for (at, n) in losses.into_iter().enumerate().filter(|&(_, n)| n > 0) {
            if !policies.is_ready(at, n as usize) {
                policies.ask(at);
                return Err(Error::NeedVictims { n });
            }
        }
        Ok(())
    }

    /// The same for `n` blocks that are evicted ahead of need.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check_ready_ahead(&self, n: u32) -> Result<()> {
        match self.pool.ledger() {
            None if self.policy.ready(n as usize) => Ok(()),
            None => Err(Error::NeedVictims { n }),
            Some(ledger) => self.check_losers_ready(ledger.losses(n)),
        }
    }

    /// Whether tenants are told apart.
    #[inline]
    pub(crate) fn has_tenants(&self) -> bool {
        self.pool.ledger().is_some()
    }

    /// Whether the operation is of another tenant than `tenant`.
    pub(crate) fn serves_another(&self, tenant: u8) -> bool {
        self.pool.ledger().is_some_and(|ledger| ledger.serving() != tenant)
    }

    /// A block that is not findable yet becomes a public one. False if these have their number.
    pub(crate) fn give_to_all(&mut self, block: BlockId) -> bool {
        self.pool.ledger_mut().is_none_or(|ledger| ledger.give_to_all(block))
    }

    /// Of `blocks`, how many are cached and of `tenant`.
    pub(crate) fn count_cached_of(&self, tenant: u8, blocks: &[BlockId]) -> usize {
        let its = |&&block: &&BlockId| {
            block != NIL
                && self.pool.state(block) == State::Cached
                && self.pool.tenant(block) == tenant
        };
        blocks.iter().filter(its).count()
    }

    /// Whether `parent` is of another tenant than `block`.
    #[inline]
    pub(crate) fn is_of_other(&self, block: BlockId, parent: BlockId) -> bool {
        let other = |ledger: &Ledger| ledger.tenant(block) != ledger.tenant(parent);
        parent != NIL && self.pool.ledger().is_some_and(other)
    }

    /// `victim` was evicted: for whose sake, and whose block it is from now on.
    #[inline]
    pub(super) fn count_loss(&mut self, victim: BlockId, cause: EvictionCause) {
        if self.pool.ledger().is_some() {
            self.count_lost(victim, cause);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_lost(&mut self, victim: BlockId, cause: EvictionCause) {
        if let Some(ledger) = self.pool.ledger_mut() {
            ledger.lost(victim, cause == EvictionCause::Ahead);
            if cause != EvictionCause::Ahead {
                ledger.freed(victim);
                ledger.took(victim);
            }
        }
    }

    /// The clock of the policy of the tenant that is served.
    pub(crate) fn policy_now(&self) -> u64 {
        let serving = self.pool.ledger().map_or(OTHERS, Ledger::serving);
        self.policy.tenants().map_or(self.now, |policies| policies.now_of(serving))
    }

    // --- a policy outside the core --------------------------------------------------------------

    /// The policy, and what it looks at: of tenants, the one whose policy is asked.
    pub(crate) fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        let view = View { pool: &self.pool, now: self.now };
        if self.policy.tenants().is_some() {
            return self.policy.tenants_mut().expect("there are some").asked(view);
        }
        (self.policy.as_mut(), view)
    }

    /// The states of policies outside the core: one, or one for each tenant.
    pub(crate) fn each_external(&mut self, mut each: impl FnMut(&mut External)) {
        if let Some(policies) = self.policy.tenants_mut() {
            policies.externals().for_each(each);
        } else if let Some(external) = self.policy.external() {
            each(external);
        }
    }

    /// The state of the policy outside the core that hears of the operation at hand, if it is one.
    pub(crate) fn external_served(&mut self) -> Option<&mut External> {
        let serving = self.pool.ledger().map_or(OTHERS, Ledger::serving);
        if self.policy.tenants().is_some() {
            return self.policy.tenants_mut()?.external_of(serving);
        }
        self.policy.external()
    }

    /// The operation at hand needs `blocks` itself: they are taken out of a choice made before.
    #[inline]
    pub(crate) fn unpick(&mut self, blocks: impl Iterator<Item = BlockId>) {
        if let Some(policies) = self.policy.tenants_mut() {
            policies.unpick(&self.pool, blocks);
        } else if let Some(outside) = self.policy.external() {
            outside.unpick_all(blocks);
        }
    }

    /// The same, and they are kept out of the next offer. Returns whether a policy outside the core that is to
    /// be asked hears what the operation misses.
    pub(crate) fn spare(&mut self, blocks: impl Iterator<Item = BlockId>) -> bool {
        if let Some(policies) = self.policy.tenants_mut() {
            return policies.spare(&self.pool, blocks);
        }
        let outside = self.policy.external();
        outside.is_some_and(|outside| {
            outside.spare(blocks);
            outside.hears_misses()
        })
    }
}
