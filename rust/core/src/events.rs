//! The ordered log: every change of the manager, in the order it happened.
//!
//! Two sorts of entries: what was *asked* (an allocation, a commit, a release …), one for each call
//! that did something, and the *effects* on blocks that came of it. The counters, the state of every
//! block and the pressure follow from the log alone, and what was asked can be asked again.

use crate::hash::Key;
use crate::pool::NIL;
use crate::request::Request;
use crate::sequence::SeqId;

/// What happened. `value` and `other` of an event are given where they mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A sequence was allocated; `value`: prompt tokens, `other`: found of them.
    Allocate = 0,
    /// `block` was found for `seq`.
    Hit = 1,
    /// `block` went to `seq`, empty.
    Obtain = 2,
    /// `seq` is computed and accepted up to `value` tokens; `other`: 1 if it is about to be.
    Commit = 3,
    /// `block` became findable under `key`, after `parent`; `value`: its parent block, `other`: its
    /// place in the prefix. Its token ids are logged where they are known, those of a partial block
    /// too. Without `seq`: published by itself.
    Store = 4,
    /// `block` lost its key and its place to make room; `value`: for what ([`EvictionCause`]).
    Evict = 5,
    /// An owner released `block`: `seq`, or 0 for a ticket, a fence or a pin.
    Release = 6,
    /// `seq` ended; `value`: its length in tokens.
    Finish = 7,
    /// `block` is to be copied to `value`; `other`: tokens of it.
    Copy = 8,
    /// `seq` was forked from the sequence `value`.
    Fork = 9,
    /// `seq` was cut to `value` tokens with slots; `other`: tokens still known.
    Truncate = 10,
    /// Every cached block was forgotten; `value`: blocks freed.
    Reset = 11,
    /// `seq` grew to `value` tokens; `other`: new tokens whose ids are not known yet. Other ids come
    /// along.
    Append = 12,
    /// `block` went out on loan; `value`: the number of the tenant whose block it is.
    Take = 13,
    /// `block` came back from a loan.
    Return = 14,
    /// `block` is no longer findable, though it was not evicted: a superfluous copy, a reset.
    Forget = 15,
    /// A preempted sequence came back: as `Allocate`.
    Resume = 16,
    /// Why no more was found for `seq`; `value`: the reason, `group`: the layer group that could not
    /// go on, `other`: full blocks looked for.
    Miss = 17,
    /// `value` blocks were wanted, `other` could be had: refused.
    Refuse = 18,
    /// `value` keys matched while the tokens did not.
    Collide = 19,
    /// `block` has an owner more: `seq` by a fork or a join, else a ticket, a fence or a pin.
    Hold = 20,
    /// `block` waits for the fence `value`.
    Wait = 21,
    /// Known tokens of `seq` got slots up to `value`.
    Extend = 22,
    /// Ids that were missing became known; they are logged as ids.
    Fill = 23,
    /// The plan of copies was taken; `value`: its ticket, `other`: copies.
    Plan = 24,
    /// The ticket `value` is done.
    Done = 25,
    /// The ticket `value` failed; `other`: pages that were not filled.
    Fail = 26,
    /// The load `value` has ended with `other` good blocks.
    Loaded = 27,
    /// The first tokens of `seq`, up to `value`, came from elsewhere.
    Land = 28,
    /// `value` tokens came from elsewhere, each counted once.
    Bring = 29,
    /// `seq` was cut to `value` tokens with slots because a copy failed.
    Rewind = 30,
    /// The first `value` tokens of `seq` are held for a reader elsewhere; `other`: the ticket.
    Lease = 31,
    /// Until further notice, blocks given up wait for the step `value`; for none if `other` is 1.
    Fence = 32,
    /// Steps up to `value` have run.
    Pass = 33,
    /// Room was made: `value` free blocks were wanted.
    EvictUntil = 34,
    /// The pool has `value` blocks from now on.
    Resize = 35,
    /// No sequence is allocated any more.
    Sleep = 36,
    /// Sequences are allocated again.
    Wake = 37,
    /// The weights changed; the bytes of their fingerprint are logged as ids.
    Weights = 38,
    /// The pressure level is `value` from now on: 0 normal, 1 high, 2 critical.
    Pressure = 39,
    /// `seq` gets `other` blocks that a load fills; `value`: the ticket.
    Load = 40,
    /// What is held up to `block` stays until the receipt `value` is back.
    Pin = 41,
    /// The receipt `value` of the hold up to `block` is back.
    Unpin = 42,
    /// `seq` stands in for the sequence `value`, which ends before its load; `other`: its tokens.
    StandIn = 43,
    /// `seq` shares `other` tokens that a live sequence is computing; `value`: the ticket.
    Join = 44,
    /// A table of `seq` has `block` instead of its own block `value`; `other`: the place.
    Remap = 45,
    /// `value` tokens of a partial block were found for `seq`, besides those its allocation names.
    Partial = 46,
    /// The first `value` tokens of `seq` are forked; `other`: 1 if a partial block is copied at once.
    ForkPrefix = 47,
    /// Blocks are held one by one once more; they are logged as ids.
    TouchBlocks = 48,
    /// Blocks are held one by one once less; they are logged as ids.
    Free = 49,
    /// `block` has the retention priority `value` from now on.
    Retain = 50,
    /// It is `value` by the caller's clock, which retention goes by.
    Clock = 51,
    /// `seq` was read or scheduled.
    Touch = 52,
    /// A hint on the session `value` was taken; `other`: 0 retain, 1 release, 2 demote, then a byte
    /// each of priority and of priority after it, and 1 if it falls evenly; its duration is logged
    /// as ids, the low half first.
    Hint = 53,
    /// What one salt, adapter or session left was forgotten; `value`: 1 if the salt is given, 2 if
    /// the adapter is, 4 if the session, which is `other`, is. The number of the salt's bytes,
    /// these bytes and the adapter's are logged as ids.
    ResetScope = 54,
    /// `seq` was looked up again: `value` tokens need not be computed, which were `other`. The
    /// tokens of its prompt, 1 if it came back after a preemption, and 1 if blocks found are
    /// counted, are logged as ids.
    Rematch = 55,
    /// `seq` ends, and nothing more of it becomes findable.
    Abort = 56,
    /// Keys of further full blocks of `seq` became known; their 32-bit words are logged as ids, the
    /// lowest first.
    Keys = 57,
    /// `seq` is computed up to `value` tokens, where it was committed ahead.
    Computed = 58,
}

