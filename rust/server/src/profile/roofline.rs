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
}

impl StepTime for Roofline {
    fn seconds(&self, batch: &Batch) -> f64 {
        self.host
            + self.weights.max(f64::from(batch.num_tokens()) * self.token)
            + batch.kv_decode as f64 * self.kv_token
            + batch.prefill_pairs as f64 * self.pair
            + f64::from(batch.num_tokens()) * self.exchange
    }
}
