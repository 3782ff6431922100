//! The rules that do not depend on keys or windows, over the radix index (the crate's name says so to
//! `common`).
// `verbs` is a test crate of its own as well, with its own `common`.
#![allow(clippy::duplicate_mod)]

#[path = "common/mod.rs"]
mod common;
#[path = "rules/eviction.rs"]
mod eviction;
#[path = "rules/misuse.rs"]
mod misuse;
#[path = "rules/pool.rs"]
mod pool;
#[path = "rules/sharing.rs"]
mod sharing;
#[path = "verbs.rs"]
mod verbs;
