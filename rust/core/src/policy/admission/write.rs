//! When a block is written to a lower tier; in the first tier all is kept.
//!
//! Source: `SGLang`'s `HiCache` (`write_back`, `write_through`, `write_through_selective`).

use super::{Admit, Ask, Occasion, Offer, Tier, Verdict};

/// Written once it leaves the tier above.
#[derive(Debug, Clone, Copy)]
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
pub struct WriteThrough {
    name: &'static str,
    uses: u32,
}

impl WriteThrough {
    /// Written on use `uses`.
    pub fn new(name: &'static str, uses: u32) -> Self {
        Self { name, uses }
    }
}

impl Admit for WriteThrough {
    fn name(&self) -> &'static str {
        self.name
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

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("uses", self.uses.into())]
    }
}
