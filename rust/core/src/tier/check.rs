//! Checks of a tier's state: its parts are compared with each other.

use super::TierPages;
use super::transfers::Transfer;
use crate::error::{Error, Result};
use crate::pool::{BlockId, NIL, State};

impl TierPages {
    /// Refuses unless every page of `pages` is on loan and named only once.
    pub(super) fn check_lent(&self, pages: &[BlockId]) -> Result<()> {
        for (i, &page) in pages.iter().enumerate() {
            let state = self.tier.pool().state(page);
            if state != State::Lent || pages[..i].contains(&page) {
                let (block, state) = (page.into(), state.name());
                return Err(Error::NotLent { block, state, why: "given back before, or twice" });
            }
        }
        Ok(())
    }

    /// Recounts keys, owners, prefixes and transfers: O(pages).
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.tier.check_integrity()?;
        let pool = self.tier.pool();
        let fault = |message: String| Err(Error::Integrity(message));
        let mut owners = vec![0u32; pool.created() as usize];
        for &page in self.transfers.iter().flat_map(|t| &t.chain) {
            owners[page as usize] += 1;
        }
        let (mut findable, mut lent) = (0, 0);
        for page in 0..pool.created() {
            let (state, refs) = (pool.state(page), owners[page as usize]);
            lent += u32::from(state == State::Lent);
            if state != State::Lent && pool.refs(page) != refs {
                let counted = pool.refs(page);
                return fault(format!("tier: page {page} has {counted} owners, {refs} transfers"));
            }
            if !pool.is_findable(page) {
                continue;
            }
            findable += 1;
            if self.by_key.get(&pool.key(page)) != Some(&page) {
                return fault(format!("tier: page {page} is not under its key"));
            }
            let parent = pool.parent(page);
            if parent != NIL && !pool.is_findable(parent) {
                return fault(format!("tier: page {page} is behind {parent}, which is gone"));
            }
            if parent != NIL && pool.depth(parent) + 1 != pool.depth(page) {
                return fault(format!("tier: page {page} is not one behind {parent}"));
            }
            if state == State::Cached && !self.stored[page as usize] {
                return fault(format!("tier: page {page} may be evicted and is not stored"));
            }
        }
        if findable != self.by_key.len() || lent != self.lent {
            let (keys, told) = (self.by_key.len(), self.lent);
            return fault(format!(
                "tier: {findable} pages under {keys} keys, {lent} lent and {told} counted"
            ));
        }
        let coming = self.transfers.iter().filter(|transfer| transfer.is_coming());
        let mut coming: Vec<BlockId> = coming.flat_map(Transfer::moves).copied().collect();
        coming.retain(|&page| pool.is_findable(page));
        coming.sort_unstable();
        let unstored = |&page: &BlockId| pool.is_findable(page) && !self.stored[page as usize];
        if !(0..pool.created()).filter(unstored).eq(coming) {
            return fault("tier: a page that is not here is on no way here, or the reverse".into());
        }
        let moving: u32 = self.transfers.iter().filter(|t| t.parts > 0).map(|t| t.moving).sum();
        if moving != self.moving {
            return fault(format!("tier: {moving} pages on their way, {} counted", self.moving));
        }
        Ok(())
    }
}
