//! The ordered log: every change of the manager, in the order it happened.

use crate::hash::Key;
use crate::pool::NIL;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A sequence was admitted; `value` = prompt tokens.
    Admit = 0,
    /// `block` was found for `seq`.
    Hit = 1,
    /// `block` went to `seq`, empty.
    Allocate = 2,
    /// `seq` is computed and accepted up to `value` tokens.
    Commit = 3,
    /// `block` became findable under `key`; `value` = its parent block.
    Store = 4,
    /// `block` lost its key and its place to make room.
    Evict = 5,
    /// `seq` let go of `block`.
    Release = 6,
    /// `seq` ended; `value` = its length in tokens.
    Finish = 7,
    /// `block` is to be copied to `value`.
    Copy = 8,
    /// `seq` was forked from the sequence `value`.
    Fork = 9,
    /// `seq` was cut to `value` tokens.
    Truncate = 10,
    /// Every cached block was forgotten.
    Clear = 11,
    /// `seq` grew to `value` tokens.
    Append = 12,
    /// `block` went out on loan.
    Lend = 13,
    /// `block` came back from a loan.
    Return = 14,
    /// `block` is no longer findable, though it was not evicted: a superfluous copy, a reset.
    Forget = 15,
}

/// One entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Logical clock.
    pub tick: u64,
    /// What happened.
    pub kind: Kind,
    /// Layer group.
    pub group: u8,
    /// Block, or [`NIL`].
    pub block: u32,
    /// Sequence handle, or 0.
    pub seq: u64,
    /// Key, or zero.
    pub key: Key,
    /// What the kind says.
    pub value: u64,
}

/// The log; empty and free when switched off.
#[derive(Debug, Default)]
pub struct Log {
    on: bool,
    events: Vec<Event>,
}

impl Log {
    /// A log that keeps events only if `on`.
    pub fn new(on: bool) -> Self {
        Self { on, events: Vec::new() }
    }

    /// Whether events are kept.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// An event about a sequence.
    #[inline]
    pub fn sequence(&mut self, tick: u64, kind: Kind, seq: u64, value: u64) {
        if self.on {
            self.events.push(Event { tick, kind, group: 0, block: NIL, seq, key: Key(0), value });
        }
    }

    /// An event about a block.
    pub fn block(&mut self, event: Event) {
        if self.on {
            self.events.push(event);
        }
    }

    /// Everything since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}
