//! Joining a computation in flight: a sequence shares blocks that another one is computing for the
//! same prompt. They are a provisional hit until that sequence commits them. If it is cut or ends
//! before that, every sequence that joined is cut, too.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence};
use crate::transfers::{BlockCopy, LoadTicket};

/// What a sequence has vouched for: blocks of a ticket that are good now.
#[derive(Debug, Clone)]
pub(in crate::manager) struct ReadyBlocks {
    /// Place of the first of them.
    start: u32,
    /// In each place, a page of every group.
    pages: Vec<BlockId>,
    /// Who waits for them.
    joiners: Vec<SeqId>,
    /// Whether nothing of the ticket is left.
    whole: bool,
}

impl Manager {
    /// Refuses to join where the layers do not all go by the same rows of blocks.
    pub(in crate::manager) fn check_join(&self, join: bool) -> Result<()> {
        if !join {
            return Ok(());
        }
        let refused = |limit| Error::Invalid { what: "join", value: "true".into(), limit };
        self.layout.check_plain().map_err(refused)
    }

    /// Replaces `hits` by the blocks of the live sequence that has the longest common prefix with
    /// what is wanted, if that is longer and its end is being computed. The sequence, and how many
    /// of the blocks are findable already.
    pub(in crate::manager) fn find_computing(
        &self,
        wanted: PrefixQuery<'_>,
        hits: &mut [Vec<BlockId>],
    ) -> Option<(SeqId, u32)> {
        let found = hits.first().map_or(0, Vec::len);
        let (seq, rows, good) = if self.transfers.computing().is_on() {
            let offered = self.find_offered(wanted, found);
            debug_assert_eq!(offered, self.find_among_all(wanted, found), "as a search finds");
            offered?
        } else {
            self.find_among_all(wanted, found)?
        };
        for (found, table) in hits.iter_mut().zip(&self.sequences.get(seq).ok()?.tables) {
            found.clear();
            found.extend_from_slice(&table[..rows]);
        }
        Some((seq, good as u32))
    }

    /// The same before the first join: the sequence, blocks in common, and how many are findable.
    fn find_among_all(
        &self,
        wanted: PrefixQuery<'_>,
        found: usize,
    ) -> Option<(SeqId, usize, usize)> {
        let mut best = None;
        let mut longest = found;
        for (seq, sequence) in self.sequences.iter() {
            let Some((rows, good)) = self.shared_rows(wanted, seq, sequence) else { continue };
            // It computes again what is findable: its copies would stand apart from those.
            if rows > longest && good >= found {
                longest = rows;
                best = Some((seq, rows, good));
            }
        }
        best
    }

    /// Blocks at the front of a sequence that are those wanted, and how many of them are findable;
    /// `None` if none is being computed.
    pub(super) fn shared_rows(
        &self,
        wanted: PrefixQuery<'_>,
        seq: SeqId,
        sequence: &Sequence,
    ) -> Option<(usize, usize)> {
        let size = self.block_size() as usize;
        let most = if self.store.index().takes_keys() { wanted.keys.len() } else { wanted.limit };
        let limit = wanted.limit.min(most).min(sequence.len as usize / size);
        // A public block that is being computed is its tenant's still.
        let is_others = sequence.public > 0 && self.store.serves_another(sequence.meta.tenant);
        if sequence.private || is_others || sequence.root != wanted.root {
            return None;
        }
        let same = self.same_rows(wanted, sequence, limit);
        let text = same * size;
        if self.store.index().wants_proof()
            && sequence.tokens.get(..text) != wanted.tokens.get(..text)
        {
            return None;
        }
        let committed = sequence.committed as usize / size;
        let findable = |&i: &usize| {
            let entries = sequence.tables.iter().map(|table| table[i]);
            i < committed && entries.clone().all(|b| b == NIL || self.is_findable(b))
        };
        let good = (0..same).take_while(findable).count();
        let computing = |i: &usize| {
            let mut pages = sequence.tables.iter().map(|table| table[*i]);
            *i >= committed && pages.all(|page| self.is_computed_by(page, seq))
        };
        let rows = good + (good..same).take_while(computing).count();
        // If it is cut, the joined sequence goes on from the good blocks: every window must be
        // complete there.
        let serves = self.layout.groups().iter().zip(&sequence.tables).all(|(reach, table)| {
            let gone = reach.gone((good * size) as u32);
            (0..good).all(|i| gone.contains(&i) || table[i] != NIL)
        });
        (serves && rows > good).then_some((rows, good))
    }

