//! Transfers of pages into a tier and out of it.
//!
//! ```text
//!             end(all good)
//!   in flight ─────────────▶ done      its pages can be had
//!      │  │
//!      │  └── end(fewer) ──▶ failed    what is not good is forgotten, and all that follows it
//!      ▼
//!   cancelled ── end ─────▶ gone       not findable from now on; reserved until its mover ends
//! ```

use std::collections::HashSet;

use super::pages::{EvictedPages, TierPages};
use crate::error::{Error, Result};
use crate::pool::BlockId;
use crate::tenants::OTHERS;

/// What a tier has done, in pages where nothing else is said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TierStats {
    /// Came in and can be had.
    pub stored: u64,
    /// Were read and good.
    pub loaded: u64,
    /// Did not come in.
    pub failed_stores: u64,
    /// Were promised and could not be read, or were not what they should be.
    pub failed_loads: u64,
    /// Transfers given up by the caller.
    pub cancelled: u64,
    /// Transfers whose time was up.
    pub late: u64,
    /// Made room for others.
    pub evicted: u64,
    /// Of the evicted pages, those that the tier below did not have.
    pub unbacked: u64,
    /// Were forgotten: failed, invalidated, or after one that was.
    pub forgotten: u64,
    /// Transfers refused for want of room, or because too much was on its way.
    pub refused: u64,
}

impl TierStats {
    /// Each by its name.
    pub fn named(self) -> [(&'static str, u64); 10] {
        [
            ("stored", self.stored),
            ("loaded", self.loaded),
            ("failed_stores", self.failed_stores),
            ("failed_loads", self.failed_loads),
            ("cancelled", self.cancelled),
            ("late", self.late),
            ("evicted", self.evicted),
            ("unbacked", self.unbacked),
            ("forgotten", self.forgotten),
            ("refused", self.refused),
        ]
    }
}

/// Pages on their way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub ticket: u64,
    /// Into the tier, rather than out of it.
    pub store: bool,
    /// Owned until the end: the prefix, and the pages that move as its last ones.
    pub chain: Vec<BlockId>,
    /// How many of the last ones move.
    pub moving: u32,
    /// Parts (keys and values, ranks) whose mover has not ended yet.
    pub parts: u32,
    /// Of the pages that move, the number at the front that are good in every part that has ended.
    pub good: u32,
    pub cancelled: bool,
    /// When it is late, by the caller's clock.
    pub deadline: Option<u64>,
}

impl Transfer {
    /// Its pages are to be had when it has ended.
    pub fn is_coming(&self) -> bool {
        self.store && self.parts > 0 && !self.cancelled
    }

    pub fn moves(&self) -> &[BlockId] {
        &self.chain[self.chain.len() - self.moving as usize..]
    }
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferResult {
    /// Whether every part has.
    pub whole: bool,
    /// Pages that are good in all of them, from the first that moved.
    pub good: u32,
    /// Keys that are forgotten, each after those that follow it: their bytes are worth nothing.
    pub forgotten: EvictedPages,
}

impl TierPages {
    /// A part of a transfer has ended with its first `good` pages good. With the last part, what is
    /// good in all of them counts; the rest is forgotten, unless it was only not read in time
    /// (`keep`).
    ///
    /// # Errors
    /// [`Error::UnknownTicket`]; [`Error::Invalid`] for more than moved.
    pub fn end(&mut self, ticket: u64, good: u32, keep: bool) -> Result<TransferResult> {
        let at = self.position(ticket)?;
        let transfer = &mut self.transfers[at];
        if good > transfer.moving {
            return Err(Error::Invalid {
                what: "good",
                value: good.to_string(),
                limit: format!("the ticket is for {} pages", transfer.moving),
            });
        }
        transfer.good = transfer.good.min(good);
        transfer.parts -= 1;
        if transfer.parts > 0 {
            return Ok(TransferResult::default());
        }
        let (store, cancelled, good) = (transfer.store, transfer.cancelled, transfer.good);
        let (fine, bad) = transfer.moves().split_at(good as usize);
        let (fine, bad) = (fine.to_vec(), bad.to_vec());
        self.moving -= fine.len() as u32 + bad.len() as u32;
        let mut ended = TransferResult { whole: true, good: 0, forgotten: Vec::new() };
        if !cancelled {
            for &page in &fine {
                // A page whose parent failed meanwhile is forgotten already.
                let found = self.tier.pool().is_findable(page);
                if store && found {
                    self.stored[page as usize] = true;
                    self.note_stored(page);
                }
                ended.good += u32::from(found);
            }
            let count = if store { &mut self.stats.stored } else { &mut self.stats.loaded };
            *count += u64::from(ended.good);
            if store {
                self.stats.failed_stores += bad.len() as u64;
            } else {
                self.stats.failed_loads += bad.len() as u64;
            }
            if let Some(&first) = bad.first()
                && (store || !keep)
                && self.tier.pool().is_findable(first)
            {
                ended.forgotten = self.forget_from(first);
            }
        }
        self.retire()?;
        Ok(ended)
    }

