//! When a block is written to a lower tier; in the first tier all is kept.
//!
//! Source: `SGLang`'s `HiCache` (`write_back`, `write_through`, `write_through_selective`).

use super::second_use::uses;
use super::{Admit, Ask, Occasion, Offer, Tier, Verdict};
use crate::policy::{Configured, PolicyOption, PolicyOptions};

/// Written once it leaves the tier above.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteBack;

impl Admit for WriteBack {
    fn name(&self) -> &'static str {
        "write-back"
    }

    fn wants_uses(&self) -> bool {
        false
    }

    fn admit(&mut self, _: &Offer, ask: Ask, out: &mut [Verdict]) {
        if ask.tier != Tier::Gpu && ask.occasion != Occasion::Evicted {
            out.fill(Verdict::Drop);
        }
    }
}

/// Writes a block on its n-th use; its computation is the first. A block that leaves the tier above before
/// that is lost.
#[derive(Debug, Clone, Copy)]
pub struct WrittenAt<const USES: u32> {
    uses: u32,
}

/// At once, unless it is told otherwise.
pub type WriteThrough = WrittenAt<1>;
/// On the second use, unless it is told otherwise.
pub type Selective = WrittenAt<2>;

impl<const USES: u32> Configured for WrittenAt<USES> {
    const OPTIONS: &'static [PolicyOption] = &[uses(USES)];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { uses: options.get(&uses(USES)) }
    }
}

impl<const USES: u32> Admit for WrittenAt<USES> {
    fn name(&self) -> &'static str {
        if USES == 1 { "write-through" } else { "selective" }
    }

    fn wants_uses(&self) -> bool {
        self.uses > 1
    }

    fn admit(&mut self, offer: &Offer, ask: Ask, out: &mut [Verdict]) {
        if ask.tier == Tier::Gpu {
            return;
        }
        for (&uses, verdict) in offer.uses.iter().zip(out) {
            // The computation is a use that the tier above has not counted yet.
            if uses.max(1) < self.uses {
                *verdict = Verdict::Drop;
            }
        }
    }
}