    /// Blocks at the front of `sequence` that hold what is wanted, at most `limit`.
    pub(super) fn same_rows(
        &self,
        wanted: PrefixQuery<'_>,
        sequence: &Sequence,
        limit: usize,
    ) -> usize {
        if self.store.index().takes_keys() {
            let keys = sequence.keys.iter().zip(&wanted.keys[..limit]);
            return keys.take_while(|(a, b)| a == b).count();
        }
        if sequence.mm_items != wanted.mm_items {
            return 0;
        }
        // Ids that are still being computed are no ids yet, and one that came as keys has none.
        let known = sequence.tokens.iter().take(sequence.filled() as usize);
        let ids = known.zip(wanted.tokens);
        let same = ids.take_while(|(a, b)| a == b).count();
        (same / self.block_size() as usize).min(limit)
    }

    fn is_findable(&self, block: BlockId) -> bool {
        self.pool().state(block) == State::Committed
    }

    fn is_computed_by(&self, page: BlockId, seq: SeqId) -> bool {
        let pending = page != NIL && self.pool().state(page) == State::Pending;
        pending
            && (self.transfers.tickets().is_idle() || !self.transfers.tickets().is_busy(page, seq))
    }

    /// `seq` waits for what `filler` computes: its blocks from `good` to `rows`. Tokens of them.
    pub(in crate::manager) fn join(
        &mut self,
        seq: SeqId,
        filler: SeqId,
        good: u32,
        rows: u32,
    ) -> u32 {
        let tokens = self.options.block_size;
        let mut copies = Vec::new();
        for i in good..rows {
            for (group, table) in (0_u8..).zip(&self.created(seq).tables) {
                copies.push(BlockCopy { src: NIL, dst: table[i as usize], tokens, seq, group });
            }
        }
        let blocks = (good, rows - good);
        let ticket = self.transfers.open_load(&mut self.store, blocks, Some(filler), copies);
        self.created(seq).joined = ticket;
        self.transfers.add_joiner(ticket, seq);
        let joined = (rows - good) * self.block_size();
        self.store.stats_mut().joined_tokens += u64::from(joined);
        self.store.note_two(Kind::Join, seq, ticket, u64::from(joined));
        joined
    }

    /// `seq` has committed: what others joined of that is held for them no more.
    pub(in crate::manager) fn vouch(&mut self, seq: SeqId) -> Vec<ReadyBlocks> {
        let Ok(sequence) = self.sequences.get(seq) else { return Vec::new() };
        let committed = sequence.committed / self.block_size();
        let mine = self.transfers.tickets().joined_with(seq).into_iter();
        let mut vouched = Vec::new();
        for load in mine.filter(|load| load.start < committed) {
            let (ticket, start) = (load.ticket, load.start);
            let end = committed.min(start + load.blocks);
            let joiners = self.joiners(ticket);
            let pages = self.split(ticket, end - start, true);
            vouched.push(ReadyBlocks { start, pages, joiners, whole: end == start + load.blocks });
        }
        vouched
    }

    /// Marks the blocks as computed in each sequence that joined, up to the first that it has dropped since.
    pub(in crate::manager) fn notify_joiners(&mut self, vouched: Vec<ReadyBlocks>) -> Result<()> {
        let groups = self.options.groups.len();
        for ReadyBlocks { start, pages, joiners, whole } in vouched {
            for seq in joiners {
                let rows = pages.chunks(groups).zip(start as usize..);
                let kept = rows.take_while(|&(row, at)| self.has_row(seq, at, row)).count();
                let good = (start + kept as u32) * self.block_size();
                let sequence = self.sequences.get_mut(seq)?;
                if whole {
                    sequence.joined = 0;
                }
                if kept == 0 {
                    // Cut to before what it joined, it may have other slots there, not computed yet.
                    continue;
                }
                // It may have computed on behind already.
                let upto = good.min(sequence.len).max(sequence.committed);
                self.accept(seq, upto, (Kind::Land, 0))?;
            }
        }
        Ok(())
    }

