//! A pool that grows or shrinks.

use std::collections::HashSet;

use super::Store;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::{BlockId, State};

impl Store {
    /// The pool has `blocks` blocks from now on, of `block_size` tokens. No block behind them has an owner.
    ///
    /// # Errors
    /// [`Error::PolicyRefused`].
    pub(crate) fn resize(&mut self, blocks: u32, block_size: u32) -> Result<()> {
        let accounts = self.accounts().to_vec();
        if let Some(policies) = self.policy.tenants_mut() {
            policies.set_had(&accounts);
        }
        self.policy.size(blocks, block_size).map_err(Error::PolicyRefused)?;
        self.tick();
        self.note(Kind::Resize, 0, u64::from(blocks));
        for block in self.doomed_by(blocks) {
            self.invalidate(block);
        }
        self.pool.resize(blocks);
        // A quota that is a share of the pool is another one now.
        self.shed();
        Ok(())
    }

    /// Cached blocks with ids from `end` on, and all that follow such a block, the deepest first.
    fn doomed_by(&self, end: u32) -> Vec<BlockId> {
        if end >= self.pool.created() {
            return Vec::new();
        }
        let mut cached: Vec<BlockId> =
            (0..self.pool.created()).filter(|&b| self.pool.state(b) == State::Cached).collect();
        cached.sort_by_key(|&b| (self.pool.depth(b), b));
        let mut doomed = HashSet::new();
        for &block in &cached {
            if block >= end || doomed.contains(&self.pool.parent(block)) {
                doomed.insert(block);
            }
        }
        cached.retain(|b| doomed.contains(b));
        cached.reverse();
        cached
    }
}
