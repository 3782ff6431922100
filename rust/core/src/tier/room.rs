//! Room in a tier: which pages are evicted for it, and pages on loan.

use super::TierPages;
use super::pages::EvictedPages;
use crate::error::{Error, Limit, Result};
use crate::hash::Key;
use crate::pool::BlockId;
use crate::tenants::Ledger;

impl TierPages {
    /// Evicts, in the policy's order, until `free` pages are free or none may be evicted.
    ///
    /// # Errors
    /// [`Error::NeedVictims`].
    pub fn evict_until(&mut self, free: u32) -> Result<EvictedPages> {
        let pool = self.tier.pool();
        let evictable = pool.ledger().map_or_else(|| pool.cached(), Ledger::evictable);
        let short = free.saturating_sub(pool.free()).min(evictable);
        if pool.ledger().is_some() {
            return self.evict_ahead(short);
        }
        if self.tier.must_ask(short, &[]) {
            return Err(Error::NeedVictims { n: short });
        }
        self.shed(short)
    }

    /// Takes `n` pages, or none, for a caller that tracks them itself (swapped sequences).
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    pub fn take(&mut self, n: u32) -> Result<(Vec<BlockId>, EvictedPages)> {
        let evicted = self.make_room(n, &[])?;
        let pages: Vec<BlockId> = (0..n).map_while(|_| self.tier.take()).collect();
        self.lent += pages.len() as u32;
        Ok((pages, evicted))
    }

    /// Takes such pages back, or none.
    ///
    /// # Errors
    /// [`Error::NotLent`].
    pub fn free(&mut self, pages: &[BlockId]) -> Result<()> {
        self.check_lent(pages)?;
        for &page in pages {
            self.tier.free(page);
        }
        self.lent -= pages.len() as u32;
        Ok(())
    }

    pub(super) fn check_flight(&mut self, wanted: u32) -> Result<()> {
        // One transfer larger than the limit goes alone: it would wait for ever otherwise.
        if self.moving > 0 && self.moving + wanted > self.limits.in_flight {
            self.stats.refused += 1;
            return Err(Error::Busy { moving: self.moving, limit: self.limits.in_flight });
        }
        Ok(())
    }

    /// Makes room for `n` pages without evicting those of `chain`. Returns the evicted pages.
    pub(super) fn make_room(&mut self, n: u32, chain: &[BlockId]) -> Result<EvictedPages> {
        let pool = self.tier.pool();
        let available = self.tier.available(chain);
        let (short, total) = (n.saturating_sub(pool.free()), pool.capacity());
        if n > available {
            self.stats.refused += 1;
            let (needed, available) = (n.into(), available.into());
            return Err(Error::NoCapacity {
                needed,
                available,
                total: total.into(),
                limit: Limit::Pool,
                coming: 0,
            });
        }
        if pool.ledger().is_some() {
            return self.make_room_for_tenant(n, chain);
        }
        if self.tier.must_ask(short, chain) {
            return Err(Error::NeedVictims { n: short });
        }
        // The chain is owned meanwhile, not only spared, because an owner also protects the pages before it.
        self.tier.acquire(chain)?;
        let evicted = self.shed(short);
        self.tier.release(chain)?;
        evicted
    }

    /// Evicts up to `n` of the pages of `keys`, in their order, that may be evicted and that the
    /// tier below has. The caller's order counts: while the tier below read these pages, the reads
    /// moved them in the policy's order.
    pub fn evict_backed(&mut self, keys: &[Key], n: u32) -> EvictedPages {
        let pages: Vec<BlockId> =
            keys.iter().filter_map(|key| self.by_key.get(key).copied()).collect();
        if self.tier.pool().ledger().is_some() {
            return self.evict_backed_ahead(&pages, n);
        }
        let victims = self.take_backed(&pages, n);
        self.see_off(victims)
    }

    fn shed(&mut self, n: u32) -> Result<EvictedPages> {
        let mut victims = Vec::new();
        if self.limits.backed_first {
            victims = self.take_backed(&self.tier.order(u32::MAX), n);
        }
        let rest = n - victims.len() as u32;
        victims.extend(self.tier.victims(rest, &[])?.unwrap_or_default());
        Ok(self.see_off(victims))
    }

    /// Evicts up to `n` of `pages`, of those that the tier below has. Returns them.
    pub(super) fn take_backed(&mut self, pages: &[BlockId], n: u32) -> Vec<BlockId> {
        let (mut victims, mut before) = (Vec::new(), usize::MAX);
        // A parent may be evicted once its children have: another round finds it.
        while victims.len() != before && victims.len() < n as usize {
            before = victims.len();
            for &page in pages {
                let may = self.backed[page as usize] && self.tier.pool().is_evictable(page);
                if may && victims.len() < n as usize {
                    self.tier.evict(page);
                    victims.push(page);
                }
            }
        }
        victims
    }

    pub(super) fn see_off(&mut self, victims: Vec<BlockId>) -> EvictedPages {
        self.stats.evicted += victims.len() as u64;
        let unbacked = victims.iter().filter(|&&page| !self.backed[page as usize]).count();
        self.stats.unbacked += unbacked as u64;
        victims.into_iter().map(|page| (self.leave(page), page)).collect()
    }
}
