//! Loads that outlive their sequence: what they bring is cached, if it is good.

use crate::error::Result;
use crate::events::Kind;
use crate::manager::Manager;
use crate::sequence::SeqId;

impl Manager {
    /// If a load for `seq`, which ends, is still under way, a stand-in keeps its place in the prefix
    /// until the load is settled.
    pub(in crate::manager) fn leave_orphan(&mut self, seq: SeqId) -> Result<()> {
        let Some((ticket, tokens)) = self.stays_for_load(seq)? else { return Ok(()) };
        let orphan = self.share_all(seq)?;
        self.rewind(orphan, tokens)?;
        self.store.note_two(Kind::StandIn, orphan, seq, u64::from(tokens));
        self.transfers.add_orphan(ticket, orphan);
        Ok(())
    }

    /// The load of a sequence that outlasts it, and the tokens at its front that stay for it.
    pub(in crate::manager) fn stays_for_load(&self, seq: SeqId) -> Result<Option<(u64, u32)>> {
        let sequence = self.sequences.get(seq)?;
        if sequence.private || !self.transfers.tickets().has_loads() {
            return Ok(None);
        }
        let Some(load) = self.transfers.tickets().load_for(seq) else { return Ok(None) };
        let end = (load.start + load.blocks) * self.block_size();
        let good = self.whole_units(end.min(sequence.len));
        // Where a window moved on meanwhile, nothing could be found that far.
        let stays = good > load.start * self.block_size() && self.last_good(seq, good)? == good;
        Ok(stays.then_some((load.ticket, good)))
    }

    /// A ticket is settled: the stand-in of its sequence ends.
    pub(in crate::manager) fn end_orphans(&mut self, ticket: u64) -> Result<()> {
        match self.transfers.take_orphan(ticket) {
            Some(orphan) => self.release(orphan),
            None => Ok(()),
        }
    }
}
