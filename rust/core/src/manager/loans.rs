//! Raw blocks, for engines that keep their own tables or need scratch pages.

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::{BlockId, State};

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
        self.tick += 1;
        self.stats.lent += u64::from(count);
        let free = out.len().min(self.pool.free() as usize);
        let (had, evicted) = out.split_at_mut(free);
        self.pool.lend_all(had);
        for &mut block in had {
            self.note_lent(block);
        }
        for slot in evicted {
            if let Some(victim) = self.next_victim() {
                self.evict(victim);
            }
            *slot = self.pool.lend().ok_or_else(|| {
                Error::Integrity("room for a loan was counted and is gone".into())
            })?;
            self.note_lent(*slot);
        }
        Ok(())
    }

    #[inline]
    fn note_lent(&mut self, block: BlockId) {
        // It may be published by itself.
        self.policy.take(block);
        self.note_block(Kind::Take, 0, block, 0);
    }

    /// Takes blocks back, or none if any of them is not on loan. The first is lent again first.
    ///
    /// # Errors
    /// [`Error::NotLent`] for an unknown id, one that is not on loan, or one named twice.
    pub fn free(&mut self, blocks: &[BlockId]) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        for (i, &block) in blocks.iter().enumerate() {
            if self.pool.refs_or_none(block) != Some(1) || self.pool.state(block) != State::Lent {
                self.undo_marks(&blocks[..i]);
                return Err(self.not_lent(block, blocks[..i].contains(&block)));
            }
            // Marks the id as seen, so that naming it twice is caught in one pass.
            self.pool.end_loan(block);
        }
        self.tick += 1;
        self.stats.returned += blocks.len() as u64;
        self.pool.put_all_back(blocks);
        self.note_blocks(Kind::Return, 0, blocks.iter().rev(), 0);
        Ok(())
    }

    fn undo_marks(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.pool.mark_lent(block);
        }
    }

    pub(super) fn not_lent(&self, block: BlockId, twice: bool) -> Error {
        let why = if twice {
            "it is named twice"
        } else if block >= self.pool.capacity() {
            NO_SUCH
        } else if self.pool.generation(block) > 0 {
            "it was given back before: a double free"
        } else {
            "it was never lent"
        };
        Error::NotLent { block: u64::from(block), state: self.pool.state(block).name(), why }
    }
}
