//! Facts about the blocks that a policy outside the core is offered.

use crate::policy::BlockRow;
use crate::pool::{BlockId, Pool};

/// A fact of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// Place in the prefix.
    Depth,
    /// See [`BlockRow::last_use`].
    LastUse,
    /// See [`BlockRow::inserted`].
    Inserted,
    /// See [`BlockRow::uses`].
    Uses,
    /// See [`BlockRow::reach`].
    Reach,
    /// Of the request that used it last; see [`Meta`](crate::sequence::Meta).
    Session,
    /// See `Session`.
    Turn,
    /// See `Session`.
    Class,
    /// See `Session`.
    Priority,
    /// See [`BlockRow::next_use`].
    NextUse,
    /// Its key.
    Key,
    /// See [`BlockRow::last_use_time`].
    LastUseTime,
    /// See [`BlockRow::inserted_time`].
    InsertedTime,
    /// See [`BlockRow::copies`].
    Copies,
    /// See `Session`.
    Tenant,
}

impl Fact {
    /// The one that policies call so.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "depth" => Self::Depth,
            "last_use" => Self::LastUse,
            "inserted" => Self::Inserted,
            "uses" => Self::Uses,
            "reach" => Self::Reach,
            "session" => Self::Session,
            "turn" => Self::Turn,
            "request_class" => Self::Class,
            "priority" => Self::Priority,
            "next_use" => Self::NextUse,
            "key" => Self::Key,
            "last_use_time" => Self::LastUseTime,
            "inserted_time" => Self::InsertedTime,
            "copies" => Self::Copies,
            "tenant" => Self::Tenant,
            _ => return None,
        })
    }
}

/// A column for each fact, with an entry for each block offered; empty where the policy does not
/// ask for it.
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
    /// [`Fact::NextUse`].
    pub next_use: Vec<u32>,
    /// [`Fact::Key`]: two words each, the low one first.
    pub key: Vec<[u64; 2]>,
    /// [`Fact::LastUseTime`].
    pub last_use_time: Vec<u64>,
    /// [`Fact::InsertedTime`].
    pub inserted_time: Vec<u64>,
    /// [`Fact::Copies`].
    pub copies: Vec<u32>,
    /// [`Fact::Tenant`].
    pub tenant: Vec<u32>,
}

impl Facts {
    /// Only these are wanted from now on; all are until this is said.
    pub fn want(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.unwanted = facts.into_iter().fold(u16::MAX, |bits, fact| bits & !(1 << fact as u16));
    }

    fn wants(&self, fact: Fact) -> bool {
        self.unwanted & (1 << fact as u16) == 0
    }

    pub(crate) fn gather(&mut self, blocks: &[BlockId], pool: &Pool, rows: &[BlockRow]) {
        fn fill<T>(wanted: bool, column: &mut Vec<T>, facts: impl Iterator<Item = T>) {
            if wanted {
                column.extend(facts);
            }
        }
        let depths = blocks.iter().map(|&block| pool.depth(block));
        let rows = blocks.iter().map(|&block| &rows[block as usize]);
        let metas = rows.clone().map(|row| &row.meta);
        fill(self.wants(Fact::Depth), &mut self.depth, depths);
        fill(self.wants(Fact::LastUse), &mut self.last_use, rows.clone().map(|row| row.last_use));
        fill(self.wants(Fact::Inserted), &mut self.inserted, rows.clone().map(|row| row.inserted));
        fill(self.wants(Fact::Uses), &mut self.uses, rows.clone().map(|row| row.uses));
        fill(self.wants(Fact::Reach), &mut self.reach, rows.clone().map(|row| row.reach));
        fill(self.wants(Fact::NextUse), &mut self.next_use, rows.clone().map(|row| row.next_use));
        self.gather_rare(blocks, pool, rows);
        fill(self.wants(Fact::Session), &mut self.session, metas.clone().map(|meta| meta.session));
        fill(self.wants(Fact::Turn), &mut self.turn, metas.clone().map(|meta| meta.turn));
        fill(self.wants(Fact::Class), &mut self.class, metas.clone().map(|meta| meta.class));
        fill(self.wants(Fact::Priority), &mut self.priority, metas.map(|meta| meta.priority));
    }

    pub(crate) fn clear(&mut self) {
        self.depth.clear();
        self.last_use.clear();
        self.inserted.clear();
        self.uses.clear();
        self.reach.clear();
        self.session.clear();
        self.turn.clear();
        self.class.clear();
        self.priority.clear();
        self.next_use.clear();
        self.key.clear();
        self.last_use_time.clear();
        self.inserted_time.clear();
        self.copies.clear();
        self.tenant.clear();
    }

    fn gather_rare<'a>(
        &mut self,
        blocks: &[BlockId],
        pool: &Pool,
        rows: impl Iterator<Item = &'a BlockRow> + Clone,
    ) {
        if self.wants(Fact::Key) {
            let keys = blocks.iter().map(|&block| pool.key(block).0);
            self.key.extend(keys.map(|key| [key as u64, (key >> 64) as u64]));
        }
        if self.wants(Fact::LastUseTime) {
            self.last_use_time.extend(rows.clone().map(|row| row.last_use_time));
        }
        if self.wants(Fact::InsertedTime) {
            self.inserted_time.extend(rows.clone().map(|row| row.inserted_time));
        }
        if self.wants(Fact::Copies) {
            self.copies.extend(rows.clone().map(|row| row.copies));
        }
        if self.wants(Fact::Tenant) {
            self.tenant.extend(rows.map(|row| u32::from(row.meta.tenant)));
        }
    }
}
