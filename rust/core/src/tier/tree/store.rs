//! A prompt is stored: what of it was there counts as used, the rest becomes a node.

use super::nodes::Node;
use super::split::Split;
use super::{NodeId, PrefixTree, ROOT};
use crate::error::Result;
use crate::hash::Key;
use crate::policy::View;
use crate::pool::{BlockId, NIL};
use crate::tier::RequestInfo;

/// A stored prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Tokens that were there before.
    pub found: usize,
    /// Tokens that are there now: whole pages.
    pub tokens: usize,
    /// The node that they end with; the root for none.
    pub node: NodeId,
    /// The node that was split for it.
    pub split: Option<Split>,
    /// The number of the node that holds what was not there.
    pub new: Option<BlockId>,
}

impl PrefixTree {
    /// Stores whole pages of `tokens`. Nodes that end within the first `counted` tokens were used by the
    /// same request before, and do not count again.
    ///
    /// # Errors
    /// None but a fault of the policy's.
    pub fn store(
        &mut self,
        space: Key,
        tokens: &[i64],
        counted: usize,
        known: RequestInfo<'_>,
    ) -> Result<Stored> {
        let tokens = &tokens[..tokens.len() / self.page * self.page];
        let (found, inside) = self.walk(space, tokens);
        let split = self.split_last(inside)?;
        let mut new = None;
        if found < tokens.len() {
            new = Some(self.take()?);
        }
        self.own_path();
        if let Some(node) = new {
            self.add(node, space, &tokens[found..], found, known);
        }
        self.use_path(counted, known);
        self.let_go();
        Ok(Stored { found, tokens: tokens.len(), node: self.last(), split, new })
    }

    /// `node`, which was just taken, follows the path.
    fn add(
        &mut self,
        node: BlockId,
        space: Key,
        tokens: &[i64],
        start: usize,
        known: RequestInfo<'_>,
    ) {
        let above = self.path.last().copied().unwrap_or(ROOT);
        let serial = self.next_serial();
        self.set(node, Node { new: true, ..Node::new(tokens.to_vec(), space, start, serial) });
        let last = std::mem::replace(&mut self.ends(above)[1], node);
        match last {
            NIL => self.ends(above)[0] = node,
            last => self.nodes[last as usize].beside[1] = node,
        }
        self.nodes[node as usize].beside[0] = last;
        let name = self.path_key(node, above);
        let before = if above == ROOT { space } else { self.tier.pool.key(above) };
        let missed =
            self.vanished.as_mut().and_then(|gone| gone.last_of(before, tokens, self.page));
        let known_as = missed.unwrap_or(name);
        let now = self.tier.now;
        if self.tier.policy.wants_misses() {
            self.tier.policy.on_miss(known_as, View { pool: &self.tier.pool, now });
        }
        self.tier.pool.publish(node, known_as, above, (start / self.page) as u32);
        let view = View { pool: &self.tier.pool, now };
        self.tier.policy.insert(&[node], known.access(), view);
        self.tier.pool.rename(node, name);
        self.enter(node);
        self.path.push(node);
        self.evictable += tokens.len() as u64;
    }
}
