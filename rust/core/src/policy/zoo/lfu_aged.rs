//! Uses that fade: each counts half after a half-life (LRFU, Lee et al., IEEE Trans. Computers 50(12),
//! 2001, with a base of one half).
//!
//! All counts fade alike, so their order never changes by itself: log2 of the sum of 2^(t / half-life)
//! over the times t of all uses is a key that stays.

use crate::policy::adapters::scored::{Formula, Past};
use crate::policy::{BlockAccess, Configured, PolicyOption, PolicyOptions};

const HALF_LIFE: PolicyOption = PolicyOption::positive(
    "half_life_ticks",
    4_096,
    "A use counts half after this many ticks, a few for each request.",
);

/// Counts as logarithms.
#[derive(Debug)]
pub struct LfuAged {
    half_life: u32,
}

impl Configured for LfuAged {
    const OPTIONS: &'static [PolicyOption] = &[HALF_LIFE];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { half_life: options.get(&HALF_LIFE) }
    }
}

impl Formula for LfuAged {
    const NAME: &'static str = "lfu-aged";

    fn key(&self, past: &Past) -> (u32, u64) {
        (0, past.score)
    }

    fn touch(&self, past: &Past, _: BlockAccess<'_>) -> u64 {
        let this = past.last as f64 / f64::from(self.half_life);
        let count = if past.uses == 1 {
            this
        } else {
            let before = f64::from_bits(past.score);
            this.max(before) + (-(this - before).abs()).exp2().ln_1p() * std::f64::consts::LOG2_E
        };
        // Bits of floats that are not negative are in their order.
        count.to_bits()
    }
}
