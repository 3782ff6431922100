//! Leaves go, as many as hold what is needed.

use super::{NodeId, PrefixTree, ROOT, invalid};
use crate::error::{Error, Result};
use crate::policy::RemovalCause;
use crate::pool::{BlockId, NIL};

/// What an eviction took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvictedNodes {
    /// Numbers of nodes, in the order in which they went.
    pub nodes: Vec<BlockId>,
    /// The tokens of all of them.
    pub tokens: u64,
}

/// The most nodes for which a policy outside the core is asked at once.
const MOST: u64 = 1024;

impl PrefixTree {
    /// Evicts until `tokens` are free or no node is left that may go; the last node may hold more.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again. What went by
    /// then is in the answer that comes at last.
    pub fn evict(&mut self, tokens: u64) -> Result<EvictedNodes> {
        while self.taken.tokens < tokens && self.tier.pool.cached() > 0 {
            if !self.tier.policy.ready(1) {
                return Err(Error::NeedVictims { n: self.wanted(tokens - self.taken.tokens) });
            }
            self.tier.tick();
            let Some(node) = self.tier.name() else { break };
            self.go(node);
        }
        self.tier.end();
        self.tier.settle();
        Ok(std::mem::take(&mut self.taken))
    }

    /// Evicts one node that may go. Its tokens.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a node that is not here, that a lock protects, or that others follow.
    pub fn evict_leaf(&mut self, id: NodeId) -> Result<u64> {
        let node = self.number(id)?;
        if node == ROOT || !self.tier.pool.is_evictable(node) {
            return Err(invalid(id, "is locked, or not a leaf"));
        }
        let before = self.taken.tokens;
        self.tier.tick();
        self.go(node);
        self.taken.nodes.pop();
        let tokens = self.taken.tokens - before;
        self.taken.tokens = before;
        Ok(tokens)
    }

    /// How many nodes are likely to hold so many tokens.
    fn wanted(&self, tokens: u64) -> u32 {
        let nodes = u64::from(self.tier.pool.cached());
        let each = (self.evictable / nodes).max(1);
        tokens.div_ceil(each).clamp(1, nodes.min(MOST)) as u32
    }

    fn go(&mut self, node: BlockId) {
        self.leave(node);
        let above = self.tier.pool.parent(node);
        let there = &mut self.nodes[node as usize];
        let (beside, held) = (there.beside, there.tokens.len() as u64);
        there.tokens = Vec::new();
        for (side, &neighbour) in beside.iter().enumerate() {
            match neighbour {
                NIL => self.ends(above)[side] = beside[1 - side],
                other => self.nodes[other as usize].beside[1 - side] = beside[1 - side],
            }
        }
        debug_assert!(above == ROOT || self.tier.pool.is_findable(above));
        if let Some(vanished) = &mut self.vanished {
            vanished.add(self.tier.pool.key(node));
        }
        self.tier.moved.clear();
        self.tier.leave(node, RemovalCause::Evicted);
        self.evictable -= held;
        self.taken.tokens += held;
        self.taken.nodes.push(node);
    }
}
