//! Everything that must hold of the tree, from scratch.

use super::Radix;
use super::nodes::{Node, NodeId};
use super::path::PLAIN;
use crate::pool::{BlockId, NIL, Pool, State};

type CheckResult = std::result::Result<(), String>;

impl Radix {
    /// Checks nodes, lists, tables and rings against each other and against the pool.
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub fn validate(&self, pool: &Pool) -> CheckResult {
        let mut children = vec![0_u32; self.tree.nodes.slots()];
        let mut findable = 0;
        for id in self.children.ids() {
            children[self.tree.nodes[id].parent as usize] += 1;
            findable += self.check_node(pool, id)?;
        }
        for id in self.children.ids().chain(self.tops.iter().copied()) {
            let last_child = self.tree.nodes[id].last_child;
            if last_child != NIL && self.tree.nodes[last_child].parent != id {
                return Err(format!("node {last_child} is no child of node {id}, which says so"));
            }
            let (counted, kept) = (children[id as usize], self.tree.nodes[id].children);
            if counted != kept {
                return Err(format!("node {id} has {counted} children, its count says {kept}"));
            }
        }
        if let Some(&id) = self.tops.iter().find(|&&id| self.tree.nodes[id].children == 0) {
            return Err(format!("the namespace of node {id} is empty"));
        }
        let (placed, nodes) = (self.blocks().count(), self.children.len() + self.tops.len());
        if findable != self.len || placed != self.len || nodes != self.nodes() {
            return Err(format!(
                "the tree holds {findable} blocks in {nodes} nodes; it counts {}, {placed} have a place, \
                 and {} nodes are in use",
                self.len,
                self.nodes()
            ));
        }
        Ok(())
    }

    /// One node that is no top; how many blocks stand in it, copies included.
    fn check_node(&self, pool: &Pool, id: NodeId) -> std::result::Result<usize, String> {
        let Node { parent, start, mark, .. } = self.tree.nodes[id];
        let blocks = self.tree.blocks(id);
        let above = &self.tree.nodes[parent];
        if blocks.is_empty() || start as usize != above.start as usize + above.run.len() {
            return Err(format!("node {id} of {} blocks begins at block {start}", blocks.len()));
        }
        let found = self.children.find(&self.tree, parent, mark, self.tree.first_text(id));
        if found != Some(id) {
            return Err(format!("node {id} has a sibling {found:?} with the same first block"));
        }
        let text = self.tree.first_text(id);
        let alike = self.children.tells_alike() && mark == PLAIN;
        if alike && !self.children.is_alike(&self.tree, id) {
            return Err(format!("node {id} is not among those that begin with {}", text[0]));
        }
        let mut count = 0;
        for (&first, depth) in blocks.iter().zip(start..) {
            if self.ring(first).any(|copy| copy < first) {
                return Err(format!("block {first} stands for a lower copy"));
            }
            for block in self.ring(first) {
                self.check_block(pool, block, (id, first, depth))?;
                count += 1;
                if count > self.len {
                    return Err(format!("the ring of block {first} does not close"));
                }
            }
        }
        Ok(count)
    }

    /// A block that should stand at `depth` in node `id`, where `first` represents it.
    fn check_block(
        &self,
        pool: &Pool,
        block: BlockId,
        (id, first, depth): (NodeId, BlockId, u32),
    ) -> CheckResult {
        let wrong = |what: &str| Err(format!("block {block} at {depth} of node {id}: {what}"));
        if self.place[block as usize] != id || pool.depth(block) != depth {
            return wrong("it says that it stands elsewhere");
        }
        if self.tree.texts.of(block) != self.tree.texts.of(first) {
            return wrong("its copies have other tokens");
        }
        if !matches!(pool.state(block), State::Committed | State::Cached) {
            return wrong(pool.state(block).name());
        }
        let parent = pool.parent(block);
        let Node { parent: above, start, .. } = self.tree.nodes[id];
        let before = match (depth, depth > start) {
            (0, _) => NIL,
            (_, true) => id,
            (_, false) => above,
        };
        let at = if parent == NIL { NIL } else { self.place[parent as usize] };
        if at != before || (parent != NIL && pool.depth(parent) + 1 != depth) {
            return wrong(&format!("it follows block {parent} in node {at}"));
        }
        Ok(())
    }
}
