//! The decisions of a KV cache: which blocks live, who shares them, which die next.
//!
//! Pure Rust, no Python, no I/O, no clocks, no bytes of KV. The map, in the order data flows:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`options`], [`error`] | what a manager is built from; what is refused, and why |
//! | [`groups`] | what each kind of layers attends to, in blocks |
//! | [`hash`] | tokens to chained block keys |
//! | [`pool`] | blocks: owners, states, generations, the free list |
//! | [`index`] | keys to resident blocks |
//! | [`policy`] | which block dies next |
//! | [`sequence`] | block tables, lengths, what is known of a request |
//! | [`manager`] | admit, append, commit, release, fork, step: the verbs |
//! | [`locks`] | paths that somebody holds against eviction |
//! | [`retention`] | how important blocks are, for how long; sessions and what they are told |
//! | [`tickets`] | copies under way and the blocks they hold |
//! | [`tier`] | blocks without prefixes under the same policies |
//! | [`slots`] | a contiguous slot for each sequence, prefixes copied from slot to slot |
//! | [`hands`], [`attached`] | blocks held one by one; what is attached to a prefix |
//! | [`events`], [`asked`] | the ordered log, and what was asked for it |
//! | [`router`] | which of many workers holds which prefix |
//! | [`stats`], [`reasons`], [`ghosts`], [`samples`] | counters, why prefixes ended, how long blocks live |
//!
//! The words are the field's own: a *block* is a fixed number of tokens' KV; a *cached* block is
//! unreferenced but findable; *commit* means computed and accepted.
#![forbid(unsafe_code)]

pub mod asked;
pub mod attached;
pub mod error;
pub mod events;
pub mod ghosts;
pub mod groups;
pub mod hands;
pub mod hash;
pub mod index;
pub mod locks;
pub mod manager;
pub mod options;
pub mod policy;
pub mod pool;
pub mod reasons;
pub mod retention;
pub mod router;
pub mod samples;
pub mod sequence;
pub mod slots;
pub mod stats;
pub mod tickets;
pub mod tier;

pub use error::{Error, Result};
pub use hash::{HashAlgo, Key};
pub use manager::{Admission, Fit, Grant, Manager, Prompt};
pub use options::{Group, GroupKind, Options};
pub use pool::{BlockId, NIL};
pub use sequence::SeqId;
