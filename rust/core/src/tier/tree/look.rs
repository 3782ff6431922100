//! What the tree holds, for an engine that looks.

use super::{NodeId, PrefixTree, ROOT, invalid};
use crate::error::Result;
use crate::pool::{BlockId, NIL};

/// A node on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathNode {
    /// Itself.
    pub node: NodeId,
    /// What it follows.
    pub above: NodeId,
    /// Its first token.
    pub start: usize,
    /// One past its last.
    pub end: usize,
    /// Nodes that follow it.
    pub children: u32,
}

/// A node among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// Its number.
    pub node: BlockId,
    /// The number of what it follows; [`NIL`] for the root.
    pub above: BlockId,
    /// Tokens before it.
    pub start: usize,
    /// Its tokens.
    pub tokens: usize,
    /// Requests that read it.
    pub locks: u32,
}

impl PrefixTree {
    /// The numbers of the nodes from behind `until` to `id`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here, and where `until` is not on the way.
    pub fn path(&self, id: NodeId, until: NodeId) -> Result<Vec<BlockId>> {
        let (mut at, until) = (self.number(id)?, self.number(until)?);
        let mut path = Vec::new();
        while at != until {
            if at == ROOT {
                return Err(invalid(self.id(until), "not on the way to the other"));
            }
            path.push(at);
            at = self.tier.pool.parent(at);
        }
        path.reverse();
        Ok(path)
    }

    /// The nodes from the root to `id`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here.
    pub fn path_nodes(&self, id: NodeId) -> Result<Vec<PathNode>> {
        let pool = &self.tier.pool;
        let told = |&number: &BlockId| {
            let there = &self.nodes[number as usize];
            let (node, above) = (self.id(number), self.id(pool.parent(number)));
            let children = pool.children(number);
            PathNode { node, above, start: there.start, end: there.end(), children }
        };
        Ok(self.path(id, self.root)?.iter().map(told).collect())
    }

    /// What a node follows.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here.
    pub fn above(&self, id: NodeId) -> Result<NodeId> {
        let node = self.number(id)?;
        Ok(if node == ROOT { self.root } else { self.id(self.tier.pool.parent(node)) })
    }

    /// Whether a node is here.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if not.
    pub fn check(&self, id: NodeId) -> Result<()> {
        self.number(id).map(drop)
    }

    /// Every node, each before those that follow it, and these in the order in which they came.
    pub fn all(&self) -> Vec<TreeNode> {
        let mut all = Vec::with_capacity(self.children.len());
        self.descend(|node| {
            let there = &self.nodes[node as usize];
            let (above, locks) = (self.tier.pool.parent(node), there.locks);
            let (start, tokens) = (there.start, there.tokens.len());
            all.push(TreeNode { node, above, start, tokens, locks });
        });
        all
    }

    fn descend(&self, mut visit: impl FnMut(BlockId)) {
        let mut open = vec![self.tops[0]];
        while let Some(node) = open.pop() {
            if node == NIL {
                continue;
            }
            visit(node);
            open.push(self.nodes[node as usize].beside[1]);
            open.push(self.nodes[node as usize].below[0]);
        }
    }

    /// The places of `ids` in the order of a walk that goes where most of them are first, and takes those
    /// of a node behind those below it.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a node that is not here.
    pub fn by_weight(&self, ids: &[NodeId]) -> Result<Vec<usize>> {
        let numbers: Vec<BlockId> = ids.iter().map(|&id| self.number(id)).collect::<Result<_>>()?;
        let mut weights = vec![0u32; self.nodes.len()];
        let mut asked: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len() + 1];
        for (place, &number) in numbers.iter().enumerate() {
            let at = if number == ROOT { self.nodes.len() } else { number as usize };
            asked[at].push(place);
            let mut at = number;
            while at != ROOT {
                weights[at as usize] += 1;
                at = self.tier.pool.parent(at);
            }
        }
        let mut order = Vec::with_capacity(ids.len());
        let mut open = vec![(ROOT, false)];
        while let Some((node, done)) = open.pop() {
            let (at, mut child) = match node {
                ROOT => (self.nodes.len(), self.tops[0]),
                node => (node as usize, self.nodes[node as usize].below[0]),
            };
            if done {
                order.extend(&asked[at]);
                continue;
            }
            open.push((node, true));
            let mut below = Vec::new();
            while child != NIL {
                // Where no request waits there is nothing to order.
                if weights[child as usize] > 0 {
                    below.push(child);
                }
                child = self.nodes[child as usize].beside[1];
            }
            below.sort_by_key(|&child| std::cmp::Reverse(weights[child as usize]));
            open.extend(below.into_iter().rev().map(|child| (child, false)));
        }
        Ok(order)
    }
}
