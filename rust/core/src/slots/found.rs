//! What is found of a slot: it follows what is committed, and the policy hears of it.

use std::cmp::Reverse;

use super::Slots;
use crate::error::Result;
use crate::hash::Key;
use crate::policy::RemovalCause;
use crate::pool::NIL;
use crate::tier::RequestInfo;

impl Slots {
    /// Brings what is found of a slot up to what is committed.
    pub(super) fn publish(&mut self, at: u32) -> Result<()> {
        let slot = &mut self.all[at as usize];
        let old = slot.found;
        if slot.filling || slot.private || slot.committed == old {
            return Ok(());
        }
        slot.found = slot.committed;
        if old > 0 {
            self.order.extend(&self.all, at, old);
            return Ok(());
        }
        let next_use = [slot.next_use];
        let known =
            RequestInfo { meta: slot.meta, tokens: slot.tokens.len() as u32, next_use: &next_use };
        // No two contents have the same name, so ghosts of one are never taken for another.
        let block = self.policy.insert(
            Key(self.handle(at).into()),
            self.all[at as usize].found - 1,
            known,
        )?;
        self.all[at as usize].block = Some(block);
        self.slot_of[block as usize] = at;
        self.order.insert(&self.all, at);
        Ok(())
    }

    /// Reduces what is found of a slot to its first `tokens` tokens.
    pub(super) fn shrink(&mut self, at: u32, tokens: u32) -> Result<()> {
        if tokens == 0 {
            return self.unfind(at, RemovalCause::Invalidated);
        }
        self.order.remove(at);
        self.all[at as usize].found = tokens;
        self.order.insert(&self.all, at);
        Ok(())
    }

    /// Nothing of a slot is found any more.
    pub(super) fn unfind(&mut self, at: u32, cause: RemovalCause) -> Result<()> {
        self.order.remove(at);
        let slot = &mut self.all[at as usize];
        slot.found = 0;
        slot.life += 1;
        slot.pinned.clear();
        let Some(block) = slot.block.take() else { return Ok(()) };
        self.slot_of[block as usize] = NIL;
        self.policy.remove(&[block], cause)
    }

    /// A slot that nothing needs any more becomes cached or empty.
    pub(super) fn let_go(&mut self, at: u32) -> Result<()> {
        let slot = &mut self.all[at as usize];
        if !slot.is_idle() {
            return Ok(());
        }
        slot.tokens.truncate(slot.found as usize);
        slot.committed = slot.found;
        slot.private = false;
        if let Some(block) = slot.block {
            return self.policy.release(&[block]);
        }
        self.empty.push(Reverse(at));
        Ok(())
    }
}
