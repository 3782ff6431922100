//! Raw blocks, for engines that keep their own tables or need scratch pages.

use crate::error::{Error, Result};
use crate::manager::Manager;
use crate::pool::BlockId;

/// Why a block that a caller names cannot be meant.
pub(super) const NO_SUCH: &str = "the pool has no such block";

impl Manager {
    /// [`Manager::take_for`] of no tenant.
    ///
    /// # Errors
    /// As there.
    pub fn take(&mut self, out: &mut [BlockId]) -> Result<()> {
        self.take_for(b"", out)
    }

    /// Fills `out` with blocks taken from the pool, which are `tenant`'s; takes all of them or none.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::NeedVictims`].
    pub fn take_for(&mut self, tenant: &[u8], out: &mut [BlockId]) -> Result<()> {
        let count = u32::try_from(out.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(());
        }
        let tenant = self.tenant_number(tenant);
        self.check_room(count, 0, tenant)?;
        self.store.serve(tenant);
        self.store.tick();
        self.store.lend(out)
    }

    /// How many blocks [`Manager::take_for`] could get now.
    pub fn available_to(&self, tenant: &[u8]) -> u32 {
        if self.capacity.is_asleep() { 0 } else { self.store.available(self.tenant_number(tenant)) }
    }

    /// Takes blocks back, or none if any of them is not on loan. The first is lent again first.
    ///
    /// # Errors
    /// [`Error::NotLent`] for an unknown id, one that is not on loan, or one named twice.
    pub fn free(&mut self, blocks: &[BlockId]) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let (ended, others) = blocks.split_at(self.store.end_loans(blocks));
        if let Some(&block) = others.first() {
            self.store.mark_lent(ended);
            return Err(self.not_lent(block, ended.contains(&block).then_some("it is named twice")));
        }
        self.store.tick();
        self.store.take_back(blocks);
        Ok(())
    }

    /// `known`: what the caller can say of the reason.
    pub(super) fn not_lent(&self, block: BlockId, known: Option<&'static str>) -> Error {
        let why = if let Some(known) = known {
            known
        } else if block >= self.pool().capacity() {
            NO_SUCH
        } else if self.pool().generation(block) > 0 {
            "it was given back before: a double free"
        } else {
            "it was never taken"
        };
        Error::NotLent { block: u64::from(block), state: self.pool().state(block).name(), why }
    }
}
