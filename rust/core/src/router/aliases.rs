//! A worker's own names for blocks, where keys are made of tokens.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::nodes::Nodes;

/// The block that a name stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alias {
    pub key: u64,
    /// The block before it; the block itself where none is.
    before: u64,
}

impl Alias {
    pub fn new(key: u64, parent: Option<u64>) -> Self {
        Self { key, before: parent.unwrap_or(key) }
    }

    pub fn parent(self) -> Option<u64> {
        (self.before != self.key).then_some(self.before)
    }
}

#[derive(Debug, Default)]
pub(super) struct Aliases {
    known: HashMap<u64, Alias>,
    /// Of those, blocks that the worker holds nowhere any more, the first to go first.
    gone: VecDeque<u64>,
}

/// The most names of blocks that a worker holds no more and that are still remembered. A block that moves
/// to a lower tier may be reported as removed first. The later event that stores it has no token ids, so
/// only the name tells which block it is.
const GONE: usize = 1024;

/// Names beyond twice the capacity are looked through, but not below this many.
const FEW: usize = 1024;

impl Aliases {
    #[inline]
    pub fn get(&self, own: u64) -> Option<Alias> {
        self.known.get(&own).copied()
    }

    /// What the name stood for.
    #[inline]
    pub fn put(&mut self, own: u64, alias: Alias) -> Option<Alias> {
        self.known.insert(own, alias)
    }

    /// A block that the worker holds nowhere any more; an earlier one is forgotten for it.
    pub fn remember(&mut self, own: u64, nodes: &Nodes, worker: u32) {
        self.gone.push_back(own);
        if self.gone.len() > GONE
            && let Some(first) = self.gone.pop_front()
            && let Some(alias) = self.get(first)
            && !nodes.holds(alias.key, worker)
        {
            self.known.remove(&first);
        }
    }

    /// Names of blocks that the index has forgotten go once they are many.
    pub fn tidy(&mut self, nodes: &Nodes) {
        if self.known.len() > 2 * nodes.capacity.max(FEW) {
            self.known.retain(|_, alias| nodes.contains(alias.key));
        }
    }
}
