//! The radix index: token-exact, no hash over the prefix.
//!
//! A node is an edge: blocks that follow one another, none of which has another child than the next.
//! Its ids lie in one list, its tokens in a row a block, so that matching a prompt costs the compare.
//! Where prefixes part there is a child for each; it is found by its first block's tokens in a table
//! over all nodes. Each namespace (weights, salt, adapter) has a top node of its own, and a block that
//! carries multimodal items begins a node that is told apart by them.
//!
//! Several blocks may stand at one place (copies that were computed side by side); they form a ring,
//! and one of them represents it. A node splits when something is stored beside it, never at a match.
//! Only leaves go, so a node is trimmed from its end. Source: `RadixAttention` (Zheng et al., 2024).

mod check;
mod children;
mod dump;
mod find;
mod nodes;
mod path;
mod runs;
mod texts;

use hashbrown::HashTable;

use self::children::{Children, Tree};
use self::nodes::{Node, NodeId, Nodes};
use self::runs::{Run, Runs};
use self::texts::Texts;
use super::KeyMatch;
use crate::hash::Key;
use crate::pool::{BlockId, NIL, Pool};

pub use find::Partial;
pub use path::{PLAIN, Path};

/// Findable blocks by their tokens.
#[derive(Debug)]
pub struct Radix {
    tree: Tree,
    children: Children,
    /// Top nodes by namespace.
    tops: HashTable<NodeId>,
    /// Each block's node; [`NIL`] if it is not findable.
    place: Vec<NodeId>,
    /// The next block of its ring; itself where it is alone.
    twin: Vec<BlockId>,
    len: usize,
}

