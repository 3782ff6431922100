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

/// A request has come to the engine, and waits.
#[derive(Debug, Clone, Default)]
pub struct Arrived {
    /// The engine's number for it.
    pub id: u64,
    /// The first step that may schedule it.
    pub step: u64,
    /// Whether the engine had no other request then: it has rested, for a time that is not known.
    pub after_rest: bool,
    /// Keys of the full blocks of its prompt.
    pub keys: Vec<Key>,
    /// Tokens of its prompt.
    pub tokens: u32,
    /// Tokens that it generates at the most.
    pub most_outputs: u32,
    /// Whether it looks in the cache.
    pub reads: bool,
    /// What policies may know of it.
    pub meta: Meta,
}

/// How much a request has generated.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    /// The engine's number for it.
    pub id: u64,
    /// Keys of full blocks that were not known before, the next in the order of its prefix.
    pub keys: Vec<Key>,
    /// Tokens that it has generated.
    pub outputs: u32,
}

/// What came of some steps of an engine whose way of making up steps is known ([`super::Batching`]).
#[derive(Debug, Clone, Default)]
pub struct Progressed {
    /// The last of these steps; they are numbered from 1 on.
    pub step: u64,
    /// Whether the engine has no requests after it.
    pub rests: bool,
    /// Requests that came, in order.
    pub arrived: Vec<Arrived>,
    /// Requests that began for the first time, and the tokens that the engine has found of each.
    pub found: Vec<(u64, u32)>,
    /// Running requests.
    pub running: Vec<Generated>,
    /// Requests that have ended.
    pub ended: Vec<Generated>,
}
