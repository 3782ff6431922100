//! The decisions of a KV cache: which blocks live, who shares them, which are evicted next.
//!
//! Pure Rust: no Python, no I/O, no clocks, no bytes of KV. [`Manager`] is the way in. The modules, in the
//! order in which data flows:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`options`], [`error`] | what a manager is built from; what is refused, and why |
//! | [`groups`] | which blocks each kind of layer group attends to |
//! | [`hash`] | from tokens to chained block keys |
//! | [`pool`] | blocks: owners, states, generations, the free list |
//! | [`index`] | from keys or tokens to resident blocks |
//! | [`policy`] | which block is evicted next, and which become findable |
//! | `store` | pool, index, policy and log together: blocks are obtained, published, evicted |
//! | [`tenants`] | whose blocks they are, how many each may keep, a policy for each |
//! | [`request`] | what an engine asks for, and one try of it |
//! | [`sequence`] | block tables, lengths, what is known of a request |
//! | [`manager`] | the operations: allocate, append, commit, release, fork, step |
//! | [`locks`] | pins: prefixes held against eviction |
//! | [`retention`] | how important blocks are, and for how long; sessions and hints on them |
//! | [`transfers`] | copies, loads, leases and joined computations in flight; what waits for a fence |
//! | [`tier`] | the pages of a lower tier, under the same policies |
//! | [`shadow`] | what policies and sizes beside the real one would have hit |
//! | [`slots`] | a contiguous slot for each sequence, prefixes copied from slot to slot |
//! | [`origins`] | the salt, adapter and session that a block came of |
//! | [`held_blocks`], [`attachments`] | blocks held by themselves; handles attached to a prefix |
//! | [`events`] | the ordered event log |
//! | [`router`] | which of many workers holds which prefix |
//! | [`stats`] | counters; why prefixes ended; keys seen lately; how long blocks live |
//!
//! The words are the field's own: a *block* is a fixed number of tokens' KV; a *cached* block is
//! unreferenced but findable; *commit* means computed and accepted.
#![forbid(unsafe_code)]

pub mod attachments;
pub mod error;
pub mod events;
pub mod groups;
pub mod hash;
pub mod held_blocks;
pub mod index;
pub mod locks;
pub mod manager;
pub mod options;
pub mod origins;
pub mod policy;
pub mod pool;
pub mod request;
pub mod retention;
pub mod router;
pub mod sequence;
pub mod shadow;
pub mod slots;
pub mod stats;
mod store;
pub mod tenants;
pub mod tier;
pub mod transfers;

pub use error::{Error, Limit, Result};
pub use hash::{HashAlgo, Key};
pub use manager::{Allocation, Manager};
pub use options::{Group, GroupKind, Options};
pub use origins::Scope;
pub use pool::{BlockId, NIL};
pub use request::{Attempt, Request};
pub use sequence::SeqId;