    /// Whether the entries at `place` of the tables of `seq` are those.
    fn has_row(&self, seq: SeqId, place: usize, row: &[BlockId]) -> bool {
        self.sequences.get(seq).is_ok_and(|sequence| {
            sequence.tables.iter().zip(row).all(|(table, page)| table.get(place) == Some(page))
        })
    }

    /// If `seq` keeps `rows` whole blocks: the computations of it that others joined and that go on
    /// behind those, who of them still has what is lost, and the first place that is.
    pub(in crate::manager) fn left_alone(
        &self,
        seq: SeqId,
        rows: u32,
    ) -> Vec<(LoadTicket, Vec<SeqId>, u32)> {
        let groups = self.options.groups.len();
        let mine = self.transfers.tickets().joined_with(seq).into_iter();
        let lost = mine.filter(|load| load.start + load.blocks > rows);
        lost.map(|load| {
            let kept = rows.max(load.start);
            let pages =
                self.transfers.tickets().load(load.ticket).map_or(&[][..], |(_, pages)| pages);
            let first = (kept - load.start) as usize * groups;
            let row: Vec<BlockId> = pages[first..first + groups].iter().map(|c| c.dst).collect();
            let mut joiners = self.joiners(load.ticket);
            joiners.retain(|&joiner| self.has_row(joiner, kept as usize, &row));
            (load, joiners, kept)
        })
        .collect()
    }

    /// `seq` keeps `rows` whole blocks: who joined more of its computation is cut, and told.
    pub(in crate::manager) fn leave_joiners(&mut self, seq: SeqId, rows: u32) -> Result<()> {
        if !self.transfers.tickets().has_joined() {
            return Ok(());
        }
        for (load, joiners, kept) in self.left_alone(seq, rows) {
            if kept == load.start {
                for joiner in self.joiners(load.ticket) {
                    self.sequences.get_mut(joiner)?.joined = 0;
                    self.transfers.remove_joiner(load.ticket, joiner);
                }
            }
            for joiner in joiners {
                let good = self.last_good(joiner, kept * self.block_size())?;
                self.rewind(joiner, good)?;
                self.store.note(Kind::Rewind, joiner, u64::from(good));
                self.transfers.note_rewound(joiner);
            }
            self.split(load.ticket, kept - load.start, false);
        }
        Ok(())
    }

    /// `seq` ends. If no other sequence waits for the computation that it joined, the hold on those
    /// blocks ends, too.
    pub(in crate::manager) fn leave_computation(&mut self, seq: SeqId) -> Result<()> {
        let ticket = std::mem::take(&mut self.sequences.get_mut(seq)?.joined);
        if ticket > 0 {
            self.transfers.remove_joiner(ticket, seq);
            if self.transfers.tickets().joiners(ticket).next().is_none() {
                self.split(ticket, 0, false);
            }
        }
        Ok(())
    }

    pub(super) fn joiners(&self, ticket: u64) -> Vec<SeqId> {
        self.transfers.tickets().joiners(ticket).collect()
    }

    fn split(&mut self, ticket: u64, blocks: u32, front: bool) -> Vec<BlockId> {
        let blocks = (blocks, self.options.groups.len());
        self.transfers.split(&mut self.store, ticket, blocks, front)
    }

    /// A computation that other sequences joined, by the ticket in [`Sequence::joined`], and its
    /// pages.
    pub fn joined(&self, ticket: u64) -> Option<(LoadTicket, &[BlockCopy])> {
        self.transfers.tickets().load(ticket).filter(|(load, _)| load.filler.is_some())
    }

    /// Sequences that were cut since the last call because what they had joined was.
    pub fn take_rewound(&mut self) -> Vec<SeqId> {
        self.transfers.take_rewound()
    }
}
