//! The nodes, in a slab.

use super::runs::Run;
use crate::hash::Key;
use crate::pool::NIL;

pub(super) type NodeId = u32;

/// An edge of the tree: blocks that follow one another. A namespace's top node has none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// [`NIL`] for a namespace's top, and for a slot that is not in use.
    pub parent: NodeId,
    /// Depth of its first block.
    pub start: u32,
    pub children: u32,
    /// The child that has been there longest, or [`NIL`]; a hint that lookups check. A long prompt from
    /// which others part goes on there, and its nodes follow one another without a look into a table.
    pub last_child: NodeId,
    pub run: Run,
    /// What its first block carries besides tokens; of a top, the namespace.
    pub mark: Key,
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    slots: Vec<Node>,
    vacant: Vec<NodeId>,
}

impl std::ops::Index<NodeId> for Nodes {
    type Output = Node;

    #[inline]
    fn index(&self, id: NodeId) -> &Node {
        &self.slots[id as usize]
    }
}

impl std::ops::IndexMut<NodeId> for Nodes {
    #[inline]
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.slots[id as usize]
    }
}

impl Nodes {
    pub fn add(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.vacant.pop() {
            self[id] = node;
            return id;
        }
        self.slots.push(node);
        self.slots.len() as NodeId - 1
    }

    pub fn remove(&mut self, id: NodeId) {
        self[id].parent = NIL;
        self.vacant.push(id);
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Slots, vacant ones included; ids below this.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }
}
