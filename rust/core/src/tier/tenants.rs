//! Floors and quotas in a tier: whose pages are evicted, for whom.
//!
//! The rules are those of the pool ([`crate::tenants`]). A prefix belongs to one tenant, whose name is part of
//! its keys, so no page follows one of another tenant.

use super::pages::EvictedPages;
use super::{TierPages, TierPolicy};
use crate::error::{Error, Result};
use crate::pool::BlockId;
use crate::tenants::Account;

impl TierPages {
    /// What comes in is of `tenant` from now on, and room is made for it.
    pub fn serve(&mut self, tenant: u8) {
        if let Some(ledger) = self.tier.pool.ledger_mut() {
            ledger.serve(tenant);
        }
    }

    /// What each tenant has, by number; none where tenants are not told apart.
    pub fn accounts(&self) -> &[Account] {
        self.tier.pool.ledger().map_or(&[], |ledger| ledger.accounts())
    }

    /// (free, all) pages as `tenant` has them: within its floor they do not depend on others.
    pub fn room(&mut self, tenant: u8) -> (u32, u32) {
        self.serve(tenant);
        let pool = &self.tier.pool;
        pool.ledger().map_or((pool.free(), pool.capacity()), |ledger| {
            (ledger.room(pool.free()), ledger.total())
        })
    }

    /// Makes room for `n` pages of the tenant that is served, behind `chain`. The caller: they can be had.
    pub(super) fn make_room_for_tenant(
        &mut self,
        n: u32,
        chain: &[BlockId],
    ) -> Result<EvictedPages> {
        let (free, spared) = (self.tier.pool.free(), self.tier.unowned(chain));
        let Some(ledger) = self.tier.pool.ledger() else { return Ok(Vec::new()) };
        let plan = ledger.plan(ledger.serving(), n, spared, free);
        self.tier.check_ready(&plan, chain)?;
        self.tier.acquire(chain)?;
        let evicted = self.carry_out(&plan, false);
        self.tier.release(chain)?;
        evicted
    }

    /// Evicts `n` pages above floors, ahead of need.
    pub(super) fn evict_ahead(&mut self, n: u32) -> Result<EvictedPages> {
        let losses = self.tier.pool.ledger().map(|ledger| ledger.losses(n)).unwrap_or_default();
        self.tier.check_ready(&losses, &[])?;
        self.carry_out(&losses, true)
    }

    /// Evicts up to `n` of `pages`, of those that the tier below has, and none below a floor.
    pub(super) fn evict_backed_ahead(&mut self, pages: &[BlockId], n: u32) -> EvictedPages {
        let pool = &self.tier.pool;
        let losses = pool.ledger().map(|ledger| ledger.losses(ledger.evictable()));
        let mut victims = Vec::new();
        for (at, most) in losses.unwrap_or_default().into_iter().enumerate() {
            let its = self.of_tenant(pages, at);
            victims.extend(self.take_backed(&its, most.min(n - victims.len() as u32)));
        }
        self.lost(&victims, true);
        self.see_off(victims)
    }

    fn of_tenant(&self, pages: &[BlockId], tenant: usize) -> Vec<BlockId> {
        let of = |&page: &BlockId| usize::from(self.tier.pool.tenant(page)) == tenant;
        pages.iter().copied().filter(of).collect()
    }

    /// Evicts so many pages of each tenant.
    fn carry_out(&mut self, plan: &[u32], ahead: bool) -> Result<EvictedPages> {
        let mut gone = Vec::new();
        for (at, &n) in plan.iter().enumerate().filter(|&(_, &n)| n > 0) {
            let mut victims = Vec::new();
            if self.limits.backed_first {
                let its = self.of_tenant(&self.tier.order(u32::MAX), at);
                victims = self.take_backed(&its, n);
            }
            let rest = n - victims.len() as u32;
            victims.extend(self.tier.victims_of(at as u8, rest)?);
            self.lost(&victims, ahead);
            gone.extend(self.see_off(victims));
        }
        Ok(gone)
    }

    fn lost(&mut self, victims: &[BlockId], ahead: bool) {
        if let Some(ledger) = self.tier.pool.ledger_mut() {
            for &page in victims {
                ledger.lost(page, ahead);
            }
        }
    }
}

impl TierPolicy {
    /// Whether the policies of all tenants can name as many victims as each loses, none of `spared`.
    ///
    /// # Errors
    /// [`Error::NeedVictims`] of the first that has to be asked.
    fn check_ready(&mut self, plan: &[u32], spared: &[BlockId]) -> Result<()> {
        let Some(policies) = self.policy.tenants_mut().filter(|policies| policies.are_outside())
        else {
            return Ok(());
        };
        policies.unpick(&self.pool, spared.iter().copied());
        for (at, &n) in plan.iter().enumerate().filter(|&(_, &n)| n > 0) {
            if !policies.is_ready(at, n as usize) {
                policies.ask(at);
                policies.spare(&self.pool, spared.iter().copied());
                return Err(Error::NeedVictims { n });
            }
        }
        Ok(())
    }

    /// `n` blocks of `tenant` that are evicted; they have left the tier.
    fn victims_of(&mut self, tenant: u8, n: u32) -> Result<Vec<BlockId>> {
        let told = |tier: &mut Self, losing| {
            if let Some(ledger) = tier.pool.ledger_mut() {
                ledger.set_losing(losing);
            }
        };
        if let Some(policies) = self.policy.tenants() {
            policies.ask(tenant.into());
        }
        told(self, Some(tenant));
        let named = self.victims(n, &[]);
        told(self, None);
        Ok(named?.unwrap_or_default())
    }
}
