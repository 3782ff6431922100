//! One group in blocks: which of them a length needs, and how many there are.

use std::ops::Range;

use super::layout::lcm;
use super::{Group, GroupKind, Pace};

/// A group, and how many tokens its blocks span.
#[derive(Debug, Clone, Copy)]
pub struct GroupReach {
    /// How its layers look back.
    pub kind: GroupKind,
    /// Units that a block spans.
    pub units: u32,
    /// Tokens that a block spans.
    pub span: u32,
    /// Tokens that its KV stays behind what is committed.
    pub lag: u32,
}

impl GroupReach {
    pub(super) fn new(group: &Group, block_size: u32) -> Self {
        let Group { kind, units, lag, .. } = *group;
        Self { kind, units, span: units * block_size, lag }
    }

    /// Blocks that hold `tokens` tokens.
    #[inline]
    pub fn blocks(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.span)
    }

    /// Whether the token at `len` attends to anything in `block`.
    #[inline]
    pub fn keeps(&self, block: u32, len: u32) -> bool {
        let needs = self.kind.needs(len);
        let start = u64::from(block) * u64::from(self.span);
        let end = start + u64::from(self.span);
        start < u64::from(needs.head) || end > u64::from(needs.from)
    }

    /// The blocks that the token at `len` and all after it do without.
    #[inline]
    pub fn gone(&self, len: u32) -> Range<usize> {
        let needs = self.kind.needs(len);
        let end = (needs.from / self.span) as usize;
        let start = needs.head.div_ceil(self.span) as usize;
        start.min(end)..end
    }

    /// Blocks at the front that are never given up, where others are.
    #[inline]
    pub fn head(&self) -> u32 {
        match self.kind {
            GroupKind::SinkWindow { sink, .. } => sink.div_ceil(self.span),
            _ => 0,
        }
    }

    /// The length up to which KV is there, of a sequence that has `committed` tokens and found
    /// `cached` of them.
    #[inline]
    pub fn computed(&self, committed: u32, cached: u32) -> u32 {
        if self.lag == 0 {
            return committed;
        }
        committed.saturating_sub(self.lag).max(cached.min(committed))
    }

    /// The shortest length that a sequence without its blocks up to `gone` can be cut to.
    pub fn least_cut(&self, gone: u32, cached: u32) -> u32 {
        let first = self.kind.first_len(gone.saturating_mul(self.span));
        if cached >= first { first } else { first.saturating_add(self.lag) }
    }

    /// Blocks held while the tokens from `at` to `to` are computed and all before them are committed,
    /// of which the first `cached` were found.
    pub fn held(&self, at: u32, to: u32, cached: u32) -> u32 {
        self.held_up_to(self.computed(at, cached), to)
    }

    /// Blocks held up to the length `to` where the KV of the first `computed` tokens is there.
    pub fn held_up_to(&self, computed: u32, to: u32) -> u32 {
        if self.kind == GroupKind::Cross {
            return 0;
        }
        self.blocks(to) - self.gone(computed).len() as u32
    }

    /// The most blocks that a sequence of `tokens` tokens holds at once, growing a token at a time.
    pub fn most(&self, tokens: u32) -> u32 {
        let (span, lag) = (self.span, self.lag);
        // A run of so many tokens, with the next one, reaches into that many blocks at the most.
        let run = |tokens: u32| tokens.saturating_add(lag).saturating_sub(1).div_ceil(span) + 1;
        let most = match self.kind {
            GroupKind::Full => u32::MAX,
            GroupKind::Cross => 0,
            GroupKind::SlidingWindow { window } => run(window),
            GroupKind::Chunked { chunk } => return self.longest_chunk(tokens, chunk),
            GroupKind::State => 2,
            GroupKind::SinkWindow { window, .. } => {
                self.head().saturating_add(run(window.saturating_add(1)))
            }
        };
        most.min(self.blocks(tokens))
    }

    /// An upper bound of [`GroupReach::most`] for a prompt that comes in steps.
    pub fn most_in_steps(&self, pace: Pace) -> u32 {
        let run = |tokens: u32| {
            let tokens = tokens.saturating_add(self.lag).saturating_add(pace.chunk);
            tokens.saturating_sub(2).div_ceil(self.span) + 1
        };
        let most = match self.kind {
            GroupKind::Full => u32::MAX,
            GroupKind::Cross => return 0,
            GroupKind::SlidingWindow { window } => run(window),
            GroupKind::Chunked { chunk } => run(chunk),
            GroupKind::State => run(2),
            GroupKind::SinkWindow { window, .. } => {
                self.head().saturating_add(run(window.saturating_add(1)))
            }
        };
        most.min(self.blocks(pace.prompt))
    }

    /// The most blocks that one chunk can touch, with the tokens that lag behind its end. A chunk that does
    /// not start at a block boundary touches one block more.
    fn longest_chunk(&self, tokens: u32, chunk: u32) -> u32 {
        let (span, tokens) = (u64::from(self.span), u64::from(tokens));
        let (chunk, lag) = (u64::from(chunk), u64::from(self.lag));
        let last = tokens.saturating_sub(lag + 1) / chunk;
        // From there on chunks begin where those before did in their blocks.
        let period = lcm(chunk, span) / chunk;
        let held = |at: u64| {
            let start = at * chunk;
            (start + chunk + lag).min(tokens).div_ceil(span) - start / span
        };
        (0..=last.min(period - 1)).map(held).max().unwrap_or(0) as u32
    }
}
