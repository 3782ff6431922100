//! Which slot a prompt goes into, and where its prefix comes from.

use std::cmp::Reverse;

use super::Slots;
use crate::error::{Error, Result};
use crate::hash::Key;

/// The slot that a prompt gets, and the slot that has its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotChoice {
    /// Its slot.
    pub into: u32,
    /// The slot that has its prefix: `into` itself, or one to copy from.
    pub from: Option<u32>,
    /// The prefix's tokens.
    pub tokens: u32,
}

impl Slots {
    /// Chooses the slot for a prompt. If an idle slot holds nothing beyond the prompt's longest cached
    /// prefix, the prompt goes on in it. Otherwise it gets the lowest empty slot, or else the policy's
    /// victim.
    ///
    /// # Errors
    /// [`Error::NoSlot`], [`Error::NeedVictims`].
    pub(super) fn choose(&mut self, root: Key, prompt: &[u32]) -> Result<SlotChoice> {
        let mut sharers = std::mem::take(&mut self.sharers);
        let most = &prompt[..prompt.len() - 1];
        let tokens = self.order.longest(&self.all, root, most, &mut sharers);
        sharers.sort_unstable();
        let way = self.choose_among(&sharers, tokens);
        self.sharers = sharers;
        way
    }

    fn choose_among(&mut self, sharers: &[u32], tokens: u32) -> Result<SlotChoice> {
        let whole = sharers.iter().copied().find(|&at| {
            let slot = &self.all[at as usize];
            slot.is_idle() && slot.found == tokens
        });
        if let Some(slot) = whole {
            return Ok(SlotChoice { into: slot, from: Some(slot), tokens });
        }
        let into = match self.empty.peek() {
            Some(&Reverse(slot)) => slot,
            None => match self.policy.next(&[])? {
                Some(block) => self.slot_of[block as usize],
                None => return Err(Error::NoSlot { slots: self.all.len() as u64 }),
            },
        };
        if sharers.contains(&into) {
            return Ok(SlotChoice { into, from: Some(into), tokens });
        }
        // A live slot goes on being written behind the prefix, which does not matter to a copy.
        let from = sharers.first().copied().filter(|_| tokens >= self.least_copy);
        Ok(SlotChoice { into, from, tokens: if from.is_some() { tokens } else { 0 } })
    }
}
