//! Terms fitted to the measured steps of a server or a card, as `kvframe calibrate` fits them.

use super::{Batch, StepTime};

/// Seconds of what a step does; a step takes their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Any step: the weights are read, the kernels start, the host does its part.
    pub fixed: f64,
    /// Entries of (tokens, seconds): from this number of tokens in a step on, each further token takes this
    /// many seconds. Matrix kernels change their tiles with the number of tokens.
    pub tokens: Vec<(f64, f64)>,
    /// Each decoding sequence, beside its token.
    pub sequence: f64,
    /// Reading the KV of one token.
    pub kv_token: f64,
    /// The attention of one prompt token to one token. A short chunk attends to what is before it as
    /// slowly as one of [`Batch::SHORT_CHUNK`] tokens.
    pub pair: f64,
    /// Each pair of a token computed and a token that decoding sequences attend to, of whichever sequence:
    /// an engine that attends to the whole batch at once computes all of them, and masks most.
    pub mixed: f64,
}

impl StepTime for Fitted {
    fn seconds(&self, batch: &Batch) -> f64 {
        let all = f64::from(batch.num_tokens());
        let mut seconds = self.fixed;
        for (i, &(from, each)) in self.tokens.iter().enumerate() {
            let to = self.tokens.get(i + 1).map_or(all, |&(next, _)| next.min(all));
            seconds += (to - from).max(0.0) * each;
        }
        seconds
            + f64::from(batch.n_decode) * self.sequence
            + batch.kv_decode as f64 * self.kv_token
            + (batch.prefill_pairs + batch.short_chunk_pairs) as f64 * self.pair
            + f64::from(batch.num_tokens()) * batch.kv_decode as f64 * self.mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn each_token_takes_what_its_place_says() {
        let tokens = vec![(0.0, 1.0), (64.0, 10.0), (128.0, 2.0)];
        let fitted =
            Fitted { fixed: 1_000.0, tokens, sequence: 0.0, kv_token: 0.0, pair: 0.0, mixed: 0.0 };
        let batch = |prefill_tokens| Batch { prefill_tokens, ..Batch::default() };
        assert_eq!(fitted.seconds(&batch(0)), 1_000.0);
        assert_eq!(fitted.seconds(&batch(63)), 1_063.0);
        assert_eq!(fitted.seconds(&batch(65)), 1_074.0);
        assert_eq!(fitted.seconds(&batch(130)), 1_000.0 + 64.0 + 640.0 + 4.0);
    }

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn a_short_chunk_attends_as_slowly_as_a_longer_one() {
        let fitted = Fitted {
            fixed: 0.0,
            tokens: vec![],
            sequence: 5.0,
            kv_token: 3.0,
            pair: 1.0,
            mixed: 0.0,
        };
        let mut batch = Batch::default();
        batch.add(100, 4, false);
        assert_eq!(fitted.seconds(&batch), 64.0 * 100.0 + 10.0);
        batch.add(99, 1, true);
        assert_eq!(fitted.seconds(&batch), 64.0 * 100.0 + 10.0 + 5.0 + 300.0);
    }

    #[test]
    #[allow(clippy::float_cmp)] // whole numbers
    fn a_batch_that_is_attended_to_at_once_costs_its_product() {
        let fitted = Fitted {
            fixed: 1.0,
            tokens: vec![],
            sequence: 0.0,
            kv_token: 0.0,
            pair: 0.0,
            mixed: 2.0,
        };
        let mut batch = Batch::default();
        batch.add(100, 7, false);
        assert_eq!(fitted.seconds(&batch), 1.0);
        batch.add(99, 1, true);
        assert_eq!(fitted.seconds(&batch), 1.0 + 8.0 * 100.0 * 2.0);
    }
}
