//! A pool, a tree and locks, driven as a manager drives them.

use kvframe_core::index::KeyMatch;
use kvframe_core::index::radix::{Path, Radix};
use kvframe_core::locks::{Locks, Receipt};
use kvframe_core::pool::{Pool, State};
use kvframe_core::{BlockId, Key, NIL, Result};

/// Two namespaces.
pub const HERE: Key = Key(1);
pub const THERE: Key = Key(2);

pub fn path(tokens: &[u32]) -> Path<'_> {
    Path { root: HERE, tokens, marks: &[] }
}

pub struct Harness {
    pub pool: Pool,
    pub tree: Radix,
    pub locks: Locks,
    pub size: usize,
}

impl Harness {
    pub fn new(blocks: u32, size: u32) -> Self {
        Self {
            pool: Pool::new(blocks, false),
            tree: Radix::new(size, true),
            locks: Locks::default(),
            size: size as usize,
        }
    }

    pub fn find(&self, path: Path<'_>) -> Vec<BlockId> {
        let mut out = Vec::new();
        self.tree.find(path, usize::MAX, &mut out);
        out
    }

    /// How many tokens of `tokens` are there.
    pub fn hit(&self, tokens: &[u32]) -> usize {
        self.find(path(tokens)).len() * self.size
    }

    /// Stores the whole blocks of `path` after those that are there (`reuse`), or all of them anew.
    /// Nothing of it stays owned. Returns its blocks, and how many were there already.
    pub fn store(&mut self, path: Path<'_>, reuse: bool) -> (Vec<BlockId>, usize) {
        let mut blocks = if reuse { self.find(path) } else { Vec::new() };
        let found = blocks.len();
        let mut known = found;
        for &block in &blocks {
            self.pool.share(block);
        }
        for depth in found..path.tokens.len() / self.size {
            let block = self.pool.take(0).expect("room");
            let parent = blocks.last().copied().unwrap_or(NIL);
            match self.tree.store(block, parent, depth as u32, path) {
                KeyMatch::Nothing => {}
                KeyMatch::Block(copy) => {
                    assert!(copy != block && self.pool.is_findable(copy));
                    known += 1;
                }
                KeyMatch::Collision => unreachable!("tokens are compared"),
            }
            self.pool.publish(block, Key(0), parent, depth as u32);
            blocks.push(block);
        }
        self.disown(&blocks);
        (blocks, known)
    }

    fn disown(&mut self, path: &[BlockId]) {
        for &block in path.iter().rev() {
            if self.pool.unshare(block) == Some(State::Pending) {
                self.pool.put_back(block);
            }
        }
    }

    pub fn lock(&mut self, block: BlockId) -> Result<Receipt> {
        let findable = self.pool.is_findable(block);
        let above = |&b: &BlockId| findable.then(|| self.pool.parent(b)).filter(|&b| b != NIL);
        let mut path: Vec<_> = std::iter::successors(Some(block), above).collect();
        path.reverse();
        let receipt = self.locks.lock(&self.pool, &path)?;
        for &block in &path {
            self.pool.share(block);
        }
        Ok(receipt)
    }

    pub fn unlock(&mut self, receipt: Receipt) -> Result<()> {
        let mut path = Vec::new();
        self.locks.unlock(receipt, &mut path)?;
        self.disown(&path);
        Ok(())
    }

    pub fn evict(&mut self, block: BlockId) {
        assert!(self.pool.is_evictable(block));
        assert!(self.tree.remove(&self.pool, block));
        assert!(!self.tree.remove(&self.pool, block), "it went only once");
        self.pool.unpublish(block);
        self.pool.put_back(block);
    }

    pub fn leaves(&self) -> Vec<BlockId> {
        (0..self.pool.created()).filter(|&b| self.pool.is_evictable(b)).collect()
    }

    /// Evicts until nothing may be; returns how many blocks went.
    pub fn evict_all(&mut self) -> usize {
        let before = self.tree.len();
        while let Some(&leaf) = self.leaves().first() {
            self.evict(leaf);
        }
        before - self.tree.len()
    }

    /// Evictable (now or once what follows is gone), protected, and both.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let cached = self.pool.cached() as usize;
        (cached, self.tree.len() - cached, self.tree.len())
    }

    pub fn check(&self) {
        self.tree.validate(&self.pool).expect("sound");
        let total = self.pool.free() as usize + self.tree.len();
        assert_eq!(total, self.pool.capacity() as usize, "every block is free or in the tree");
    }
}
