//! Prefixes that somebody holds against eviction, whatever sequences come and go.

use super::Manager;
use super::lookup::Wanted;
use crate::error::Result;
use crate::hash::{Extra, Space};
use crate::locks::Receipt;
use crate::policy::View;
use crate::pool::{BlockId, NIL};

/// A prefix that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locked {
    /// Ends it, once.
    pub receipt: Receipt,
    /// Tokens held.
    pub tokens: u32,
}

impl Manager {
    /// Holds as much of `tokens` as is cached, in whole blocks; `None` if nothing is. No hit is
    /// counted. A reset still forgets what is held: nobody finds it any more.
    ///
    /// # Errors
    /// [`crate::Error::NotFindable`] if the index answers with what nobody can find: a defect.
    pub fn lock(
        &mut self,
        tokens: &[u32],
        space: Space<'_>,
        extras: &[Extra],
    ) -> Result<Option<Locked>> {
        let limit = if self.options.prefix_caching { tokens.len() as u32 } else { 0 };
        let limit = (limit / self.block_size()) as usize;
        let root = self.hasher.root(space);
        let mut keys = Vec::new();
        if self.index.takes_keys() {
            self.hasher.extend(root, extras, tokens, &mut keys);
        }
        let mut hits = vec![Vec::new(); self.options.groups.len()];
        let wanted = Wanted { keys: &keys, tokens, root, extras, limit };
        let (found, _) = self.find_prefix(wanted, &mut hits);
        let path: Vec<BlockId> = hits.into_iter().flatten().filter(|&b| b != NIL).collect();
        if path.is_empty() {
            return Ok(None);
        }
        let mut claimed = Vec::new();
        let receipt = self.locks.lock(&mut self.pool, &path, &mut claimed)?;
        self.tick += 1;
        for group in claimed.chunk_by(|&a, &b| self.pool.group(a) == self.pool.group(b)) {
            self.policy.claim(group, View { pool: &self.pool, now: self.tick });
        }
        Ok(Some(Locked { receipt, tokens: found as u32 * self.block_size() }))
    }

    /// Ends a hold: its blocks may be evicted again unless somebody else has them.
    ///
    /// # Errors
    /// [`crate::Error::UnknownReceipt`].
    pub fn unlock(&mut self, receipt: Receipt) -> Result<()> {
        let mut path = Vec::new();
        self.locks.unlock(receipt, &mut path)?;
        self.tick += 1;
        let group = |b: BlockId| self.pool.group(b);
        let groups: Vec<_> = path.chunk_by(|&a, &b| group(a) == group(b)).collect();
        for blocks in groups {
            self.drop_owners(0, blocks);
        }
        Ok(())
    }

    /// Prefixes held.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }
}
