//! Hints on sessions that go on, pause or end.

use std::collections::HashSet;

use crate::error::Result;
use crate::events::Kind;
use crate::manager::Manager;
use crate::manager::retain::lock::{PinRequest, PinResult};
use crate::pool::{BlockId, NIL};
use crate::retention::{Decay, Hint, HintResult, HintStatus, Keep};

impl Manager {
    /// Takes a hint on `session`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a priority over 100.
    pub fn hint(&mut self, session: u64, hint: Hint) -> Result<HintResult> {
        hint.keep().validate()?;
        if !self.options.sessions {
            return Ok(reply(HintStatus::Refused, 0));
        }
        let pinned = hint == Hint::Release && self.end_pins_of(session)? > 0;
        let running = self.store.sessions().is_running(session);
        if !running && self.store.blocks_of_session(session).is_empty() {
            return Ok(reply(if pinned { HintStatus::Accepted } else { HintStatus::Missing }, 0));
        }
        self.store.tick();
        self.note_hint(session, hint);
        let blocks = self.carry(session, hint);
        if !running {
            return Ok(reply(HintStatus::Accepted, blocks));
        }
        self.store.defer_hint(session, hint);
        Ok(reply(HintStatus::Deferred, blocks))
    }

    /// Pins what `session` alone has, and what that follows, the front first.
    ///
    /// # Errors
    /// [`crate::Error::NotFindable`] if its state names a block that is not findable: a defect.
    pub fn pin_session(&mut self, session: u64, pinner: PinRequest<'_>) -> Result<HintResult> {
        if !self.options.sessions {
            return Ok(reply(HintStatus::Refused, 0));
        }
        let mut path = self.path_of(session);
        if path.is_empty() {
            let running = self.store.sessions().is_running(session);
            return Ok(reply(if running { HintStatus::Deferred } else { HintStatus::Missing }, 0));
        }
        let (all, found, mut room) = (path.len(), self.tokens_in(&path), self.pin_room());
        path.sort_unstable_by_key(|&b| (self.pool().depth(b), self.pool().group(b), b));
        path.retain(|&block| {
            let fresh = self.locks.fresh(&[block]);
            let fits = fresh <= room;
            // What follows one that did not fit does not either.
            room = if fits { room - fresh } else { 0 };
            fits
        });
        self.drop_strays(&mut path);
        if path.is_empty() {
            return Ok(reply(HintStatus::Refused, 0));
        }
        path.sort_unstable_by_key(|&b| (self.pool().group(b), self.pool().depth(b), b));
        let receipt = self.lock_blocks(&path)?;
        let tokens = self.tokens_in(&path);
        self.name_lock(receipt, PinRequest { session, ..pinner }, tokens);
        let taken = if path.len() < all { HintStatus::Clipped } else { HintStatus::Accepted };
        let pin = Some(PinResult { receipt, tokens, found });
        Ok(HintResult { pin, ..reply(taken, path.len() as u32) })
    }

    /// A sequence of `session` has ended: what waited for that is done.
    pub(in crate::manager) fn end_in_session(&mut self, session: u64) {
        if let Some(hint) = self.store.end_session(session) {
            self.carry(session, hint);
        }
    }

    /// Does what `hint` says with all that `session` has given up; how many blocks that concerned.
    fn carry(&mut self, session: u64, hint: Hint) -> u32 {
        let own = self.store.blocks_of_session(session);
        if let Hint::Retain(keep) = hint {
            for block in self.before(&own) {
                self.store.ask_for(block, Some(keep), false);
            }
        }
        for &block in &own {
            self.store.force(block, hint.keep());
        }
        own.len() as u32
    }

    /// Tokens of the blocks of the first group.
    fn tokens_in(&self, path: &[BlockId]) -> u32 {
        let first = path.iter().filter(|&&block| self.pool().group(block) == 0).count();
        first as u32 * self.layout.groups()[0].span
    }

    fn path_of(&self, session: u64) -> Vec<BlockId> {
        let mut path = self.store.blocks_of_session(session);
        path.extend(self.before(&path));
        path
    }

    /// What `blocks` follow and are not themselves.
    fn before(&self, blocks: &[BlockId]) -> Vec<BlockId> {
        let mut seen: HashSet<BlockId> = blocks.iter().copied().collect();
        let mut before = Vec::new();
        for &block in blocks {
            let mut above = self.pool().parent(block);
            while above != NIL && seen.insert(above) {
                before.push(above);
                above = self.pool().parent(above);
            }
        }
        before
    }

    /// Leaves out what follows a block that was left out.
    fn drop_strays(&self, path: &mut Vec<BlockId>) {
        let mut kept: HashSet<BlockId> = HashSet::with_capacity(path.len());
        path.retain(|&block| {
            let parent = self.pool().parent(block);
            (parent == NIL || kept.contains(&parent)) && kept.insert(block)
        });
    }

    fn end_pins_of(&mut self, session: u64) -> Result<u32> {
        let of = self.locks.held_for(session);
        let receipts: Vec<_> = of.map(|held| held.receipt).collect();
        for &receipt in &receipts {
            self.unlock(receipt)?;
        }
        Ok(receipts.len() as u32)
    }

    fn note_hint(&mut self, session: u64, hint: Hint) {
        let (kind, Keep { priority, duration, then, decay }) = (number(hint), hint.keep());
        let linear = u64::from(decay == Decay::Linear);
        let packed = kind | u64::from(priority) << 8 | u64::from(then) << 16 | linear << 24;
        let words = duration.map(|duration| [duration as u32, (duration >> 32) as u32]);
        let words = words.as_ref().map_or(&[][..], |words| &words[..]);
        self.store.note_ids(Kind::Hint, 0, (session, packed), words);
    }
}

/// Its number in the log.
fn number(hint: Hint) -> u64 {
    match hint {
        Hint::Retain(_) => 0,
        Hint::Release => 1,
        Hint::Demote(_) => 2,
    }
}

fn reply(taken: HintStatus, blocks: u32) -> HintResult {
    HintResult { status: taken, blocks, pin: None }
}
