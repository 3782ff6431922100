//! Everything a manager holds, copied at one instant.

use crate::error::Result;
use crate::hash::Key;
use crate::manager::{Manager, Pressure};
use crate::pool::{BlockId, NIL, State};
use crate::retention::DEFAULT_PRIORITY;
use crate::sequence::{Meta, SeqId, Sequence, Tables};
use crate::stats::{Miss, Stats};
use crate::transfers::OutstandingTicket;

/// The blocks of the pool as columns.
#[derive(Debug, Default)]
#[allow(missing_docs)] // each is the pool's column of that name
pub struct SnapshotBlocks {
    pub state: Vec<u8>,
    pub refs: Vec<u32>,
    pub group: Vec<u8>,
    pub generation: Vec<u32>,
    pub parent: Vec<BlockId>,
    pub depth: Vec<u32>,
    /// Zero for a block that is not findable.
    pub key: Vec<Key>,
    pub priority: Vec<u8>,
}

/// A live sequence.
#[derive(Debug)]
#[allow(missing_docs)] // each is the sequence's field of that name
pub struct SequenceCopy {
    pub seq: SeqId,
    pub known: u32,
    pub slots: u32,
    pub committed: u32,
    pub cached: u32,
    pub unknown: u32,
    pub private: bool,
    pub tables: Tables,
    pub meta: Meta,
    pub admitted: u64,
    pub max_seq_len: u32,
    pub tenant: Vec<u8>,
    pub cache_salt: Vec<u8>,
    pub lora_name: Vec<u8>,
    pub encoder: Vec<u8>,
    pub encoder_tokens: u32,
    pub miss: Option<Miss>,
    /// Whether it stands in for one that ended before its load.
    pub stand_in: bool,
}

/// A copy of all of it, without any pointer into the manager.
#[derive(Debug)]
#[allow(missing_docs)] // each is what the manager says under that name
pub struct Snapshot {
    pub tick: u64,
    pub stats: Stats,
    pub freed: u64,
    pub counts: (u32, u32, u32, u32),
    pub usage: f64,
    pub pressure: Pressure,
    pub peak: u32,
    pub asleep: bool,
    pub blocks: SnapshotBlocks,
    pub sequences: Vec<SequenceCopy>,
    pub tickets: Vec<OutstandingTicket>,
    /// (the step, the blocks that wait for it).
    pub fences: Vec<(u64, Vec<BlockId>)>,
    pub passed: Option<u64>,
    /// (the receipt, the blocks that it holds).
    pub pins: Vec<(u64, Vec<BlockId>)>,
    /// (findable block, how often it is held one by one).
    pub held: Vec<(BlockId, u32)>,
}

impl Snapshot {
    /// Blocks that wait for a fence.
    pub fn waiting(&self) -> u64 {
        let mut blocks: Vec<_> = self.fences.iter().flat_map(|(_, blocks)| blocks).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len() as u64
    }
}

impl Manager {
    /// All that the manager holds, copied. O(blocks + table entries).
    pub fn snapshot(&self) -> Snapshot {
        let pool = self.pool();
        let sequences = self.sequences.iter().map(|(seq, s)| self.copy_sequence(seq, s));
        Snapshot {
            tick: self.store.now(),
            stats: *self.store.stats(),
            freed: self.freed(),
            counts: (pool.free(), pool.cached(), pool.referenced(), pool.capacity()),
            usage: self.usage(),
            pressure: self.capacity.pressure(),
            peak: self.peak(),
            asleep: self.capacity.is_asleep(),
            blocks: self.copy_blocks(),
            sequences: sequences.collect(),
            tickets: self.transfers.tickets().outstanding(),
            fences: self.transfers.fences().waiting(),
            passed: self.transfers.fences().passed(),
            pins: self.locks.held().map(|held| (held.receipt.id, held.path.to_vec())).collect(),
            held: self.held_blocks.held(),
        }
    }

    /// The part of a snapshot that describes one sequence.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn sequence_copy(&self, seq: SeqId) -> Result<SequenceCopy> {
        Ok(self.copy_sequence(seq, self.sequences.get(seq)?))
    }

    fn copy_sequence(&self, seq: SeqId, s: &Sequence) -> SequenceCopy {
        SequenceCopy {
            seq,
            known: s.known(),
            slots: s.len,
            committed: s.committed,
            cached: s.cached,
            unknown: s.unknown,
            private: s.private,
            tables: s.tables.clone(),
            meta: s.meta,
            admitted: s.allocated,
            max_seq_len: s.max_seq_len,
            tenant: s.tenant.clone(),
            cache_salt: s.cache_salt.clone(),
            lora_name: s.lora_name.clone(),
            encoder: s.encoder.clone(),
            encoder_tokens: s.encoder_tokens,
            miss: self.prefix_statistics().is_some().then_some(s.miss),
            stand_in: self.transfers.orphans().has(seq),
        }
    }

    fn copy_blocks(&self) -> SnapshotBlocks {
        let pool = self.pool();
        let mut blocks = SnapshotBlocks::default();
        for block in 0..pool.capacity() {
            let state = pool.state(block);
            let used = block < pool.created();
            let findable = matches!(state, State::Committed | State::Cached);
            blocks.state.push(state as u8);
            blocks.refs.push(if used { pool.refs(block) } else { 0 });
            blocks.group.push(if used { pool.group(block) } else { 0 });
            blocks.generation.push(pool.generation(block));
            blocks.parent.push(if findable { pool.parent(block) } else { NIL });
            blocks.depth.push(if findable { pool.depth(block) } else { 0 });
            blocks.key.push(if findable { pool.key(block) } else { Key(0) });
            blocks.priority.push(if findable { pool.priority(block) } else { DEFAULT_PRIORITY });
        }
        blocks
    }
}
