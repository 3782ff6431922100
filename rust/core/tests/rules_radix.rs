//! The rules that do not depend on keys or windows, over the radix index (the crate's name says so to
//! `common`).
// `order` and `verbs` are test crates of their own as well, with a `common` each.
#![allow(clippy::duplicate_mod)]

#[path = "common/mod.rs"]
mod common;
#[path = "rules/eviction.rs"]
mod eviction;
#[path = "rules/misuse.rs"]
mod misuse;
#[path = "order.rs"]
mod order;
#[path = "rules/pool.rs"]
mod pool;
#[path = "rules/retention.rs"]
mod retention;
#[path = "rules/sharing.rs"]
mod sharing;
#[path = "verbs.rs"]
mod verbs;
