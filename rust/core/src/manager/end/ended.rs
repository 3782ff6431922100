//! How many blocks the end of given sequences would make available, counted before any has ended.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::error::Result;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// Sequences that are assumed to have ended. Nothing has been changed for them.
#[derive(Debug, Default)]
pub(super) struct Endings {
    gone: HashSet<SeqId>,
    /// Tokens that are left of those that are cut.
    left: HashMap<SeqId, u32>,
    /// One past the last block that is left of computations that others joined, by ticket.
    ends: HashMap<u64, u32>,
    /// Owners that blocks have lost.
    lost: HashMap<BlockId, u32>,
    /// Blocks that have lost all of them.
    freed: u32,
    /// What was changed since the last [`Endings::keep`], and what it was before.
    journal: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Gone(SeqId),
    Left(SeqId, Option<u32>),
    End(u64, Option<u32>),
    Lost(BlockId, bool),
}

impl Endings {
    /// Keeps what was assumed so far: a later [`Self::undo`] does not go behind this point.
    pub(super) fn keep(&mut self) {
        self.journal.clear();
    }

    /// Forgets what was thought since the last `keep`.
    pub(super) fn undo(&mut self) {
        while let Some(change) = self.journal.pop() {
            match change {
                Change::Gone(seq) => drop(self.gone.remove(&seq)),
                Change::Left(seq, before) => put_back(&mut self.left, seq, before),
                Change::End(ticket, before) => put_back(&mut self.ends, ticket, before),
                Change::Lost(block, freed) => {
                    self.freed -= u32::from(freed);
                    let lost = self.lost.get(&block).and_then(|n| n.checked_sub(1));
                    put_back(&mut self.lost, block, lost.filter(|&n| n > 0));
                }
            }
        }
    }

    /// Blocks that lost an owner since the last `keep`, once for each.
    pub(super) fn touched(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.journal.iter().filter_map(|change| match change {
            Change::Lost(block, _) => Some(*block),
            _ => None,
        })
    }

    /// Owners that `block` has lost.
    pub(super) fn lost(&self, block: BlockId) -> u32 {
        self.lost.get(&block).copied().unwrap_or(0)
    }

    /// `block`, which has `refs` owners in fact, loses one.
    fn lose(&mut self, block: BlockId, refs: u32) {
        let lost = self.lost.entry(block).or_default();
        *lost += 1;
        let freed = *lost == refs;
        self.freed += u32::from(freed);
        self.journal.push(Change::Lost(block, freed));
    }
}

fn put_back<K: Hash + Eq>(map: &mut HashMap<K, u32>, key: K, before: Option<u32>) {
    match before {
        Some(before) => drop(map.insert(key, before)),
        None => drop(map.remove(&key)),
    }
}

impl Manager {
    /// Blocks that the end of `seq` makes available.
    pub(super) fn frees(&self, seq: SeqId) -> Result<u32> {
        if self.transfers.tickets().has_loads() {
            return self.end_of(seq, &mut Endings::default());
        }
        // Without loads, the end cuts no other sequence.
        let tables = self.sequences.get(seq)?.tables.iter().flatten();
        Ok(tables.filter(|&&b| b != NIL && self.pool().stays(b) == 1).count() as u32)
    }

    /// The same, given the sequences that have `ended` already; adds `seq` to these.
    pub(super) fn end_of(&self, seq: SeqId, ended: &mut Endings) -> Result<u32> {
        // Blocks that a load still fills outlive the sequence, and so do the blocks before them.
        let stays = self.stays_for_load(seq)?.map_or(0, |(_, tokens)| tokens);
        let before = ended.freed;
        self.lose_owners(seq, stays, ended)?;
        if ended.gone.insert(seq) {
            ended.journal.push(Change::Gone(seq));
        }
        self.leave_ticket(seq, ended)?;
        Ok(ended.freed - before)
    }

    /// Counts `seq` as cut to `keep` tokens, and with it every sequence that joined its
    /// computation.
    fn lose_owners(&self, seq: SeqId, keep: u32, ended: &mut Endings) -> Result<()> {
        let had = ended.left.get(&seq).copied().unwrap_or(u32::MAX);
        if keep >= had {
            return Ok(());
        }
        let before = ended.left.insert(seq, keep);
        ended.journal.push(Change::Left(seq, before));
        for block in self.behind(seq, keep, had)? {
            ended.lose(block, self.pool().stays(block));
        }
        for (load, joiners, kept) in self.left_alone(seq, keep / self.options.block_size) {
            self.lose_pages(load.ticket, kept, ended);
            for joiner in joiners {
                let good = self.last_good(joiner, kept * self.options.block_size)?;
                self.lose_owners(joiner, good, ended)?;
            }
        }
        Ok(())
    }

    /// Counts the computation that `seq` had joined as dropped, if no other sequence waits for it.
    fn leave_ticket(&self, seq: SeqId, ended: &mut Endings) -> Result<()> {
        let ticket = self.sequences.get(seq)?.joined;
        if ticket > 0
            && self.transfers.tickets().joiners(ticket).all(|seq| ended.gone.contains(&seq))
        {
            let start = self.transfers.tickets().load(ticket).map_or(0, |(load, _)| load.start);
            self.lose_pages(ticket, start, ended);
        }
        Ok(())
    }

    /// Cuts a joined computation, so that it ends with the block `kept`.
    fn lose_pages(&self, ticket: u64, kept: u32, ended: &mut Endings) {
        let Some((load, pages)) = self.transfers.tickets().load(ticket) else { return };
        let end = ended.ends.get(&ticket).copied().unwrap_or(load.start + load.blocks);
        if kept >= end {
            return;
        }
        let before = ended.ends.insert(ticket, kept);
        ended.journal.push(Change::End(ticket, before));
        let place = |row: u32| (row - load.start) as usize * self.options.groups.len();
        for page in &pages[place(kept)..place(end)] {
            ended.lose(page.dst, self.pool().stays(page.dst));
        }
    }

    /// The blocks of `seq` behind its first `keep` tokens, of those for `had`.
    fn behind(&self, seq: SeqId, keep: u32, had: u32) -> Result<Vec<BlockId>> {
        let sequence = self.sequences.get(seq)?;
        let rows = |group, tokens| {
            let encoder = if tokens > 0 { sequence.encoder_tokens } else { 0 };
            self.layout.table_len(group, tokens, encoder)
        };
        let groups = sequence.tables.iter().enumerate();
        let goes = groups.flat_map(|(group, table)| {
            let end = if had == u32::MAX { table.len() } else { rows(group, had).min(table.len()) };
            table.get(rows(group, keep)..end).unwrap_or(&[])
        });
        Ok(goes.copied().filter(|&b| b != NIL).collect())
    }
}
