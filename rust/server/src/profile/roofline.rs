//! Roofline terms: what a step moves and computes, at what the card gives, each term with a fitted factor.

use super::{Batch, StepTime};

/// Seconds of each thing that a step does, factors included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Time of the host that the card waits for.
    pub host: f64,
    /// Reading the weights once.
    pub weights: f64,
    /// The matrix products of one token. They overlap the reading of the weights.
    pub token: f64,
    /// Reading the KV of one token.
    pub kv_token: f64,
    /// The attention of one prompt token to one token.
    pub pair: f64,
    /// What cards that serve together send one another for one token. Nothing overlaps it.
    pub exchange: f64,
    /// What all prompts of a step begin with is read once for all.
    pub is_cascade: bool,
}

impl StepTime for Roofline {
    fn seconds(&self, batch: &Batch) -> f64 {
        let again = u64::from(batch.shared_prefix) * u64::from(batch.n_decode.saturating_sub(1));
        self.host
            + self.weights.max(f64::from(batch.num_tokens()) * self.token)
            + (batch.kv_decode - again) as f64 * self.kv_token
            + batch.prefill_pairs as f64 * self.pair
            + f64::from(batch.num_tokens()) * self.exchange
    }

    fn is_cascade(&self) -> bool {
        self.is_cascade
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn a_prefix_that_all_share_is_read_once() {
        let none = Roofline {
            host: 1.0,
            weights: 0.0,
            token: 0.0,
            kv_token: 2.0,
            pair: 0.0,
            exchange: 0.0,
            is_cascade: true,
        };
        let batch = |n_decode, kv_decode| Batch {
            n_decode,
            kv_decode,
            shared_prefix: 60,
            ..Batch::default()
        };
        // Three attend to 100, 120 and 80 tokens: 60 once, and 40, 60 and 20.
        assert_eq!(none.seconds(&batch(3, 300)), 1.0 + 2.0 * 180.0);
        assert_eq!(none.seconds(&batch(1, 100)), 1.0 + 2.0 * 100.0);
        assert_eq!(none.seconds(&batch(0, 0)), 1.0);
    }
}
