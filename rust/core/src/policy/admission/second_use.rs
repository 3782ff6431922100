//! Keeps a block from its n-th use on, because a block that is asked for only once is not worth its room.
//!
//! Source: vLLM's `FilterReusedOffloadingManager` (`store_threshold`, `max_tracker_size`).

use super::{Admit, Ask, Offer, Verdict};
use crate::hash::Key;
use crate::policy::adapters::ghosts::Ghosts;

/// Uses of the keys seen last, about 80 bytes each.
#[derive(Debug)]
pub struct SecondUse {
    uses: u32,
    remember: u32,
    counts: Ghosts<u32>,
}

impl SecondUse {
    /// Keeps what was used `uses` times among the last `remember` keys.
    pub fn new(uses: u32, remember: u32) -> Self {
        Self { uses, remember, counts: Ghosts::default() }
    }
}

impl Admit for SecondUse {
    fn name(&self) -> &'static str {
        "second-use"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn seen(&mut self, keys: &[Key]) {
        for &key in keys {
            let count = self.counts.get(key).copied().unwrap_or(0);
            self.counts.add(key, count.saturating_add(1));
        }
        self.counts.trim(self.remember as usize);
    }

    fn admit(&mut self, offer: &Offer, _: Ask, out: &mut [Verdict]) {
        for (&key, verdict) in offer.keys.iter().zip(out) {
            let count = self.counts.get(key).copied().unwrap_or(0);
            if count < self.uses {
                *verdict = Verdict::Drop;
            }
        }
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("uses", self.uses.into()), ("remember", self.remember.into())]
    }
}
