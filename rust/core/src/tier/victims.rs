//! Which blocks of a tier are evicted next: a policy of the core, or one outside it, names them.

use super::TierPolicy;
use crate::error::{Error, Result};
use crate::policy::{Consult, Eviction, RemovalCause, View};
use crate::pool::{BlockId, State};
use crate::tenants::PerTenant;

impl Consult for TierPolicy {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        let view = View { pool: &self.pool, now: self.now };
        if self.policy.tenants().is_some() {
            return self.policy.tenants_mut().expect("there are some").asked(view);
        }
        (self.policy.as_mut(), view)
    }

    fn instance(&mut self) -> usize {
        self.policy.tenants().map_or(0, PerTenant::to_ask)
    }

    fn ask_instance(&mut self, at: usize) {
        if let Some(policies) = self.policy.tenants() {
            policies.ask(at);
        }
    }
}

impl TierPolicy {
    /// The `n` blocks that are evicted, in order, none of them owned or in `spared`; they have left the tier.
    /// `None`, and nothing has changed, if there are fewer.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again.
    pub fn victims(&mut self, n: u32, spared: &[BlockId]) -> Result<Option<Vec<BlockId>>> {
        if !self.prepare(n, spared)? {
            return Ok(None);
        }
        let mut victims = Vec::with_capacity(n as usize);
        while victims.len() < n as usize
            && let Some(block) = self.name()
        {
            self.leave(block, RemovalCause::Evicted);
            victims.push(block);
        }
        self.end();
        self.settle();
        if victims.len() < n as usize {
            let message = format!("{} named {} of {n} victims", self.policy.name(), victims.len());
            return Err(Error::Integrity(message));
        }
        Ok(Some(victims))
    }

    /// The block that [`TierPolicy::victims`] would take next. It stays.
    ///
    /// # Errors
    /// As there.
    pub fn next(&mut self, spared: &[BlockId]) -> Result<Option<BlockId>> {
        if !self.prepare(1, spared)? {
            return Ok(None);
        }
        self.named = self.name();
        self.end();
        Ok(self.named)
    }

    /// Puts the block that [`TierPolicy::next`] named back in its place, if the policy took it for evicted.
    pub(super) fn take_back_named(&mut self) {
        if let Some(block) = self.named.take()
            && !self.policy.shows_order()
        {
            self.pool.share(block);
            self.policy.acquire(&[block], View { pool: &self.pool, now: self.now });
            self.pool.unshare(block);
            self.restore(block);
        }
    }

    /// Sets `spared` aside. False if less than `n` blocks are left that may be evicted.
    fn prepare(&mut self, n: u32, spared: &[BlockId]) -> Result<bool> {
        self.moved.clear();
        self.moved.extend(spared.iter().filter(|&&b| self.pool.state(b) == State::Cached));
        self.moved.sort_unstable();
        self.moved.dedup();
        if (self.pool.cached() as usize) < self.moved.len() + n as usize {
            self.settle();
            return Ok(false);
        }
        if let Some(outside) = self.policy.external() {
            outside.unpick_all(self.moved.iter().copied());
        }
        if !self.policy.ready(n as usize) {
            if let Some(outside) = self.policy.external() {
                outside.spare(self.moved.iter().copied());
            }
            return Err(Error::NeedVictims { n });
        }
        self.tick();
        // Only the pool counts this owner: the policy's order keeps their places.
        for &block in &self.moved {
            self.pool.share(block);
        }
        self.policy.set_aside(&self.moved);
        Ok(true)
    }

    /// The next victim that is not set aside.
    pub(super) fn name(&mut self) -> Option<BlockId> {
        loop {
            let view = View { pool: &self.pool, now: self.now };
            let block = match self.named.take() {
                Some(block) if self.pool.is_evictable(block) || !self.policy.shows_order() => block,
                _ => self.policy.victim(view)?,
            };
            if self.pool.is_evictable(block) {
                return Some(block);
            }
            self.policy.acquire(&[block], view);
            self.aside.push(block);
        }
    }

    /// A block that was named may be evicted again, where it was.
    fn restore(&mut self, block: BlockId) {
        let view = View { pool: &self.pool, now: self.now };
        if !self.policy.restore(block, view) {
            self.policy.on_evictable(block, view);
        }
    }

    /// Puts back what was set aside.
    pub(super) fn end(&mut self) {
        for &block in &self.moved {
            self.pool.unshare(block);
        }
        self.policy.set_aside(&[]);
        let mut aside = std::mem::take(&mut self.aside);
        aside.drain(..).for_each(|block| self.restore(block));
        self.aside = aside;
        let view = View { pool: &self.pool, now: self.now };
        for block in self.bared.drain(..).filter(|&block| view.pool.is_evictable(block)) {
            self.policy.on_evictable(block, view);
        }
    }

    /// The first `most` blocks that may be evicted, in the present order of eviction as far as it is settled. A
    /// policy outside the core is not asked: its order here is least recently used.
    pub fn order(&self, most: u32) -> Vec<BlockId> {
        self.policy.order(View { pool: &self.pool, now: self.now }, most as usize)
    }

    /// The order of [`Self::order`], but a compiled policy is asked for it. A policy that only names victims
    /// names every block, and is then given the blocks back in that order.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy that decides nothing more.
    pub fn ranking(&mut self, most: u32) -> Result<Vec<BlockId>> {
        self.take_back_named();
        let n = self.pool.cached().min(most);
        if self.policy.tenants().is_some() {
            return Ok(self.order(n));
        }
        if n > 0 && self.policy.external().is_some() {
            if !self.decide(n) {
                return Err(Error::NeedVictims { n });
            }
            let chosen = self.policy.external().map(|outside| outside.chosen()).unwrap_or_default();
            self.settle();
            return Ok(if chosen.len() == n as usize { chosen } else { self.order(n) });
        }
        if self.policy.shows_order() {
            return Ok(self.order(n));
        }
        let mut named = Vec::with_capacity(n as usize);
        while named.len() < n as usize
            && let Some(block) = self.name()
        {
            self.pool.share(block);
            self.policy.acquire(&[block], View { pool: &self.pool, now: self.now });
            named.push(block);
        }
        for &block in &named {
            self.pool.unshare(block);
            self.policy.release(&[block], View { pool: &self.pool, now: self.now });
        }
        Ok(named)
    }

    pub(super) fn settle(&mut self) {
        if let Some(outside) = self.policy.external() {
            outside.settle();
        }
    }
}
