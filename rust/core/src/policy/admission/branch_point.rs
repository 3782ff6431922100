//! States of recurrent layers are kept where prompts part, and at the end of each prompt.
//!
//! Source: Marconi (Pan et al., `MLSys` 2025), by whole blocks: it keeps the state after the last token
//! that was generated, this one that after the prompt's last whole block.

use super::second_use::REMEMBER;
use super::{Admit, Ask, Offer, Verdict};
use crate::hash::Key;
use crate::policy::{Configured, PolicyOption, PolicyOptions};

/// What followed each prefix last, 32 bytes a prefix. Newer entries displace older ones in their slot.
#[derive(Debug)]
pub struct BranchPoint {
    followed: Vec<(Key, Key)>,
}

impl Configured for BranchPoint {
    const OPTIONS: &'static [PolicyOption] = &[REMEMBER];

    fn with(options: PolicyOptions<'_>) -> Self {
        let slots = (options.get(&REMEMBER) as usize).next_power_of_two();
        Self { followed: vec![(Key(0), Key(0)); slots] }
    }
}

impl BranchPoint {
    fn place(&self, key: Key) -> usize {
        key.mixed() as usize & (self.followed.len() - 1)
    }

    /// Whether something else than `next` followed `key` before.
    fn parts(&self, key: Key, next: Key) -> bool {
        let (before, followed) = self.followed[self.place(key)];
        before == key && followed != next
    }
}

impl Admit for BranchPoint {
    fn name(&self) -> &'static str {
        "branch-point"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn admit(&mut self, offer: &Offer, _: Ask, out: &mut [Verdict]) {
        let goes_on = |&i: &usize| offer.states[i] && offer.nexts[i] != Key(0);
        for i in (0..out.len()).filter(|&i| offer.states[i]) {
            let (end, prompt) = (offer.end(i), u64::from(offer.prompts[i]));
            let last = end <= prompt && prompt < end + u64::from(offer.spans[i]);
            let parts = goes_on(&i) && self.parts(offer.keys[i], offer.nexts[i]);
            if !(last || parts) {
                out[i] = Verdict::Drop;
            }
        }
        // Updates the table only after all rows are judged, because several groups may ask about one prefix.
        for i in (0..out.len()).filter(goes_on) {
            let place = self.place(offer.keys[i]);
            self.followed[place] = (offer.keys[i], offer.nexts[i]);
        }
    }
}