impl Radix {
    /// An empty tree over blocks of `block_size` tokens. With `partial`, it can tell which block a hit
    /// ends in.
    pub fn new(block_size: u32, partial: bool) -> Self {
        let texts = Texts::new(block_size);
        Self {
            tree: Tree { nodes: Nodes::default(), runs: Runs::default(), texts },
            children: Children::new(partial),
            tops: HashTable::new(),
            place: Vec::new(),
            twin: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    fn top(&self, namespace: Key) -> Option<NodeId> {
        self.tops.find(namespace.mixed(), |&id| self.tree.nodes[id].mark == namespace).copied()
    }

    /// Makes `block`, which holds block `depth` of `path`, findable after `parent` ([`NIL`] at the front).
    /// `parent` is findable. Returns the block that was findable there already, if any; both are findable
    /// then.
    pub fn store(
        &mut self,
        block: BlockId,
        parent: BlockId,
        depth: u32,
        path: Path<'_>,
    ) -> KeyMatch {
        let size = self.tree.texts.size();
        let text = &path.tokens[depth as usize * size..][..size];
        self.keep(block, text);
        let mark = path.mark(depth as usize);
        let (node, offset) = if parent == NIL {
            (self.top_or_new(path.root), 0)
        } else {
            self.position_after(parent, depth)
        };
        let Node { run, children, parent: above, .. } = self.tree.nodes[node];
        if let Some(&there) = self.tree.blocks(node).get(offset) {
            if mark == PLAIN && self.tree.texts.of(there) == text {
                self.pair(node, offset, block);
                return KeyMatch::Block(there);
            }
            let head = self.split(node, offset);
            self.add_child(head, depth, mark, block);
        } else if let Some(child) = self.children.find(&self.tree, node, mark, text) {
            let there = self.tree.blocks(child)[0];
            self.pair(child, 0, block);
            return KeyMatch::Block(there);
        } else if children == 0 && mark == PLAIN && above != NIL {
            let mut run = run;
            self.tree.runs.push(&mut run, block);
            self.tree.nodes[node].run = run;
            self.place[block as usize] = node;
        } else {
            self.add_child(node, depth, mark, block);
        }
        KeyMatch::Nothing
    }

    fn keep(&mut self, block: BlockId, text: &[u32]) {
        self.tree.texts.keep(block, text);
        if self.place.len() <= block as usize {
            self.place.resize(block as usize + 1, NIL);
            self.twin.resize(block as usize + 1, NIL);
        }
        debug_assert_eq!(self.place[block as usize], NIL, "the block is not findable yet");
        self.twin[block as usize] = block;
        self.len += 1;
    }

    /// Adds `block` to the copies at one place of a node. Lookups find the copy with the lowest id.
    fn pair(&mut self, node: NodeId, offset: usize, block: BlockId) {
        let there = self.tree.blocks(node)[offset];
        self.place[block as usize] = node;
        self.twin.swap(there as usize, block as usize);
        if block < there {
            self.tree.runs.set(self.tree.nodes[node].run, offset, block);
        }
    }

    fn top_or_new(&mut self, namespace: Key) -> NodeId {
        self.top(namespace).unwrap_or_else(|| {
            let run = Run::default();
            let top =
                Node { parent: NIL, start: 0, children: 0, last_child: NIL, run, mark: namespace };
            let id = self.tree.nodes.add(top);
            let nodes = &self.tree.nodes;
            self.tops.insert_unique(namespace.mixed(), id, |&id| nodes[id].mark.mixed());
            id
        })
    }

    fn add_child(&mut self, parent: NodeId, depth: u32, mark: Key, block: BlockId) {
        let run = self.tree.runs.make(&[block]);
        let node = Node { parent, start: depth, children: 0, last_child: NIL, run, mark };
        let id = self.tree.nodes.add(node);
        let above = &mut self.tree.nodes[parent];
        above.children += 1;
        if above.last_child == NIL {
            above.last_child = id;
        }
        self.place[block as usize] = id;
        self.children.add(&self.tree, id);
    }

    /// Splits `node` after its first `count` blocks. These become a new node, which is returned; the children
    /// stay with the old one.
    fn split(&mut self, node: NodeId, count: usize) -> NodeId {
        let old = self.tree.nodes[node];
        self.children.remove(&self.tree, node);
        let run = self.tree.runs.copy_head(old.run, count);
        let head = self.tree.nodes.add(Node { children: 1, last_child: node, run, ..old });
        let above = &mut self.tree.nodes[old.parent];
        if above.last_child == node {
            above.last_child = head;
        }
        for &block in self.tree.runs.get(run) {
            let mut at = block;
            loop {
                self.place[at as usize] = head;
                at = self.twin[at as usize];
                if at == block {
                    break;
                }
            }
        }
        let mut run = old.run;
        self.tree.runs.drop_head(&mut run, count);
        let start = old.start + count as u32;
        self.tree.nodes[node] = Node { parent: head, start, run, mark: PLAIN, ..old };
        self.children.add(&self.tree, head);
        self.children.add(&self.tree, node);
        head
    }

    /// Takes `block` out; nothing may follow it. False if it was not there.
    // Not inlined: its variables would spill those of an eviction from the hash index.
    #[inline(never)]
    pub fn remove(&mut self, pool: &Pool, block: BlockId) -> bool {
        let Some(&node) = self.place.get(block as usize).filter(|&&node| node != NIL) else {
            return false;
        };
        let Node { start, mut run, children, .. } = self.tree.nodes[node];
        let offset = (pool.depth(block) - start) as usize;
        self.len -= 1;
        let other = self.twin[block as usize];
        if other != block {
            let before = self.ring(block).find(|&b| self.twin[b as usize] == block);
            self.twin[before.unwrap_or(other) as usize] = other;
            if self.tree.blocks(node)[offset] == block {
                let lowest = self.ring(other).min().unwrap_or(other);
                self.tree.runs.set(run, offset, lowest);
            }
        } else if run.len() > 1 {
            debug_assert!(children == 0 && offset + 1 == run.len(), "nothing follows the block");
            self.tree.runs.pop(&mut run);
            self.tree.nodes[node].run = run;
        } else {
            self.detach(node);
        }
        self.place[block as usize] = NIL;
        true
    }

    /// Unlinks a childless node of one block; a namespace is removed with its last node.
    fn detach(&mut self, node: NodeId) {
        let Node { parent, run, .. } = self.tree.nodes[node];
        self.children.remove(&self.tree, node);
        self.tree.runs.release(run);
        self.tree.nodes.remove(node);
        let above = &mut self.tree.nodes[parent];
        above.children -= 1;
        if above.last_child == node {
            above.last_child = NIL;
        }
        if above.parent != NIL || above.children > 0 {
            return;
        }
        if let Ok(entry) = self.tops.find_entry(above.mark.mixed(), |&id| id == parent) {
            entry.remove();
        }
        self.tree.nodes.remove(parent);
    }

    /// The blocks that stand where `block` does, itself first.
    fn ring(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let next = move |&at: &BlockId| Some(self.twin[at as usize]).filter(|&b| b != block);
        std::iter::successors(Some(block), next)
    }

    /// Another findable block with the same prefix, the lowest there is.
    pub fn other_copy(&self, block: BlockId) -> Option<BlockId> {
        self.ring(block).skip(1).min()
    }

    /// Findable blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is findable.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every findable block, in no order that means anything.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.place.iter().zip(0..).filter(|&(&node, _)| node != NIL).map(|(_, block)| block)
    }

    /// Nodes, the tops of namespaces included.
    pub fn nodes(&self) -> usize {
        self.tree.nodes.len()
    }

    /// Namespaces.
    pub fn namespaces(&self) -> usize {
        self.tops.len()
    }

    /// Bytes that it has reserved.
    pub fn bytes(&self) -> usize {
        let columns = (self.place.capacity() + self.twin.capacity()) * size_of::<u32>();
        let nodes = self.tree.nodes.slots() * size_of::<Node>();
        let runs = self.tree.runs.words() * size_of::<BlockId>();
        self.tree.texts.bytes() + columns + nodes + runs + self.children.bytes()
    }
}
