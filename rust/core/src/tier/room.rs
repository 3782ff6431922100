//! Room in a tier: who makes it, and pages on loan.

use super::TierPages;
use super::pages::Gone;
use crate::error::{Error, Result};
use crate::pool::BlockId;

impl TierPages {
    /// Evicts, in the policy's order, until `free` pages are free or none may die.
    ///
    /// # Errors
    /// [`Error::NeedVictims`].
    pub fn collect(&mut self, free: u32) -> Result<Gone> {
        let pool = self.tier.pool();
        let short = free.saturating_sub(pool.free()).min(pool.cached());
        if self.tier.must_ask(short, &[]) {
            return Err(Error::NeedVictims { n: short });
        }
        self.shed(short)
    }

    /// Pages for whoever keeps books of its own (swapped sequences), or none.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    pub fn lend(&mut self, n: u32) -> Result<(Vec<BlockId>, Gone)> {
        let evicted = self.make_room(n, &[])?;
        let pages: Vec<BlockId> = (0..n).map_while(|_| self.tier.lend()).collect();
        self.lent += pages.len() as u32;
        Ok((pages, evicted))
    }

    /// Takes such pages back, or none.
    ///
    /// # Errors
    /// [`Error::NotLent`].
    pub fn give_back(&mut self, pages: &[BlockId]) -> Result<()> {
        self.check_lent(pages)?;
        for &page in pages {
            self.tier.give_back(page);
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

    /// Room for `n` pages without those of `chain`; who made it.
    pub(super) fn make_room(&mut self, n: u32, chain: &[BlockId]) -> Result<Gone> {
        let pool = self.tier.pool();
        let available = pool.free() + pool.cached() - self.tier.unowned(chain);
        let (short, total) = (n.saturating_sub(pool.free()), pool.capacity());
        if n > available {
            self.stats.refused += 1;
            let (needed, available) = (n.into(), available.into());
            return Err(Error::NoCapacity { needed, available, total: total.into() });
        }
        if self.tier.must_ask(short, chain) {
            return Err(Error::NeedVictims { n: short });
        }
        // Owned meanwhile, not only spared: an owner keeps those before it, too.
        self.tier.claim(chain)?;
        let evicted = self.shed(short);
        self.tier.release(chain)?;
        evicted
    }

    fn shed(&mut self, n: u32) -> Result<Gone> {
        let mut victims = Vec::new();
        if self.limits.backed_first {
            let order = self.tier.order();
            let mut before = usize::MAX;
            // A parent may die once its children have: another round finds it.
            while victims.len() != before && victims.len() < n as usize {
                before = victims.len();
                for &page in &order {
                    let may = self.backed[page as usize] && self.tier.pool().is_evictable(page);
                    if may && victims.len() < n as usize {
                        self.tier.evict(page);
                        victims.push(page);
                    }
                }
            }
        }
        let rest = n - victims.len() as u32;
        victims.extend(self.tier.victims(rest, &[])?.unwrap_or_default());
        self.stats.evicted += victims.len() as u64;
        let unbacked = victims.iter().filter(|&&page| !self.backed[page as usize]).count();
        self.stats.unbacked += unbacked as u64;
        Ok(victims.into_iter().map(|page| (self.leave(page), page)).collect())
    }
}
