//! The sequences that run.

use kvframe_core::SeqId;

/// A running sequence and the request that it serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    pub request: usize,
    pub seq: SeqId,
    pub prompt: u32,
    pub answer: u32,
    /// Tokens whose KV is there.
    pub computed: u32,
    /// Tokens that have slots.
    pub slots: u32,
    /// Tokens of the answer that were sampled.
    pub sampled: u32,
    /// Tokens that this step computes.
    pub scheduled: u32,
    /// When it sampled last.
    pub last_token: f64,
}

impl Running {
    /// Tokens known that are still to be computed.
    pub fn remaining(&self) -> u32 {
        self.prompt + self.sampled - self.computed
    }

    /// Whether it computes nothing but the token that it sampled last.
    pub fn decodes(&self) -> bool {
        self.sampled > 0 && self.remaining() == 1
    }

    /// Whether `steps` that have computed what is known now sampled a token each.
    pub fn has_sampled(&self, steps: u32) -> bool {
        self.computed == self.prompt + self.sampled + steps - 1
    }

    /// Steps of one token that need no call of the core, while it decodes.
    pub fn quiet_steps(&self) -> u32 {
        (self.slots - self.computed).min(self.answer - self.sampled)
    }
}

/// What a request keeps while it waits, before it runs and between two runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Its place in the order of arrival.
    pub number: u32,
    /// The first of its blocks that has a key of its own.
    pub own_from: u32,
    /// Tokens of its answer that were sampled.
    pub sampled: u32,
    /// Tokens that it had computed when it was preempted.
    pub lost: u32,
    /// When it sampled last.
    pub last_token: f64,
    /// Its pages are being brought to host memory, or were.
    pub is_prefetched: bool,
}

impl Progress {
    /// A request that has just arrived.
    pub fn fresh(number: u32, own_from: u32) -> Self {
        Self { number, own_from, sampled: 0, lost: 0, last_token: f64::NAN, is_prefetched: false }
    }
}
