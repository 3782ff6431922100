//! Policies outside the core: in Python, or compiled.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`host`] | a core behind its lock, and the eviction policy that is consulted without it |
//! | [`asker`] | how a policy in Python of any kind is asked: columns in, an array out, failures counted |
//! | [`eviction`], [`column`] | which blocks are evicted, asked of a Python policy |
//! | [`admission`] | which blocks become findable, asked of a Python policy |
//! | [`prefix`] | what a matcher in Python said of prompts |
//! | [`native`] | a compiled policy, taken from a capsule or from addresses |
//! | [`turn`] | events are delivered to a policy by one thread at a time |
//! | [`reusable_array`] | arrays that a policy is lent for one decision after the other |

pub mod admission;
pub mod asker;
mod column;
pub mod eviction;
pub mod host;
pub mod native;
pub mod prefix;
mod reusable_array;
mod turn;
