//! How long a step takes.

mod fitted;
mod layered;
mod layers;
mod roofline;
mod table;

pub use fitted::Fitted;
pub use layered::{Layered, Matrices, Routed};
pub use layers::{History, LayerKind, Layers, Part};
pub use roofline::Roofline;
pub use table::{StepTable, TableError, TableRow};

/// What a step computes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Batch {
    /// Tokens of prompts, and of what is computed again.
    pub prefill_tokens: u32,
    /// Pairs of such a token and a token that it attends to, itself included.
    pub prefill_pairs: u64,
    /// Pairs that would be added if each chunk of fewer than [`Batch::SHORT_CHUNK`] tokens had that many.
    pub short_chunk_pairs: u64,
    /// Sequences that compute one token of their answer.
    pub n_decode: u32,
    /// Tokens that those attend to, all together.
    pub kv_decode: u64,
    /// Drafts that are verified behind the tokens of those. They attend to the same KV, which is read once.
    pub drafts: u32,
    /// Tokens with which all of its prompts begin, where a [cascade](StepTime::is_cascade) reads them once.
    pub shared_prefix: u32,
    /// Seconds of all attention, where [layers](StepTime::layers) say it.
    pub attention: f64,
}

impl Batch {
    /// Tokens of a chunk that attention kernels take as one tile: fewer are no faster.
    pub const SHORT_CHUNK: u32 = 64;

    /// Tokens computed.
    pub fn num_tokens(&self) -> u32 {
        self.prefill_tokens + self.n_decode + self.drafts
    }

    /// A sequence computes `count` tokens behind its first `computed`.
    pub fn add(&mut self, computed: u32, count: u32, decodes: bool) {
        if decodes {
            self.n_decode += 1;
            self.kv_decode += u64::from(computed) + 1;
        } else {
            let (from, count) = (u64::from(computed), u64::from(count));
            self.prefill_tokens += count as u32;
            self.prefill_pairs += count * from + count * (count + 1) / 2;
            self.short_chunk_pairs += u64::from(Self::SHORT_CHUNK).saturating_sub(count) * from;
        }
    }
}

/// Says how long steps take.
pub trait StepTime {
    /// Seconds of a step; more than 0.
    fn seconds(&self, batch: &Batch) -> f64;

    /// Layers of several kinds, which attend to what the sums of a batch do not tell.
    fn layers(&self) -> Option<&Layers> {
        None
    }

    /// Whether the KV that all prompts of a step begin with is read once for all.
    fn is_cascade(&self) -> bool {
        false
    }
}

/// Seconds of a step of one prompt, `count` tokens behind its first `computed`.
pub(crate) fn of_prompt(times: &dyn StepTime, computed: u32, count: u32) -> f64 {
    let mut batch = Batch::default();
    batch.add(computed, count, false);
    if let Some(layers) = times.layers() {
        let part = Part { computed, count, drafts: 0, decodes: false };
        batch.attention = layers.seconds(std::iter::once(part), 0);
    }
    times.seconds(&batch)
}

impl<F: Fn(&Batch) -> f64> StepTime for F {
    fn seconds(&self, batch: &Batch) -> f64 {
        self(batch)
    }
}
