//! Recency with a bonus for hits: last use + a · ln(1 + hits) (proposed as WLFU in `SGLang` #23781).

use crate::policy::adapters::scored::{Formula, Past};
use crate::policy::{Configured, PolicyOption, PolicyOptions};

const BONUS: PolicyOption =
    PolicyOption::number("bonus_ticks", 1_000, "Ticks that each factor of e in hits is worth.");

/// The bonus in ticks of the logical clock.
#[derive(Debug)]
pub struct Wlfu {
    bonus: u32,
}

impl Configured for Wlfu {
    const OPTIONS: &'static [PolicyOption] = &[BONUS];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { bonus: options.get(&BONUS) }
    }
}

impl Formula for Wlfu {
    const NAME: &'static str = "wlfu";

    fn key(&self, past: &Past) -> (u32, u64) {
        let hits = f64::from(past.uses - 1);
        let key = past.last as f64 + f64::from(self.bonus) * hits.ln_1p();
        // Bits of floats above zero are in their order.
        (0, key.to_bits())
    }
}