    /// Gives a transfer up: the pages on their way in are no longer findable. They stay reserved
    /// until the mover reports its end with `end`.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`] if it has ended, or was given up before.
    pub fn cancel(&mut self, ticket: u64) -> Result<EvictedPages> {
        let at = self.position(ticket)?;
        let transfer = &mut self.transfers[at];
        if transfer.cancelled {
            return Err(Error::UnknownTicket(ticket));
        }
        transfer.cancelled = true;
        self.stats.cancelled += 1;
        let first = transfer.moves().first().copied().filter(|_| transfer.store);
        let first = first.filter(|&page| self.tier.pool().is_findable(page));
        let forgotten = first.map_or_else(Vec::new, |first| self.forget_from(first));
        self.retire()?;
        Ok(forgotten)
    }

    /// When a transfer is late, by the caller's clock.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn set_deadline(&mut self, ticket: u64, at: u64) -> Result<()> {
        let place = self.position(ticket)?;
        self.transfers[place].deadline = Some(at);
        Ok(())
    }

    /// Gives up the transfers whose time has come; their tickets, and what is forgotten with them.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn expire_until(&mut self, now: u64) -> Result<(Vec<u64>, EvictedPages)> {
        let due =
            |t: &&Transfer| t.parts > 0 && !t.cancelled && t.deadline.is_some_and(|at| at <= now);
        let late: Vec<u64> = self.transfers.iter().filter(due).map(|t| t.ticket).collect();
        let mut forgotten = Vec::new();
        for &ticket in &late {
            forgotten.extend(self.cancel(ticket)?);
            self.stats.cancelled -= 1;
            self.stats.late += 1;
        }
        Ok((late, forgotten))
    }

    /// How many pages move in a transfer that has not ended.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn moving_of(&self, ticket: u64) -> Result<u32> {
        self.position(ticket).map(|at| self.transfers[at].moving)
    }

    /// The index of a transfer that has not ended. Ended transfers may still be in the list until they
    /// retire; they are not found.
    fn position(&self, ticket: u64) -> Result<usize> {
        let found = self.transfers.iter().position(|t| t.ticket == ticket && t.parts > 0);
        found.ok_or(Error::UnknownTicket(ticket))
    }

    /// Releases what ended transfers own, in the order of their tickets, so that recency follows
    /// the requests and not the speed of the movers. A cancelled transfer does not delay those
    /// after it, nor does one of another tenant.
    fn retire(&mut self) -> Result<()> {
        let (mut at, mut waits) = (0, HashSet::new());
        while at < self.transfers.len() {
            let front = &self.transfers[at];
            let tenant = front.chain.first().map_or(OTHERS, |&page| self.tier.pool().tenant(page));
            if front.parts == 0 && !waits.contains(&tenant) {
                if let Some(ended) = self.transfers.remove(at) {
                    self.tier.let_go(&ended.chain)?;
                }
                continue;
            }
            if front.parts > 0 && !front.cancelled {
                waits.insert(tenant);
                if waits.len() == self.accounts().len().max(1) {
                    break;
                }
            }
            at += 1;
        }
        Ok(())
    }
}
