//! Blocks on loan: taken from the pool and tracked by the caller.

use super::Store;
use crate::error::{Error, Result};
use crate::events::{EvictionCause, Kind};
use crate::pool::BlockId;
use crate::tenants::{Ledger, OTHERS};

impl Store {
    /// Fills `out` with blocks of the pool. The caller has checked that enough blocks can be had.
    ///
    /// # Errors
    /// [`Error::Integrity`] if it was not.
    pub(crate) fn lend(&mut self, out: &mut [BlockId]) -> Result<()> {
        self.stats.taken += out.len() as u64;
        // At its quota a tenant takes no free block: it evicts one of its own.
        let left = self.pool.ledger().map_or(u32::MAX, Ledger::left);
        let free = out.len().min(self.pool.free().min(left) as usize);
        let (had, evicted) = out.split_at_mut(free);
        self.stats.evictions_for_taken += evicted.len() as u64;
        self.pool.lend_all(had);
        for slot in evicted {
            let victim = self.next_victim().ok_or_else(|| {
                Error::Integrity("room for a loan was counted and is gone".into())
            })?;
            self.vacate(victim, EvictionCause::Taken);
            self.pool.relend(victim);
            *slot = victim;
        }
        self.note_lent(out);
        Ok(())
    }

    #[inline]
    fn note_lent(&mut self, blocks: &[BlockId]) {
        // The borrower may publish these blocks one by one, so the policy is told of them now.
        self.policy.take(blocks);
        let tenant = self.pool.ledger().map_or(OTHERS, Ledger::serving);
        self.note_blocks(Kind::Take, 0, blocks.iter(), tenant.into());
    }

    /// Ends the loans of `blocks` and stops at the first block that is not on loan, or was named before.
    /// Returns how many loans have ended. Those blocks are free once they are taken back.
    #[inline]
    pub(crate) fn end_loans(&mut self, blocks: &[BlockId]) -> usize {
        self.pool.end_loans(blocks)
    }

    /// Puts `blocks`, whose loans had ended, on loan again, because the call is refused.
    pub(crate) fn mark_lent(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.pool.mark_lent(block);
        }
    }

    /// Frees blocks whose loan has ended. The first is lent again first.
    pub(crate) fn take_back(&mut self, blocks: &[BlockId]) {
        self.stats.returned += blocks.len() as u64;
        self.pool.put_all_back(blocks);
        self.note_blocks(Kind::Return, 0, blocks.iter().rev(), 0);
    }

    /// Ends the loan of `block`, which belongs to the cache from now on.
    pub(crate) fn enter(&mut self, block: BlockId) {
        self.pool.enter(block);
    }
}
