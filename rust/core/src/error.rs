//! What can go wrong, with the value and the limit in every message.

use std::borrow::Cow;

/// The result of every operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A refused operation. Whatever the variant, the manager is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not now: more blocks are needed than are free or evictable.
    #[error(
        "needs {needed} blocks, but only {available} are free or evictable of {total}{}{}",
        limit.said(),
        on_their_way(*coming)
    )]
    NoCapacity {
        /// Blocks the operation would have taken.
        needed: u64,
        /// Blocks that could have been had.
        available: u64,
        /// Blocks of the pool, or of its tenant's part of it.
        total: u64,
        /// What sets that.
        limit: Limit,
        /// Blocks more that can be had once fences have passed.
        coming: u64,
    },
    /// Never: larger than the whole pool, or than its tenant's part of it.
    #[error("needs {needed} blocks, but {limit} {total}: it can never fit")]
    NeverFits {
        /// Blocks the request needs at once.
        needed: u64,
        /// The most that it can have.
        total: u64,
        /// What sets that, as the words before the number.
        limit: Cow<'static, str>,
    },
    /// Not now: too much is on its way.
    #[error("{moving} pages are on their way, of {limit} at once: try again when some have ended")]
    Busy {
        /// Pages in flight.
        moving: u32,
        /// The most there may be.
        limit: u32,
    },
    /// Not now: every slot has a sequence, a pin or a copy under way.
    #[error("all {slots} slots are in use")]
    NoSlot {
        /// How many there are.
        slots: u64,
    },
    /// Never: longer than a slot.
    #[error("needs {needed} tokens, but a slot holds {holds}: it can never fit")]
    SlotFull {
        /// Length asked for.
        needed: u64,
        /// Tokens that a slot holds.
        holds: u64,
    },
    /// The handle was never given out.
    #[error("sequence {0} is unknown")]
    UnknownSequence(u64),
    /// The handle was valid once; its sequence has been released.
    #[error("sequence {0} was released; its handle is stale")]
    StaleSequence(u64),
    /// A step ends the sequence already.
    #[error("{what} = {seq}: {why}")]
    EndsAlready {
        /// The list that names it.
        what: &'static str,
        /// The handle.
        seq: u64,
        /// Where it ends.
        why: &'static str,
    },
    /// The ticket was never given out, or is done already.
    #[error("ticket {0} is unknown or already settled")]
    UnknownTicket(u64),
    /// A step names a ticket twice.
    #[error("ticket {0} is named twice: a step settles a ticket once")]
    TicketTwice(u64),
    /// More is said to be computed than has slots.
    #[error("commit of {asked} tokens, but the sequence has slots for {limit}")]
    CommitPastEnd {
        /// Length asked for.
        asked: u64,
        /// Tokens that have slots.
        limit: u64,
    },
    /// A length went backwards.
    #[error("{what} of {asked} tokens, but {limit} are already there")]
    Backwards {
        /// The verb.
        what: &'static str,
        /// Length asked for.
        asked: u64,
        /// Present length.
        limit: u64,
    },
    /// A value outside its limits.
    #[error("{what} = {value}: {limit}")]
    Invalid {
        /// The value's name.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A block id that was not taken.
    #[error("block {block} is not taken (it is {state}): {why}")]
    NotLent {
        /// The id.
        block: u64,
        /// Its state.
        state: &'static str,
        /// What probably happened.
        why: &'static str,
    },
    /// A lock names a block that is not findable.
    #[error("block {block} cannot be locked: it is {state}, not findable")]
    NotFindable {
        /// The id.
        block: u64,
        /// Its state.
        state: &'static str,
    },
    /// Pins hold as much as they may.
    #[error("{asked} blocks more would be pinned: {held} are, and pins may hold {cap}")]
    PinsFull {
        /// Blocks that would have been pinned first.
        asked: u64,
        /// Blocks that are.
        held: u64,
        /// Blocks that may be.
        cap: u64,
    },
    /// A receipt that opens no lock.
    #[error("receipt {id} of block {block} opens no lock: {why}")]
    UnknownReceipt {
        /// The receipt's number.
        id: u64,
        /// The block it names.
        block: u64,
        /// What probably happened.
        why: &'static str,
    },
    /// A pin on a slot that is not held.
    #[error("pin {id} of slot {slot} is not held: {why}")]
    UnknownPin {
        /// The pin's number.
        id: u64,
        /// The slot it names.
        slot: u64,
        /// What probably happened.
        why: &'static str,
    },
    /// A policy outside the core has to name victims first: see `policy::Consult`. Nothing has changed.
    #[error("{n} victims are needed from the eviction policy")]
    NeedVictims {
        /// How many.
        n: u32,
    },
    /// Blocks that should go are in use.
    #[error(
        "{blocks} blocks from id {from} on are in use, the first is {first}{}",
        on_their_way(*coming)
    )]
    InUse {
        /// How many.
        blocks: u64,
        /// Ids from here on were to go.
        from: u64,
        /// The lowest of those in use.
        first: u64,
        /// How many of those in use are free or cached once fences have passed.
        coming: u64,
    },
    /// The manager sleeps.
    #[error("the manager sleeps: wake it first")]
    Asleep,
    /// A step allocates nothing past a refusal or its token budget; this came after one.
    #[error("not tried: the budget of the step is spent, or something before it was refused")]
    NotTried,
    /// What was to be allocated is no request.
    #[error("not a request: its prompt could not be read")]
    Unreadable,
    /// The policy outside the core failed, and its caller wants to know.
    #[error("the eviction policy failed")]
    PolicyFailed,
    /// The policy cannot serve this pool.
    #[error("the eviction policy: {0}")]
    PolicyRefused(String),
    /// A name that is not known.
    #[error("{what} {name:?} is unknown; there are {known}")]
    UnknownName {
        /// Kind of thing.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Cow<'static, str>,
    },
    /// An invariant of the core is broken, which is a bug in kvframe.
    #[error("integrity: {0}")]
    Integrity(String),
}

/// What sets how many blocks there are to be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Limit {
    /// The whole pool.
    #[default]
    Pool,
    /// The quota of the tenant.
    Quota,
    /// The floors of other tenants.
    Floors,
}

impl Limit {
    /// The words behind the number.
    fn said(self) -> &'static str {
        match self {
            Self::Pool => "",
            Self::Quota => ", the quota of its tenant",
            Self::Floors => ", which floors of other tenants leave",
        }
    }
}

/// The limit of a request that may have the whole pool.
pub(crate) const WHOLE_POOL: Cow<'static, str> = Cow::Borrowed("the whole pool has");

/// What a message says of blocks that wait for fences.
pub(crate) fn on_their_way(coming: u64) -> String {
    if coming == 0 { String::new() } else { format!(" ({coming} wait for a fence to pass)") }
}
