//! Layer groups: how their layers look back, and in blocks of how many tokens.
//!
//! The verbs ask kind-neutral questions: what does a token attend to ([`GroupKind::needs`]), which
//! blocks may go ([`GroupReach::gone`]), how many are there ([`GroupReach::blocks`], [`GroupReach::most`]), and
//! which boundaries can be hit ([`Layout`]). What follows from a kind is said here and nowhere else.

mod kind;
mod layout;
mod peak;
mod reach;
mod rules;

pub use kind::{GroupKind, Needs};
pub use layout::Layout;
pub use peak::Pace;
pub use reach::GroupReach;
pub use rules::{GroupTable, check};

/// A layer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// How its layers look back.
    pub kind: GroupKind,
    /// Units of `block_size` tokens that a block of it spans.
    pub units: u32,
    /// Its KV is computed only up to this many tokens behind what is committed (a draft model).
    pub lag: u32,
    /// Which boundaries stay findable. `None`: all that can be. `n` above 0: every `n` tokens, and the end of
    /// the prompt. 0: only the end of the prompt.
    pub interval: Option<u32>,
}

impl From<GroupKind> for Group {
    fn from(kind: GroupKind) -> Self {
        Self { kind, units: 1, lag: 0, interval: None }
    }
}
