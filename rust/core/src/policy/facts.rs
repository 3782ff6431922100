//! What a policy outside the core is told of the blocks that it is offered.

use super::Row;
use crate::pool::{BlockId, Pool};

/// A fact of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// Place in the prefix.
    Depth,
    /// See [`Row::last_use`].
    LastUse,
    /// See [`Row::inserted`].
    Inserted,
    /// See [`Row::uses`].
    Uses,
    /// See [`Row::reach`].
    Reach,
    /// Of the request that used it last; see [`Meta`](crate::sequence::Meta).
    Session,
    /// See `Session`.
    Turn,
    /// See `Session`.
    Class,
    /// See `Session`.
    Priority,
}

/// A column for each fact, with an entry for each block offered; empty where nobody wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// A bit each.
    unwanted: u16,
    /// [`Fact::Depth`].
    pub depth: Vec<u32>,
    /// [`Fact::LastUse`].
    pub last_use: Vec<u64>,
    /// [`Fact::Inserted`].
    pub inserted: Vec<u64>,
    /// [`Fact::Uses`].
    pub uses: Vec<u32>,
    /// [`Fact::Reach`].
    pub reach: Vec<u32>,
    /// [`Fact::Session`].
    pub session: Vec<u64>,
    /// [`Fact::Turn`].
    pub turn: Vec<u32>,
    /// [`Fact::Class`].
    pub class: Vec<u32>,
    /// [`Fact::Priority`].
    pub priority: Vec<i32>,
}

impl Facts {
    /// Only these are wanted from now on; all are until this is said.
    pub fn want(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.unwanted = facts.into_iter().fold(u16::MAX, |bits, fact| bits & !(1 << fact as u16));
    }

    fn wants(&self, fact: Fact) -> bool {
        self.unwanted & (1 << fact as u16) == 0
    }

    pub(super) fn gather(&mut self, blocks: &[BlockId], pool: &Pool, rows: &[Row]) {
        fn fill<T>(column: &mut Vec<T>, blocks: &[BlockId], fact: impl Fn(BlockId) -> T) {
            column.extend(blocks.iter().map(|&block| fact(block)));
        }
        let row = |block: BlockId| &rows[block as usize];
        if self.wants(Fact::Depth) {
            fill(&mut self.depth, blocks, |block| pool.depth(block));
        }
        if self.wants(Fact::LastUse) {
            fill(&mut self.last_use, blocks, |block| row(block).last_use);
        }
        if self.wants(Fact::Inserted) {
            fill(&mut self.inserted, blocks, |block| row(block).inserted);
        }
        if self.wants(Fact::Uses) {
            fill(&mut self.uses, blocks, |block| row(block).uses);
        }
        if self.wants(Fact::Reach) {
            fill(&mut self.reach, blocks, |block| row(block).reach);
        }
        if self.wants(Fact::Session) {
            fill(&mut self.session, blocks, |block| row(block).meta.session);
        }
        if self.wants(Fact::Turn) {
            fill(&mut self.turn, blocks, |block| row(block).meta.turn);
        }
        if self.wants(Fact::Class) {
            fill(&mut self.class, blocks, |block| row(block).meta.class);
        }
        if self.wants(Fact::Priority) {
            fill(&mut self.priority, blocks, |block| row(block).meta.priority);
        }
    }

    pub(super) fn clear(&mut self) {
        self.depth.clear();
        self.last_use.clear();
        self.inserted.clear();
        self.uses.clear();
        self.reach.clear();
        self.session.clear();
        self.turn.clear();
        self.class.clear();
        self.priority.clear();
    }
}
