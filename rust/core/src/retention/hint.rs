//! Hints on sessions, and the answers to them.

use super::Keep;
use crate::manager::PinResult;

/// What is to become of what a session alone has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The session will go on: its blocks get this priority, and the blocks before them at least this.
    Retain(Keep),
    /// It is over: its pins end, and its blocks are the first to be evicted.
    Release,
    /// It pauses: its blocks get this priority.
    Demote(u8),
}

impl Hint {
    /// What its own blocks are to have.
    pub fn keep(self) -> Keep {
        match self {
            Self::Retain(keep) => keep,
            Self::Release => Keep::forever(0),
            Self::Demote(priority) => Keep::forever(priority),
        }
    }
}

/// The outcome of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintStatus {
    /// Done.
    Accepted,
    /// Done for the front of it: pins may hold no more.
    Clipped,
    /// Requests of the session are running. The hint was applied to the blocks that the session has
    /// given up, and is applied again once those requests have ended. A pin is not made later, so
    /// the caller has to ask again.
    Deferred,
    /// Not done: pins have reached their limit, or sessions are not tracked.
    Refused,
    /// The session has nothing.
    Missing,
}

/// The answer to a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HintResult {
    /// How it was taken.
    pub status: HintStatus,
    /// Blocks that it concerned.
    pub blocks: u32,
    /// The pin that it made.
    pub pin: Option<PinResult>,
}
