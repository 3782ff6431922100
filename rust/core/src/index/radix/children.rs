//! Which child of a node goes on with given tokens: tables over all nodes, so that coming and going
//! cost the same among 100,000 siblings.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::nodes::{NodeId, Nodes};
use super::path::PLAIN;
use super::runs::Runs;
use super::texts::Texts;
use crate::hash::Key;
use crate::pool::{BlockId, NIL};

/// What the tables look into: they hold ids alone.
#[derive(Debug)]
pub(super) struct Tree {
    pub nodes: Nodes,
    pub runs: Runs,
    pub texts: Texts,
}

impl Tree {
    #[inline]
    pub fn blocks(&self, node: NodeId) -> &[BlockId] {
        self.runs.get(self.nodes[node].run)
    }

    #[inline]
    pub fn first_text(&self, node: NodeId) -> &[u32] {
        self.texts.of(self.blocks(node)[0])
    }
}

/// Children by (parent, mark, first block), and where a hit may end inside a block, by (parent, first
/// token) too.
#[derive(Debug)]
pub(super) struct Children {
    table: HashTable<NodeId>,
    alike: Option<Alike>,
    hasher: DefaultHashBuilder,
}

/// Lists of plain siblings that begin with the same token, the newest first.
#[derive(Debug, Default)]
struct Alike {
    /// The first of each list.
    heads: HashTable<NodeId>,
    /// Of each node, those before and after it.
    links: Vec<[NodeId; 2]>,
}

impl Children {
    pub fn new(partial: bool) -> Self {
        Self {
            table: HashTable::new(),
            alike: partial.then(Alike::default),
            hasher: DefaultHashBuilder::default(),
        }
    }

    #[inline]
    fn hash(&self, parent: NodeId, mark: Key, text: &[u32]) -> u64 {
        self.hasher.hash_one((parent, mark.0, text))
    }

    /// The child of `parent` whose first block is `text` with that mark.
    #[inline]
    pub fn find(&self, tree: &Tree, parent: NodeId, mark: Key, text: &[u32]) -> Option<NodeId> {
        let same = |&id: &NodeId| {
            let node = &tree.nodes[id];
            node.parent == parent && node.mark == mark && tree.first_text(id) == text
        };
        self.table.find(self.hash(parent, mark, text), same).copied()
    }

    /// Enters `id`, whose parent and first block stand.
    pub fn add(&mut self, tree: &Tree, id: NodeId) {
        let hasher = self.hasher.clone();
        let hash = |&id: &NodeId| {
            let node = &tree.nodes[id];
            hasher.hash_one((node.parent, node.mark.0, tree.first_text(id)))
        };
        self.table.insert_unique(hash(&id), id, hash);
        if let Some(alike) = self.alike.as_mut().filter(|_| tree.nodes[id].mark == PLAIN) {
            alike.add(&self.hasher, tree, id);
        }
    }

    /// Takes `id` out, while its parent and first block still stand.
    pub fn remove(&mut self, tree: &Tree, id: NodeId) {
        let node = &tree.nodes[id];
        let hash = self.hash(node.parent, node.mark, tree.first_text(id));
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        if let Some(alike) = self.alike.as_mut().filter(|_| node.mark == PLAIN) {
            alike.remove(&self.hasher, tree, id);
        }
    }

    /// Plain children of `parent` that begin with `token`, the newest first.
    pub fn alike<'a>(
        &'a self,
        tree: &'a Tree,
        parent: NodeId,
        token: u32,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let first = self.alike.as_ref().and_then(|a| a.head(&self.hasher, tree, parent, token));
        let next = |&id: &NodeId| {
            self.alike.as_ref().map(|alike| alike.links[id as usize][1]).filter(|&id| id != NIL)
        };
        std::iter::successors(first, next)
    }

    /// Whether `id` is in the list of siblings that begin with the same token, and both links of it agree.
    pub fn is_alike(&self, tree: &Tree, id: NodeId) -> bool {
        self.alike.as_ref().is_some_and(|alike| alike.links_back(&self.hasher, tree, id))
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Every child, in no order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.table.iter().copied()
    }

    pub fn tells_alike(&self) -> bool {
        self.alike.is_some()
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        let alike =
            self.alike.as_ref().map_or(0, |a| a.heads.allocation_size() + a.links.capacity() * 8);
        self.table.allocation_size() + alike
    }
}

impl Alike {
    fn head(
        &self,
        hasher: &DefaultHashBuilder,
        tree: &Tree,
        parent: NodeId,
        token: u32,
    ) -> Option<NodeId> {
        let same =
            |&id: &NodeId| tree.nodes[id].parent == parent && tree.first_text(id)[0] == token;
        self.heads.find(hasher.hash_one((parent, token)), same).copied()
    }

    /// Whether whatever comes before `id` names it as the next.
    fn links_back(&self, hasher: &DefaultHashBuilder, tree: &Tree, id: NodeId) -> bool {
        let key = |id: NodeId| (tree.nodes[id].parent, tree.first_text(id)[0]);
        let (parent, token) = key(id);
        match self.links[id as usize][0] {
            NIL => self.head(hasher, tree, parent, token) == Some(id),
            before => self.links[before as usize][1] == id && key(before) == (parent, token),
        }
    }

    fn add(&mut self, hasher: &DefaultHashBuilder, tree: &Tree, id: NodeId) {
        let key = |id: NodeId| (tree.nodes[id].parent, tree.first_text(id)[0]);
        self.links.resize(self.links.len().max(tree.nodes.slots()), [NIL; 2]);
        let hash = |&id: &NodeId| hasher.hash_one(key(id));
        let head = self.heads.find_mut(hash(&id), |&other| key(other) == key(id));
        let next = head.map(|head| std::mem::replace(head, id));
        self.links[id as usize] = [NIL, next.unwrap_or(NIL)];
        match next {
            Some(next) => self.links[next as usize][0] = id,
            None => drop(self.heads.insert_unique(hash(&id), id, hash)),
        }
    }

    fn remove(&mut self, hasher: &DefaultHashBuilder, tree: &Tree, id: NodeId) {
        let [before, after] = self.links[id as usize];
        if after != NIL {
            self.links[after as usize][0] = before;
        }
        if before != NIL {
            self.links[before as usize][1] = after;
            return;
        }
        let hash = hasher.hash_one((tree.nodes[id].parent, tree.first_text(id)[0]));
        if let Ok(mut entry) = self.heads.find_entry(hash, |&other| other == id) {
            if after == NIL {
                entry.remove();
            } else {
                *entry.get_mut() = after;
            }
        }
    }
}
