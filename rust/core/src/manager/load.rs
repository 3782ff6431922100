//! KV that comes from elsewhere (a lower tier, another engine's prefill), and KV that goes there.

use super::Manager;
use crate::error::{Error, Result};
use crate::groups::GroupKind;
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};
use crate::tickets::Copy;

impl Manager {
    /// Opens the ticket of `blocks` blocks after the first `found` ones, which somebody fills.
    /// Until it is settled they are findable by nobody, even if their sequence ends.
    pub(super) fn open_load(&mut self, seq: SeqId, found: u32, blocks: u32) -> u64 {
        let tables = &self.created(seq).tables.clone();
        let mut copies = Vec::new();
        for row in (found..found + blocks).step_by(self.layout.unit() as usize) {
            for (group, at) in self.pages_of(row) {
                let tokens = self.layout.groups()[group].span;
                let (dst, group) = (tables[group][at], group as u8);
                copies.push(Copy { src: NIL, dst, tokens, seq, group });
            }
        }
        for copy in &copies {
            self.pool.share(copy.dst);
        }
        self.tickets.issue_load(found, blocks, copies)
    }

    /// The pages (group, place) of the units from `row` on that a hit comes in, group by group.
    fn pages_of(&self, row: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
        let unit = self.layout.unit();
        self.layout.groups().iter().enumerate().flat_map(move |(group, reach)| {
            // What another input's blocks hold does not come with the sequence's tokens.
            let end = if reach.kind == GroupKind::Cross { row } else { row + unit };
            (row / reach.units..end / reach.units).map(move |at| (group, at as usize))
        })
    }

    /// A load has ended: its first `blocks` blocks are good. They count as committed in every
    /// sequence that has them (its forks, too), which is cut to them if some are not. Returns the
    /// sequences that were cut.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`]; [`Error::Invalid`] for more blocks than were to be loaded.
    pub fn loaded(&mut self, ticket: u64, blocks: u32) -> Result<Vec<SeqId>> {
        let (unit, row_pages) = (self.layout.unit(), self.pages_of(0).count());
        let Some((load, pages)) = self.tickets.load(ticket) else {
            return Err(Error::UnknownTicket(ticket));
        };
        let all = load.blocks;
        if blocks > all {
            return Err(Error::Invalid {
                what: "loaded",
                value: blocks.to_string(),
                limit: format!("the ticket is for {all} blocks"),
            });
        }
        // Half of what all groups can serve together is none of it.
        let good = (blocks / unit) as usize * row_pages;
        let pages: Vec<BlockId> = pages[..good].iter().map(|copy| copy.dst).collect();
        let cut = if blocks / unit < all / unit {
            self.tickets.keep_only(ticket, good);
            self.failed(ticket)?
        } else {
            self.tickets.settle(ticket)?;
            self.tick += 1;
            Vec::new()
        };
        self.drop_owners(0, &pages);
        self.count_loaded(load.start, &pages)?;
        Ok(cut)
    }

    /// The sequences that own pages of a load, from its first on, have them computed.
    fn count_loaded(&mut self, start: u32, pages: &[BlockId]) -> Result<()> {
        let (unit, row_pages) = (self.layout.unit(), self.pages_of(0).count());
        let owned = |tables: &[Vec<BlockId>]| {
            let rows = pages.chunks(row_pages).zip((start..).step_by(unit as usize));
            rows.take_while(|&(row, first)| {
                let mut places = self.pages_of(first).zip(row);
                places.all(|((group, at), page)| tables[group].get(at) == Some(page))
            })
            .count() as u32
                * unit
        };
        let owners: Vec<(SeqId, u32)> = self
            .sequences
            .iter()
            .map(|(seq, s)| (seq, owned(&s.tables)))
            .filter(|&(_, blocks)| blocks > 0)
            .collect();
        let most = owners.iter().map(|&(_, blocks)| blocks).max().unwrap_or(0);
        self.stats.loaded_tokens += u64::from(most * self.block_size());
        for (seq, blocks) in owners {
            let upto = (start + blocks) * self.block_size();
            // It may have computed on behind the load already. Windows wait for its next commit: the
            // same step may cut it, and was checked against them as they are.
            let upto = upto.max(self.sequences.get(seq)?.committed);
            self.accept(seq, upto)?;
        }
        Ok(())
    }

    /// Holds the blocks of the first `upto` tokens of `seq` for a reader elsewhere, whatever
    /// becomes of the sequence; `done` with the ticket ends the lease. Returns the ticket.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`] beyond what is computed; [`Error::Invalid`] while
    /// some of it is still being loaded, or where recurrent layers have no state of that length.
    pub fn lease(&mut self, seq: SeqId, upto: u32) -> Result<u64> {
        let sequence: &Sequence = self.sequences.get(seq)?;
        if upto > sequence.committed {
            let limit = u64::from(sequence.committed);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        if !self.holds_state(seq, upto)? {
            return Err(Error::Invalid {
                what: "lease",
                value: upto.to_string(),
                limit: "recurrent layers have no state after so many tokens that stays as it is"
                    .into(),
            });
        }
        // Another input is read with the first token, or not at all.
        let encoder = if upto > 0 { sequence.encoder_tokens } else { 0 };
        let blocks = |group| self.layout.table_len(group, upto, encoder);
        let held: Vec<BlockId> = sequence
            .tables
            .iter()
            .enumerate()
            .flat_map(|(group, table)| table[..blocks(group)].iter().rev())
            .copied()
            .filter(|&b| b != NIL)
            .collect();
        if held.iter().any(|&page| self.tickets.is_loading(page, &|_| false)) {
            return Err(Error::Invalid {
                what: "lease",
                value: upto.to_string(),
                limit: "some of it is still being loaded: settle its ticket first".into(),
            });
        }
        self.tick += 1;
        for &block in &held {
            self.pool.share(block);
        }
        Ok(self.tickets.lease(held))
    }
}
