//! The kinds, and what a token of each attends to.

use crate::options::Fault;

/// How the layers of a group look back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// Every token attends to all before it.
    Full,
    /// Every token attends to the last `window` tokens, itself included.
    SlidingWindow {
        /// Tokens.
        window: u32,
    },
    /// Every token attends to those of its chunk: `floor(p / chunk) * chunk` to `p`.
    Chunked {
        /// Tokens.
        chunk: u32,
    },
    /// Attention sinks (`StreamingLLM`): every token attends to the first `sink` tokens and to the
    /// `window` before it. Blocks between them are given up; what is computed after that is private
    /// to the sequence.
    SinkWindow {
        /// Tokens at the front.
        sink: u32,
        /// Tokens before the next one.
        window: u32,
    },
    /// Recurrent layers: a block holds the state after its last token.
    State,
    /// Attention to another input: so many blocks as its tokens need, from allocation to the end.
    Cross,
}

/// Tokens that the token at `len` attends to: `0..head` and `from..len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// End of those at the front.
    pub head: u32,
    /// First of those at the end.
    pub from: u32,
}

impl GroupKind {
    /// The names of all kinds.
    pub const NAMES: [&str; 6] =
        ["full", "sliding_window", "chunked", "sink_window", "state", "cross"];

    /// The name used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::SlidingWindow { .. } => "sliding_window",
            Self::Chunked { .. } => "chunked",
            Self::SinkWindow { .. } => "sink_window",
            Self::State => "state",
            Self::Cross => "cross",
        }
    }

    /// What the token at `len` attends to.
    #[inline]
    pub fn needs(self, len: u32) -> Needs {
        let (head, from) = match self {
            Self::Full | Self::Cross => (0, 0),
            Self::SlidingWindow { window } => (0, len.saturating_add(1).saturating_sub(window)),
            Self::Chunked { chunk } => (0, len - len % chunk),
            Self::SinkWindow { sink, window } => (sink.min(len), len.saturating_sub(window)),
            // The state after the token before.
            Self::State => (0, len.saturating_sub(1)),
        };
        Needs { head, from: from.min(len) }
    }

    /// The shortest length at which nothing between the head and `from` is needed any more.
    pub fn first_len(self, from: u32) -> u32 {
        match self {
            _ if from == 0 => 0,
            Self::Full | Self::Cross => u32::MAX,
            Self::SlidingWindow { window } => from.saturating_add(window - 1),
            Self::Chunked { chunk } => from.div_ceil(chunk).saturating_mul(chunk),
            Self::SinkWindow { window, .. } => from.saturating_add(window),
            Self::State => from.saturating_add(1),
        }
    }

    /// Whether nothing is given up before a sequence ends.
    #[inline]
    pub fn keeps_all(self) -> bool {
        matches!(self, Self::Full | Self::Cross)
    }

    /// Whether its blocks follow one another in the prefix tree.
    #[inline]
    pub fn is_ordered(self) -> bool {
        self == Self::Full
    }

    /// A length that no kind can have.
    pub(super) fn fault(self) -> Option<Fault> {
        let (what, limit) = match self {
            Self::SlidingWindow { window: 0 } => {
                ("window", "a sliding window holds at least 1 token")
            }
            Self::Chunked { chunk: 0 } => ("chunk", "a chunk holds at least 1 token"),
            Self::SinkWindow { window: 0, .. } => {
                ("window", "a window behind a sink holds at least 1 token")
            }
            _ => return None,
        };
        Some(Fault::new(what, &0, limit.into()))
    }
}
