//! Keeps a block from its n-th use on, because a block that is asked for only once is not worth its room.
//!
//! Source: vLLM's `FilterReusedOffloadingManager` (`store_threshold`, `max_tracker_size`).

use super::{Admit, Ask, Offer, Verdict};
use crate::hash::Key;
use crate::policy::adapters::ghosts::Ghosts;
use crate::policy::{Configured, PolicyOption, PolicyOptions};

pub(super) const fn uses(default: u32) -> PolicyOption {
    PolicyOption::positive("uses", default, "Kept from this use on; the first counts.")
}

pub(super) const REMEMBER: PolicyOption =
    PolicyOption::positive("remember", 1 << 16, "Keys that are remembered.").up_to(1 << 24);
const USES: PolicyOption = uses(2);

/// Uses of the keys seen last, about 80 bytes each.
#[derive(Debug)]
pub struct SecondUse {
    uses: u32,
    remember: u32,
    counts: Ghosts<u32>,
}

impl Configured for SecondUse {
    const OPTIONS: &'static [PolicyOption] = &[USES, REMEMBER];

    fn with(options: PolicyOptions<'_>) -> Self {
        let (uses, remember) = (options.get(&USES), options.get(&REMEMBER));
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
}
