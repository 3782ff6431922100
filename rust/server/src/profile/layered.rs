//! Roofline terms of a model whose weights are in several formats, and whose layers are of several kinds.

use super::layers::Layers;
use super::{Batch, StepTime};

/// Matrices of one number format. Multiplying with them overlaps reading them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrices {
    /// Seconds of reading what every token is multiplied with.
    pub read: f64,
    /// Seconds of the products of one token.
    pub token: f64,
    /// Experts, besides.
    pub routed: Vec<Routed>,
}

/// Experts, of which a step reads those that its tokens go to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routed {
    /// Experts of a layer.
    pub experts: f64,
    /// Those that a token goes to.
    pub used: f64,
    /// Seconds of reading one of them, in all layers.
    pub read: f64,
}

impl Routed {
    /// Experts of a layer that so many tokens go to, on the mean, if each choice is as likely as any other.
    fn touched(&self, tokens: f64) -> f64 {
        self.experts * (1.0 - (1.0 - 1.0 / self.experts).powf(tokens * self.used))
    }
}

impl Matrices {
    fn seconds(&self, tokens: f64) -> f64 {
        let experts: f64 = self.routed.iter().map(|one| one.read * one.touched(tokens)).sum();
        (self.read + experts).max(tokens * self.token)
    }
}

/// Seconds of each thing that a step does, factors included.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layered {
    /// Time of the host that the card waits for, and what exchanges take whatever they carry.
    pub host: f64,
    /// A part for each number format, one after the other.
    pub matrices: Vec<Matrices>,
    /// What tokens attend to.
    pub layers: Layers,
    /// What cards that serve together send one another for one token. Nothing overlaps it.
    pub exchange: f64,
    /// What all prompts of a step begin with is read once for all.
    pub is_cascade: bool,
}

impl StepTime for Layered {
    fn seconds(&self, batch: &Batch) -> f64 {
        let tokens = f64::from(batch.num_tokens());
        let products: f64 = self.matrices.iter().map(|one| one.seconds(tokens)).sum();
        self.host + products + batch.attention + tokens * self.exchange
    }

    fn layers(&self) -> Option<&Layers> {
        Some(&self.layers)
    }

    fn is_cascade(&self) -> bool {
        self.is_cascade
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // whole numbers, and their sums and products
mod tests {
    use super::*;

    #[test]
    fn formats_come_one_after_the_other() {
        let one = |read, token| Matrices { read, token, routed: vec![] };
        let matrices = vec![one(10.0, 1.0), one(3.0, 2.0)];
        let layered = Layered { host: 1.0, matrices, exchange: 0.5, ..Layered::default() };
        let of = |prefill_tokens| Batch { prefill_tokens, attention: 7.0, ..Batch::default() };
        // Of 4 tokens: 10 s of reading, and 8 s of products with what is read in 3.
        assert_eq!(layered.seconds(&of(4)), 1.0 + 10.0 + 8.0 + 7.0 + 2.0);
        assert_eq!(layered.seconds(&of(100)), 1.0 + 100.0 + 200.0 + 7.0 + 50.0);
    }

    #[test]
    fn a_step_reads_the_experts_that_its_tokens_go_to() {
        let routed = Routed { experts: 4.0, used: 2.0, read: 16.0 };
        // Two draws out of four: 4 (1 - 9/16); four draws: 4 (1 - 81/256).
        assert_eq!(routed.touched(1.0), 1.75);
        assert_eq!(routed.touched(2.0), 2.734_375);
        let matrices = Matrices { read: 5.0, token: 0.0, routed: vec![routed] };
        assert_eq!(matrices.seconds(1.0), 5.0 + 28.0);
        assert_eq!(matrices.seconds(2.0), 5.0 + 43.75);
        assert!((matrices.seconds(1e6) - 69.0).abs() < 1e-9);
    }
}
