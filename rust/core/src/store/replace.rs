//! Another eviction policy over the blocks as they are.
//!
//! The new policy hears of every findable block as if it had been computed just now, and of the cached ones
//! as if they had been released in the order in which the old policy would have evicted them. What the old
//! one had learnt besides (how often a block was used, what it remembers of keys that are gone) stays with
//! it; only what the core itself keeps of blocks for policies outside of it goes over to another such one.

use std::cmp::Reverse;

use super::Store;
use crate::error::{Error, Result};
use crate::policy::{Access, Eviction, View};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::Meta;
use crate::tenants::Tenant;

impl Store {
    /// Has `policy` rank the blocks, which are of `block_size` tokens, from now on; `tenants` have these shares of
    /// them. Returns the one that did.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`]; the old policy then ranks them as before.
    pub(crate) fn replace_policy(
        &mut self,
        mut policy: Box<dyn Eviction>,
        block_size: u32,
        tenants: &[Tenant],
    ) -> Result<Box<dyn Eviction>> {
        if let (Some(policies), Some(before)) = (policy.tenants_mut(), self.policy.tenants()) {
            policies.set_quotas(tenants);
            policies.set_had(self.accounts());
            policies.follow(before);
        }
        policy.size(self.pool.capacity(), block_size).map_err(Error::PolicyRefused)?;
        let chains = self.cached_chains();
        // A policy may look at the owners of what is inserted: the cached blocks get one meanwhile.
        for &block in chains.iter().flatten() {
            self.pool.share(block);
        }
        self.insert_all(&mut *policy, &chains, block_size);
        for chain in &chains {
            self.tick();
            for &block in chain.iter().rev() {
                self.pool.unshare(block);
            }
            policy.release(chain, View { pool: &self.pool, now: self.now });
        }
        policy.validate(&self.pool).map_err(Error::PolicyRefused)?;
        if let (Some(policies), Some(before)) = (policy.tenants_mut(), self.policy.tenants_mut()) {
            policies.take_rows(before);
        } else if let (Some(outside), Some(before)) = (policy.external(), self.policy.external()) {
            outside.take_rows(before);
        }
        self.past_fallbacks += self.policy.fallbacks();
        let before = std::mem::replace(&mut self.policy, policy);
        let time = self.retention.time();
        self.each_external(|outside| outside.set_time(time));
        Ok(before)
    }

    /// The cached blocks in the present order of eviction, cut into pieces of a prefix, each from its front.
    fn cached_chains(&self) -> Vec<Vec<BlockId>> {
        let is_cached = |&block: &BlockId| self.pool.state(block) == State::Cached;
        let created = self.pool.created();
        let mut order = match self.policy.tenants() {
            Some(policies) => policies.orders(),
            None => self.policy.order(self.view(), created as usize),
        };
        order.retain(is_cached);
        let mut listed = vec![false; created as usize];
        order.retain(|&block| !std::mem::replace(&mut listed[block as usize], true));
        // What a policy has not settled yet goes last, each after its children.
        let mut rest: Vec<BlockId> =
            (0..created).filter(|b| is_cached(b) && !listed[*b as usize]).collect();
        rest.sort_by_key(|&block| self.place_by_depth(block));
        order.extend(rest);
        // Pieces are cut within a tenant.
        order.sort_by_key(|&block| self.pool.tenant(block));
        let follows = |&child: &BlockId, &parent: &BlockId| {
            self.pool.parent(child) == parent
                && self.pool.group(child) == self.pool.group(parent)
                && self.pool.tenant(child) == self.pool.tenant(parent)
        };
        let chains = order.chunk_by(follows);
        chains.map(|chain| chain.iter().rev().copied().collect()).collect()
    }

    /// Where a block stands among those whose order nothing says: by tenants' own numbers, where there are tenants.
    fn place_by_depth(&self, block: BlockId) -> (Reverse<u32>, BlockId) {
        let number = self.policy.tenants().map_or(block, |all| all.shown(&self.pool, block));
        (Reverse(self.pool.depth(block)), number)
    }

    /// Tells `policy` of every findable block: those of `chains` in their order, each with what it follows, and
    /// then the others.
    fn insert_all(&mut self, policy: &mut dyn Eviction, chains: &[Vec<BlockId>], block_size: u32) {
        let created = self.pool.created();
        let mut told = vec![false; created as usize];
        let mut others: Vec<BlockId> = (0..created).filter(|&b| self.pool.is_findable(b)).collect();
        others.sort_by_key(|&block| self.place_by_depth(block));
        let ends = chains.iter().filter_map(|chain| chain.last().copied()).chain(others);
        for end in ends.collect::<Vec<_>>() {
            let mut path = Vec::new();
            let mut block = end;
            while block != NIL && self.pool.is_findable(block) && !told[block as usize] {
                told[block as usize] = true;
                path.push(block);
                block = self.pool.parent(block);
            }
            path.reverse();
            let alike = |&a: &BlockId, &b: &BlockId| {
                self.pool.group(a) == self.pool.group(b)
                    && self.pool.tenant(a) == self.pool.tenant(b)
            };
            for blocks in path.chunk_by(alike) {
                self.now += 1;
                let tokens = (self.pool.depth(end) + 1).saturating_mul(block_size);
                let meta = Meta { tenant: self.pool.tenant(end), ..Meta::default() };
                let access = Access { next_use: &[], meta, tokens };
                policy.take(blocks);
                policy.insert(blocks, access, View { pool: &self.pool, now: self.now });
            }
        }
    }
}
