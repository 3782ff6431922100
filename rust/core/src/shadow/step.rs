//! What an engine says of one of its steps.

use crate::hash::Key;
use crate::sequence::Meta;

/// A request got its blocks, and is scheduled from now on.
#[derive(Debug, Clone, Default)]
pub struct Begun {
    /// The engine's number for it.
    pub id: u64,
    /// Keys of its full blocks, as far as they are known.
    pub keys: Vec<Key>,
    /// Tokens that are known: the prompt, and what was generated before a preemption.
    pub tokens: u32,
    /// Of these, tokens that may be found in the cache; the others are computed whatever is there.
    pub findable: u32,
    /// Tokens that have slots in this step.
    pub slots: u32,
    /// Tokens that are findable from this step on.
    pub computed: u32,
    /// Tokens that the engine itself has found.
    pub found: u32,
    /// Whether it is counted: it comes for the first time, and not back after a preemption.
    pub first: bool,
    /// What policies may know of it.
    pub meta: Meta,
}

/// How far a request has come.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The engine's number for it.
    pub id: u64,
    /// Keys of full blocks that were not known before, the next in the order of its prefix.
    pub keys: Vec<Key>,
    /// Tokens that have slots.
    pub slots: u32,
    /// Tokens that are findable.
    pub computed: u32,
}

/// What happened to the requests of an engine, in the order in which it is carried out. An engine may leave
/// steps out in which no request gets a block.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Requests that have ended since the step before, in order.
    pub ended: Vec<Progress>,
    /// Running requests that got slots, in the order in which they were scheduled.
    pub grown: Vec<Progress>,
    /// Requests that lost their blocks, and will begin again.
    pub preempted: Vec<u64>,
    /// Requests that began, in order.
    pub begun: Vec<Begun>,
}
