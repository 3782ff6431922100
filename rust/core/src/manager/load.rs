//! KV that comes from elsewhere (a lower tier, another engine's prefill), and KV that goes there.

use super::Manager;
use crate::error::{Error, Result};
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};
use crate::tickets::Copy;

impl Manager {
    /// Opens the ticket of `blocks` blocks after the first `found` ones, which somebody fills.
    /// Until it is settled they are findable by nobody, even if their sequence ends.
    pub(super) fn open_load(&mut self, seq: SeqId, found: u32, blocks: u32) -> u64 {
        let tables = &self.created(seq).tables.clone();
        let mut copies = Vec::new();
        for i in found..found + blocks {
            for (group, table) in tables.iter().enumerate() {
                let dst = table[i as usize];
                let (tokens, group) = (self.options.block_size, group as u8);
                copies.push(Copy { src: NIL, dst, tokens, seq, group });
            }
        }
        for copy in &copies {
            self.pool.share(copy.dst);
        }
        self.tickets.issue(copies)
    }

    /// A load has ended: its first `blocks` blocks are good. They count as committed; the sequence
    /// is cut to them if some are not. Returns the sequences that were cut.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`]; [`Error::Invalid`] for more blocks than were to be loaded.
    pub fn loaded(&mut self, ticket: u64, blocks: u32) -> Result<Vec<SeqId>> {
        let groups = self.options.groups.len() as u32;
        let Some(plan) = self.tickets.load(ticket) else {
            return Err(Error::UnknownTicket(ticket));
        };
        let all = plan.copies.len() as u32 / groups;
        if blocks > all {
            return Err(Error::Invalid {
                what: "loaded",
                value: blocks.to_string(),
                limit: format!("the ticket is for {all} blocks"),
            });
        }
        let good: Vec<Copy> = plan.copies[..(blocks * groups) as usize].to_vec();
        let cut = if blocks < all {
            self.tickets.keep_only(ticket, (blocks * groups) as usize);
            self.failed(ticket)?
        } else {
            self.tickets.settle(ticket)?;
            self.tick += 1;
            Vec::new()
        };
        let pages: Vec<BlockId> = good.iter().map(|copy| copy.dst).collect();
        self.drop_owners(0, &pages);
        if let Some(last) = good.last() {
            self.count_loaded(last)?;
        }
        Ok(cut)
    }

    /// The sequence, if it is still there, has computed nothing of what was loaded but owns it.
    fn count_loaded(&mut self, last: &Copy) -> Result<()> {
        let size = self.options.block_size;
        let Ok(sequence) = self.sequences.get_mut(last.seq) else { return Ok(()) };
        let table = &sequence.tables[last.group as usize];
        let Some(at) = table.iter().position(|&b| b == last.dst) else { return Ok(()) };
        let upto = (at as u32 + 1) * size;
        self.stats.loaded_tokens += u64::from(upto.saturating_sub(sequence.committed));
        if upto > sequence.committed {
            return self.commit(last.seq, upto).map(drop);
        }
        self.publish(last.seq).map(drop)
    }

    /// Holds the blocks of the first `upto` tokens of `seq` for a reader elsewhere, whatever
    /// becomes of the sequence; `done` with the ticket ends the lease. Returns the ticket.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`] beyond what is computed.
    pub fn lease(&mut self, seq: SeqId, upto: u32) -> Result<u64> {
        let sequence: &Sequence = self.sequences.get(seq)?;
        if upto > sequence.committed {
            let limit = u64::from(sequence.committed);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        let blocks = self.blocks_for(upto) as usize;
        let held: Vec<BlockId> = sequence
            .tables
            .iter()
            .flat_map(|table| table[..blocks].iter().rev())
            .copied()
            .filter(|&b| b != NIL)
            .collect();
        self.tick += 1;
        for &block in &held {
            self.pool.share(block);
        }
        Ok(self.tickets.lease(held))
    }
}