/// What room is made for, as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// A sequence needs a block.
    Sequence = 0,
    /// A caller takes a block by itself.
    Taken = 1,
    /// Nothing yet: room is made ahead of need.
    Ahead = 2,
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
    pub seq: SeqId,
    /// Key, or zero.
    pub key: Key,
    /// Key of the block before, or zero.
    pub parent: Key,
    /// What the kind says.
    pub value: u64,
    /// What the kind says.
    pub other: u64,
    /// Token ids of it, which follow those of the events before it in [`LogBatch::ids`].
    pub ids: u32,
}

impl Event {
    /// An event of no block and no sequence.
    pub fn new(tick: u64, kind: Kind) -> Self {
        let none = Key(0);
        Self {
            tick,
            kind,
            group: 0,
            block: NIL,
            seq: 0,
            key: none,
            parent: none,
            value: 0,
            other: 0,
            ids: 0,
        }
    }
}

/// A portion of the log.
#[derive(Debug, Default)]
pub struct LogBatch {
    /// In order.
    pub events: Vec<Event>,
    /// Token ids of the events, one event after the other.
    pub ids: Vec<u32>,
    /// What each allocation among the events asked for.
    pub asked: Vec<(SeqId, Request)>,
}

/// The log; empty and free when switched off.
#[derive(Debug, Default)]
pub struct Log {
    on: bool,
    kept: LogBatch,
}

impl Log {
    /// A log that keeps events only if `on`.
    pub fn new(on: bool) -> Self {
        Self { on, kept: LogBatch::default() }
    }

    /// Whether events are kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// One more event. The caller looks first whether the log is on.
    pub fn push(&mut self, event: Event) {
        debug_assert!(self.on);
        self.kept.events.push(event);
    }

    /// One more event, with token ids.
    pub fn push_with(&mut self, event: Event, ids: &[u32]) {
        self.kept.ids.extend_from_slice(ids);
        self.push(Event { ids: ids.len() as u32, ..event });
    }

    /// What the allocation of `seq` asked for.
    pub fn asked(&mut self, seq: SeqId, asked: Request) {
        self.kept.asked.push((seq, asked));
    }

    /// Everything since the last call.
    pub fn take(&mut self) -> LogBatch {
        std::mem::take(&mut self.kept)
    }
}
