//! The sequences that run.

use kvframe_core::SeqId;

use crate::speculation::Right;

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
    /// Drafts behind them that it verifies, and how many of those are right.
    pub drafts: u32,
    pub right: u32,
    /// Drafts that it is to verify, as far as it has tokens to come and the step tokens left.
    pub planned: u32,
    /// What the drafts so far were right in more than has been counted: parts of a token.
    pub credit: f64,
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

    /// Drafts that it verifies behind its next token, at most: none once it decodes no more.
    pub fn most_drafts(&self) -> u32 {
        if self.decodes() { self.answer - self.sampled - 1 } else { 0 }
    }

    /// It verifies so many drafts.
    pub fn draft(&mut self, drafts: u32, right: Right) {
        self.right = match right {
            Right::Mean(mean) => {
                self.credit += mean;
                let right = (self.credit as u32).min(drafts);
                self.credit -= f64::from(right);
                right
            }
            Right::Drawn(right) => right,
        };
        self.drafts = drafts;
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
    /// Its first `lost` tokens were computed elsewhere, and have not come yet.
    pub is_handed: bool,
}

impl Progress {
    /// A request that has just arrived.
    pub fn fresh(number: u32, own_from: u32) -> Self {
        Self {
            number,
            own_from,
            sampled: 0,
            lost: 0,
            last_token: f64::NAN,
            is_prefetched: false,
            is_handed: false,
        }
    }
}
