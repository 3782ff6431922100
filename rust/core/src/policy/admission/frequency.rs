//! Keeps a block if it is used more often than the block that would be evicted for it, by the counts of a
//! sketch.
//!
//! Source: `TinyLFU` (Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017).

use super::{Admit, Ask, Offer, Verdict};
use crate::hash::Key;
use crate::policy::adapters::sketch::Sketch;
use crate::policy::{Configured, PolicyOption, PolicyOptions};

const USES: PolicyOption = PolicyOption::positive(
    "uses",
    2,
    "Uses that are enough where the order of eviction is unknown.",
)
.up_to(15);
const CAPACITY: PolicyOption =
    PolicyOption::positive("capacity", 1 << 16, "Keys that the sketch tells apart.").up_to(1 << 26);

/// The filter of W-`TinyLFU`, over whatever eviction policy.
#[derive(Debug)]
pub struct Frequency {
    uses: u32,
    sketch: Sketch,
}

impl Configured for Frequency {
    const OPTIONS: &'static [PolicyOption] = &[USES, CAPACITY];

    fn with(options: PolicyOptions<'_>) -> Self {
        let mut sketch = Sketch::default();
        sketch.reserve(options.get(&CAPACITY));
        Self { uses: options.get(&USES), sketch }
    }
}

impl Admit for Frequency {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn seen(&mut self, keys: &[Key]) {
        for &key in keys {
            self.sketch.add(key);
        }
    }

    fn admit(&mut self, offer: &Offer, ask: Ask, out: &mut [Verdict]) {
        let least = match ask.rival {
            // There is room: nothing is evicted for it.
            _ if ask.free > 0 => 0,
            Some(rival) => self.sketch.count(rival) + 1,
            None => self.uses.into(),
        };
        for (&key, verdict) in offer.keys.iter().zip(out) {
            if self.sketch.count(key) < least {
                *verdict = Verdict::Drop;
            }
        }
    }
}
