//! Raw blocks, for engines that keep their own tables or need scratch pages.

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::BlockId;

/// Why a block that a caller names cannot be meant.
pub(super) const NO_SUCH: &str = "the pool has no such block";

impl Manager {
    /// Fills `out` with blocks taken from the pool; takes all of them or none.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    pub fn take(&mut self, out: &mut [BlockId]) -> Result<()> {
        let count = u32::try_from(out.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(());
        }
        self.check_room(count, 0)?;
        self.store.tick();
        self.store.stats.lent += u64::from(count);
        let free = out.len().min(self.store.pool.free() as usize);
        let (had, evicted) = out.split_at_mut(free);
        self.store.pool.lend_all(had);
        self.note_lent(had);
        for slot in evicted {
            if let Some(victim) = self.store.next_victim() {
                self.store.evict(victim);
            }
            *slot = self.store.pool.lend().ok_or_else(|| {
                Error::Integrity("room for a loan was counted and is gone".into())
            })?;
            self.note_lent(&[*slot]);
        }
        Ok(())
    }

    #[inline]
    fn note_lent(&mut self, blocks: &[BlockId]) {
        // They may be published by themselves.
        self.store.policy.take(blocks);
        self.store.note_blocks(Kind::Lend, 0, blocks.iter(), 0);
    }

    /// Takes blocks back, or none if any of them is not on loan. The first is lent again first.
    ///
    /// # Errors
    /// [`Error::NotLent`] for an unknown id, one that is not on loan, or one named twice.
    pub fn free(&mut self, blocks: &[BlockId]) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let (ended, others) = blocks.split_at(self.store.pool.end_loans(blocks));
        if let Some(&block) = others.first() {
            ended.iter().for_each(|&before| self.store.pool.mark_lent(before));
            return Err(self.not_lent(block, ended.contains(&block)));
        }
        self.store.tick();
        self.take_loans_back(blocks);
        Ok(())
    }

    /// Frees `blocks`, whose loans have ended; the first is lent again first.
    pub(super) fn take_loans_back(&mut self, blocks: &[BlockId]) {
        self.store.stats.returned += blocks.len() as u64;
        self.store.pool.put_all_back(blocks);
        self.store.note_blocks(Kind::Return, 0, blocks.iter().rev(), 0);
    }

    pub(super) fn not_lent(&self, block: BlockId, twice: bool) -> Error {
        let why = if twice {
            "it is named twice"
        } else if block >= self.store.pool.capacity() {
            NO_SUCH
        } else if self.store.pool.generation(block) > 0 {
            "it was given back before: a double free"
        } else {
            "it was never lent"
        };
        Error::NotLent { block: u64::from(block), state: self.store.pool.state(block).name(), why }
    }
}
