//! Locks: a request reads a path, and nothing of it is evicted.

use super::{NodeId, PrefixTree, ROOT, invalid};
use crate::error::Result;
use crate::policy::View;

impl PrefixTree {
    /// One lock more on the path to `id`. Tokens that none protected before.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here.
    pub fn lock(&mut self, id: NodeId) -> Result<u64> {
        let mut at = self.number(id)?;
        self.owned.clear();
        let mut more = 0;
        while at != ROOT {
            let there = &mut self.nodes[at as usize];
            there.locks += 1;
            if there.locks == 1 {
                there.touched = false;
                more += there.tokens.len() as u64;
                self.tier.pool.share(at);
                self.owned.push(at);
            }
            at = self.tier.pool.parent(at);
        }
        self.owned.reverse();
        self.evictable -= more;
        self.protected += more;
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.acquire(&self.owned, view);
        Ok(more)
    }

    /// One lock less. Tokens that none protects any more; their nodes are as recent as they were, or as
    /// what used them meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here, and where a node of the path has no lock;
    /// nothing has changed.
    pub fn unlock(&mut self, id: NodeId) -> Result<u64> {
        let node = self.number(id)?;
        let mut at = node;
        while at != ROOT {
            if self.nodes[at as usize].locks == 0 {
                return Err(invalid(self.id(at), "has no lock left to release it"));
            }
            at = self.tier.pool.parent(at);
        }
        self.tier.tick();
        let places = self.tier.policy.keeps_places();
        let (mut less, mut leaf) = (0, None);
        self.owned.clear();
        at = node;
        while at != ROOT {
            let there = &mut self.nodes[at as usize];
            there.locks -= 1;
            if there.locks == 0 {
                less += there.tokens.len() as u64;
                self.tier.pool.unshare(at);
                if !places || there.touched {
                    self.owned.push(at);
                } else if self.tier.pool.is_evictable(at) {
                    leaf = Some(at);
                }
            }
            at = self.tier.pool.parent(at);
        }
        self.owned.reverse();
        self.evictable += less;
        self.protected -= less;
        let view = View { pool: &self.tier.pool, now: self.tier.now };
        self.tier.policy.release(&self.owned, view);
        if let Some(leaf) = leaf {
            self.tier.policy.on_evictable(leaf, view);
        }
        Ok(less)
    }
}
