//! Joining a load in flight: a sequence shares blocks that are being brought for another one with the same
//! prompt. It owns their pages as a fork of that one would: when the load ends, what is good of them
//! counts as computed, and the rest is cut.

use crate::events::Kind;
use crate::hash::Key;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};
use crate::transfers::LoadTicket;

impl Manager {
    /// Replaces `hits` by the blocks of the sequence whose load goes on from them the farthest; that
    /// load's ticket, if there is one.
    pub(in crate::manager) fn find_loading(
        &self,
        wanted: PrefixQuery<'_>,
        hits: &mut [Vec<BlockId>],
    ) -> Option<u64> {
        if !self.transfers.tickets().has_loads() {
            return None;
        }
        let found = hits.first().map_or(0, Vec::len);
        let PrefixQuery { keys, tokens, root, limit, .. } = wanted;
        let name = self.name_of_row(keys, tokens, root, found).filter(|_| found < limit)?;
        let loads =
            self.transfers.tickets().named(name).filter(|load| load.start as usize == found);
        // Of equals, the load that began first.
        let mut best: Option<(usize, u64, &Sequence)> = None;
        for load in loads {
            let Some(sequence) = self.owner_of(load) else { continue };
            let Some(rows) = self.loading_rows(wanted, sequence, load) else { continue };
            if best.is_none_or(|(longest, ..)| rows > longest) {
                best = Some((rows, load.ticket, sequence));
            }
            if rows >= limit {
                break;
            }
        }
        let (rows, ticket, sequence) = best?;
        for (found, table) in hits.iter_mut().zip(&sequence.tables) {
            found.clear();
            found.extend_from_slice(&table[..rows]);
        }
        Some(ticket)
    }

    /// What the block at place `at` of a prompt is called: by its key, or where there is none by its tokens
    /// and its namespace, which others may share.
    fn name_of_row(&self, keys: &[Key], tokens: &[u32], root: Key, at: usize) -> Option<Key> {
        if self.store.index().takes_keys() {
            return keys.get(at).copied();
        }
        let size = self.block_size() as usize;
        Some(self.transfers.computing().name(root, tokens.get(at * size..(at + 1) * size)?))
    }

    /// A load of `seq` can be found by the first block that it brings.
    pub(super) fn name_load(&mut self, seq: SeqId, ticket: u64, start: u32) {
        let Ok(Sequence { keys, tokens, root, .. }) = self.sequences.get(seq) else { return };
        if let Some(name) = self.name_of_row(keys, tokens, *root, start as usize) {
            self.transfers.name_load(ticket, name);
        }
    }

    /// The sequence that a load is for, or who stands in for it.
    fn owner_of(&self, load: LoadTicket) -> Option<&Sequence> {
        let (_, pages) = self.transfers.tickets().load(load.ticket)?;
        let seq = pages.first()?.seq;
        let candidates = [Some(seq), self.transfers.orphans().get(load.ticket)];
        let mut live = candidates.into_iter().flatten();
        live.find_map(|seq| self.sequences.get(seq).ok())
    }

    /// Rows at the front of `sequence`, the last of them being loaded, that are those wanted; `None` if
    /// the load brings none of them.
    fn loading_rows(
        &self,
        wanted: PrefixQuery<'_>,
        sequence: &Sequence,
        load: LoadTicket,
    ) -> Option<usize> {
        let size = self.block_size() as usize;
        // A public block that is being computed is its tenant's still.
        let is_others = sequence.public > 0 && self.store.serves_another(sequence.meta.tenant);
        if sequence.private || is_others || sequence.root != wanted.root {
            return None;
        }
        let start = load.start as usize;
        let most = if self.store.index().takes_keys() { wanted.keys.len() } else { wanted.limit };
        let limit = wanted.limit.min(most).min(start + load.blocks as usize);
        let rows = self.same_rows(wanted, sequence, limit);
        if rows <= start {
            return None;
        }
        let text = rows * size;
        if self.store.index().wants_proof()
            && sequence.tokens.get(..text) != wanted.tokens.get(..text)
        {
            return None;
        }
        let (_, pages) = self.transfers.tickets().load(load.ticket)?;
        let groups = self.options.groups.len();
        let brought = pages.chunks(groups).zip(start..rows).all(|(row, at)| {
            row.iter().zip(&sequence.tables).all(|(copy, table)| table.get(at) == Some(&copy.dst))
        });
        let findable = |block: BlockId| block == NIL || self.pool().is_findable(block);
        let good = sequence.tables.iter().all(|table| {
            table.len() >= rows && table[..start].iter().all(|&block| findable(block))
        });
        // If nothing of the load is good, the joined sequence goes on from the blocks before it.
        let serves = self.layout.groups().iter().zip(&sequence.tables).all(|(reach, table)| {
            let gone = reach.gone((start * size) as u32);
            (0..start).all(|i| gone.contains(&i) || table[i] != NIL)
        });
        (brought && good && serves).then_some(rows)
    }

    /// `seq`, which owns them, waits for blocks `good` to `rows` with the load of `ticket`; tokens of
    /// them.
    pub(in crate::manager) fn join_load(
        &mut self,
        seq: SeqId,
        ticket: u64,
        good: u32,
        rows: u32,
    ) -> u32 {
        let size = self.block_size();
        let sequence = self.created(seq);
        sequence.brought = sequence.brought.max(rows * size);
        let joined = (rows - good) * size;
        self.store.stats_mut().joined_tokens += u64::from(joined);
        self.store.note_two(Kind::Join, seq, ticket, u64::from(joined));
        joined
    }
}
