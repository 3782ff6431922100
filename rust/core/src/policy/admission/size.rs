//! Filters by how much a request is, and by what it costs.

use super::{Admit, Ask, Offer, Verdict};

/// Requests of a least length, up to a place in them.
#[derive(Debug)]
pub struct Size {
    min_tokens: u32,
    max_tokens: u32,
}

impl Size {
    /// Keeps the first `max_tokens` tokens of requests of at least `min_tokens`.
    pub fn new(min_tokens: u32, max_tokens: u32) -> Self {
        Self { min_tokens, max_tokens }
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

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("min_tokens", self.min_tokens.into()), ("max_tokens", self.max_tokens.into())]
    }
}

/// Requests that cost enough to compute.
#[derive(Debug)]
pub struct Cost {
    min_cost: u32,
    attention_tokens: u32,
}

impl Cost {
    /// Keeps requests that cost as much as `min_cost` tokens without attention.
    pub fn new(min_cost: u32, attention_tokens: u32) -> Self {
        Self { min_cost, attention_tokens: attention_tokens.max(1) }
    }

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

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("min_cost", self.min_cost.into()), ("attention_tokens", self.attention_tokens.into())]
    }
}
