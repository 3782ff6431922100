//! KV that comes from elsewhere (a lower tier, another engine's prefill), and KV that goes there.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};
use crate::sequence::{BlockTable, SeqId, Sequence};
use crate::transfers::BlockCopy;

impl Manager {
    /// Opens the ticket of `blocks` blocks after the first `found` ones, which a load fills. Until
    /// the ticket is settled they are not findable, even if their sequence ends.
    pub(in crate::manager) fn open_load(&mut self, seq: SeqId, found: u32, blocks: u32) -> u64 {
        let tables = &self.created(seq).tables.clone();
        let mut copies = Vec::new();
        for row in (found..found + blocks).step_by(self.layout.unit() as usize) {
            for (group, at) in self.pages_of(row) {
                let tokens = self.layout.groups()[group].span;
                let (dst, group) = (tables[group][at], group as u8);
                copies.push(BlockCopy { src: NIL, dst, tokens, seq, group });
            }
        }
        self.created(seq).brought = (found + blocks) * self.block_size();
        let ticket = self.transfers.open_load(&mut self.store, (found, blocks), None, copies);
        self.name_load(seq, ticket, found);
        self.store.note_two(Kind::Load, seq, ticket, u64::from(blocks));
        ticket
    }

    /// Every block (group, index in its table) of the reusable unit that starts at `row`, group by group.
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
        let all = self.check_loaded(ticket, blocks)?;
        let Some((load, pages)) = self.transfers.tickets().load(ticket) else {
            return Err(Error::UnknownTicket(ticket));
        };
        // Only whole units can be reused: a last one that came in part is dropped.
        let good = (blocks / unit) as usize * row_pages;
        let opened_for = pages.first().map_or(0, |copy| copy.seq);
        let pages: Vec<BlockId> = pages[..good].iter().map(|copy| copy.dst).collect();
        let seq = self.transfers.orphans().get(ticket).unwrap_or(opened_for);
        self.store.note_two(Kind::Loaded, 0, ticket, u64::from(blocks));
        let sharers = pages
            .first()
            .map_or(Vec::new(), |&page| self.transfers.tickets().sharers(page).collect());
        let cut = if blocks / unit < all / unit {
            self.transfers.keep_only(ticket, good);
            self.lose(ticket)?
        } else {
            self.transfers.settle(ticket)?;
            self.store.tick();
            self.store.stats_mut().loads += 1;
            Vec::new()
        };
        self.store.drop_owners(0, &pages);
        self.count_loaded(seq, load.start, &pages, sharers)?;
        self.end_orphans(ticket)?;
        Ok(cut)
    }

    /// How many blocks the load is of, of which the first `blocks` are to be good.
    pub(in crate::manager) fn check_loaded(&self, ticket: u64, blocks: u32) -> Result<u32> {
        let load = self.transfers.tickets().load(ticket).filter(|(load, _)| load.filler.is_none());
        let (load, _) = load.ok_or(Error::UnknownTicket(ticket))?;
        if blocks <= load.blocks {
            return Ok(load.blocks);
        }
        Err(Error::Invalid {
            what: "loaded",
            value: blocks.to_string(),
            limit: format!("the ticket is for {} blocks", load.blocks),
        })
    }

    /// `loaded` where the groups of a load came to different lengths: all go as far as the shortest.
    ///
    /// # Errors
    /// As [`Manager::loaded`]; [`Error::Invalid`] for another number of groups.
    pub fn loaded_groups(&mut self, ticket: u64, blocks: &[u32]) -> Result<Vec<SeqId>> {
        let groups = self.options.groups.len();
        let most = blocks.iter().copied().max().unwrap_or(0);
        let all = self.transfers.tickets().load(ticket).map_or(most, |(load, _)| load.blocks);
        if blocks.len() != groups || most > all {
            return Err(Error::Invalid {
                what: "loaded",
                value: if blocks.len() == groups {
                    format!("{blocks:?}")
                } else {
                    format!("{} numbers", blocks.len())
                },
                limit: format!("the ticket is for {all} blocks in each of {groups} layer groups"),
            });
        }
        self.loaded(ticket, blocks.iter().copied().min().unwrap_or(0))
    }

    /// The sequences that own pages of a load, from its first on, have them computed.
    fn count_loaded(
        &mut self,
        seq: SeqId,
        start: u32,
        pages: &[BlockId],
        sharers: Vec<SeqId>,
    ) -> Result<()> {
        let (unit, row_pages) = (self.layout.unit(), self.pages_of(0).count());
        let owned = |tables: &[BlockTable]| {
            let rows = pages.chunks(row_pages).zip((start..).step_by(unit as usize));
            rows.take_while(|&(row, first)| {
                let mut places = self.pages_of(first).zip(row);
                places.all(|((group, at), page)| tables[group].get(at) == Some(page))
            })
            .count() as u32
                * unit
        };
        // Every owner of one of the pages owns the first one, too.
        let first = self.pages_of(start).next().zip(pages.first());
        let holders = first.map_or(Vec::new(), |((group, _), &page)| {
            self.holders(page, group as u8, seq, self.transfers.tickets().holds(page), sharers)
        });
        let tables = |seq| self.sequences.get(seq).map(|s| owned(&s.tables));
        let owners = holders.into_iter().map(|(seq, _)| Ok((seq, tables(seq)?)));
        let mut owners = owners.collect::<Result<Vec<(SeqId, u32)>>>()?;
        owners.retain(|&(_, blocks)| blocks > 0);
        let most = owners.iter().map(|&(_, blocks)| blocks).max().unwrap_or(0);
        let brought = u64::from(most * self.block_size());
        self.store.stats_mut().loaded_tokens += brought;
        self.store.note(Kind::Bring, 0, brought);
        for (seq, blocks) in owners {
            let upto = (start + blocks) * self.block_size();
            // It may have computed on behind the load already. Windows wait for its next commit: the
            // same step may cut it, and was checked against them as they are.
            let sequence = self.sequences.get_mut(seq)?;
            let usage = &mut sequence.usage;
            // What another one's load brought is counted as joined.
            if usage.joined == 0 || start * self.options.block_size >= usage.read + usage.joined {
                usage.loaded = blocks * self.options.block_size;
            }
            let upto = upto.max(sequence.committed);
            self.accept(seq, upto, (Kind::Land, 0))?;
        }
        Ok(())
    }

    /// Holds the blocks of the first `upto` tokens of `seq` for a reader elsewhere, whatever
    /// becomes of the sequence; `done` with the ticket ends the lease. Returns the ticket.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] beyond what is computed, while some of it is still being loaded, or where recurrent layers have no state of that length.
    pub fn lease(&mut self, seq: SeqId, upto: u32) -> Result<u64> {
        let sequence: &Sequence = self.sequences.get(seq)?;
        sequence.check_computed(upto)?;
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
        if held
            .iter()
            .any(|&page| self.transfers.tickets().is_loading(page, sequence.joined, &|_| false))
        {
            return Err(Error::Invalid {
                what: "lease",
                value: upto.to_string(),
                limit: "some of it is still being loaded: settle its ticket first".into(),
            });
        }
        self.store.tick();
        self.store.stats_mut().leases += 1;
        self.store.stats_mut().leased_tokens += u64::from(upto);
        let ticket = self.transfers.lease(&mut self.store, held);
        self.store.note_two(Kind::Lease, seq, u64::from(upto), ticket);
        Ok(ticket)
    }
}
