//! The tree's parts compared with one another.

use super::{PrefixTree, ROOT};
use crate::error::{Error, Result};
use crate::pool::{NIL, State};

impl PrefixTree {
    /// Recounts tokens, locks, places and the policy's order: O(nodes).
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.tier.check_integrity()?;
        let pool = &self.tier.pool;
        let fault = |message: String| Err(Error::Integrity(format!("tree: {message}")));
        let (mut evictable, mut protected, mut below) = (0, 0, vec![0; self.nodes.len()]);
        let all = self.all();
        for node in &all {
            let (number, there) = (node.node, &self.nodes[node.node as usize]);
            let held = there.tokens.len();
            if held == 0 || held % self.page != 0 {
                return fault(format!("node {number} has {held} tokens"));
            }
            let (start, space) = match node.above {
                ROOT => (0, there.space),
                above => (self.nodes[above as usize].end(), self.nodes[above as usize].space),
            };
            if (there.start, there.space) != (start, space) {
                return fault(format!("node {number} does not follow {}", node.above));
            }
            if node.above != NIL {
                below[node.above as usize] += 1;
                if self.nodes[node.above as usize].locks < there.locks {
                    return fault(format!("node {number} has more locks than {}", node.above));
                }
            }
            if self.child(node.above, space, &there.tokens[..self.page]) != Some(number) {
                return fault(format!("node {number} is not found"));
            }
            if (there.locks > 0) == (pool.state(number) == State::Cached) || there.new {
                let (locks, state) = (there.locks, pool.state(number).name());
                return fault(format!("node {number} has {locks} locks and is {state}"));
            }
            *(if there.locks > 0 { &mut protected } else { &mut evictable }) += held as u64;
        }
        if let Some(node) = all.iter().find(|n| pool.children(n.node) != below[n.node as usize]) {
            return fault(format!("node {} has {} children", node.node, below[node.node as usize]));
        }
        if (evictable, protected) != self.sizes() || all.len() != self.children.len() {
            let told = (self.sizes(), self.children.len());
            let found = ((evictable, protected), all.len());
            return fault(format!("{found:?} are there, {told:?} counted"));
        }
        Ok(())
    }
}
