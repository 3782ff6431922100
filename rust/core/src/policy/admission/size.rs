//! Filters by how much a request is, and by what it costs.

use super::{Admit, Ask, Offer, Verdict};
use crate::policy::{Configured, PolicyOption, PolicyOptions};

const MIN_TOKENS: PolicyOption =
    PolicyOption::number("min_tokens", 1_024, "Shorter requests leave nothing, in tokens.");
const MAX_TOKENS: PolicyOption = PolicyOption::number(
    "max_tokens",
    u32::MAX,
    "Nothing past this many tokens of a request is kept.",
);
const MIN_COST: PolicyOption = PolicyOption::number(
    "min_cost",
    1_024,
    "Cheaper requests leave nothing; in tokens without attention.",
);
const ATTENTION_TOKENS: PolicyOption = PolicyOption::positive(
    "attention_tokens",
    32_768,
    "Depth in tokens at which a token's attention costs as much as all else.",
);

/// Requests of a least length, up to a place in them.
#[derive(Debug)]
pub struct Size {
    min_tokens: u32,
    max_tokens: u32,
}

impl Configured for Size {
    const OPTIONS: &'static [PolicyOption] = &[MIN_TOKENS, MAX_TOKENS];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { min_tokens: options.get(&MIN_TOKENS), max_tokens: options.get(&MAX_TOKENS) }
    }
}

impl Admit for Size {
    fn name(&self) -> &'static str {
        "size"
    }

    fn admit(&mut self, offer: &Offer, _: Ask, out: &mut [Verdict]) {
        for (i, verdict) in out.iter_mut().enumerate() {
            let fits = offer.end(i) <= self.max_tokens.into();
            if !fits || offer.reaches[i] < self.min_tokens {
                *verdict = Verdict::Drop;
            }
        }
    }
}

/// Requests that cost enough to compute.
#[derive(Debug)]
pub struct Cost {
    min_cost: u32,
    attention_tokens: u32,
}

impl Configured for Cost {
    const OPTIONS: &'static [PolicyOption] = &[MIN_COST, ATTENTION_TOKENS];

    fn with(options: PolicyOptions<'_>) -> Self {
        let (min_cost, attention_tokens) = (options.get(&MIN_COST), options.get(&ATTENTION_TOKENS));
        Self { min_cost, attention_tokens }
    }
}

impl Cost {
    /// The cost of a prompt of `tokens`: each its own, and attention to those before it.
    fn of(&self, tokens: u32) -> u64 {
        let tokens = u64::from(tokens);
        tokens + tokens * tokens / (2 * u64::from(self.attention_tokens))
    }
}

impl Admit for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn admit(&mut self, offer: &Offer, _: Ask, out: &mut [Verdict]) {
        for (&reach, verdict) in offer.reaches.iter().zip(out) {
            if self.of(reach) < self.min_cost.into() {
                *verdict = Verdict::Drop;
            }
        }
    }
}
