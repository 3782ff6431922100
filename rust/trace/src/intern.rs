//! Interning of prefix nodes: a node is a raw id under a parent.

use hashbrown::HashMap;

use crate::forest::ROOT;

/// One id in so many is looked at for whether it stands under several parents.
const SAMPLE: u64 = 16;

/// Finds the node of an id under a parent, or makes it.
pub(crate) struct Interner {
    /// Raw id of each node.
    raw: Vec<u64>,
    /// The first child of each node, `ROOT` for none: most nodes never get a second, so most look-ups end here.
    first_child: Vec<u32>,
    first_root: u32,
    /// Every child that is not its parent's first, by (parent, raw id).
    branches: HashMap<(u32, u64), u32>,
    /// The first parent of each sampled id.
    sampled: HashMap<u64, u32>,
    repeats: bool,
    pub max_nodes: u32,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            raw: Vec::new(),
            first_child: Vec::new(),
            first_root: ROOT,
            branches: HashMap::new(),
            sampled: HashMap::new(),
            repeats: false,
            max_nodes: ROOT,
        }
    }
}

impl Interner {
    /// The node of `id` under `parent`; `parents` holds that of every node.
    pub fn intern(&mut self, parent: u32, id: u64, parents: &mut Vec<u32>) -> Result<u32, String> {
        let first =
            if parent == ROOT { self.first_root } else { self.first_child[parent as usize] };
        if first != ROOT {
            if self.raw[first as usize] == id {
                return Ok(first);
            }
            if let Some(&node) = self.branches.get(&(parent, id)) {
                return Ok(node);
            }
        }
        let node = self.add(parent, parents)?;
        self.raw.push(id);
        self.first_child.push(ROOT);
        if first != ROOT {
            self.branches.insert((parent, id), node);
        } else if parent == ROOT {
            self.first_root = node;
        } else {
            self.first_child[parent as usize] = node;
        }
        if !self.repeats && id.is_multiple_of(SAMPLE) {
            self.repeats = *self.sampled.entry(id).or_insert(parent) != parent;
        }
        Ok(node)
    }

    /// A new node under `parent`.
    pub fn add(&self, parent: u32, parents: &mut Vec<u32>) -> Result<u32, String> {
        let node = parents.len();
        if node >= self.max_nodes as usize {
            return Err(format!("more than {} distinct blocks in one trace", self.max_nodes));
        }
        parents.push(parent);
        Ok(node as u32)
    }

    /// Whether an id was seen under two parents: ids then stand for single blocks, not for prefixes.
    pub fn repeats(&self) -> bool {
        self.repeats
    }
}
