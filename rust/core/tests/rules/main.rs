//! The core rules of the design, each by its number.

#[path = "../common/mod.rs"]
mod common;
mod eviction;
mod groups;
mod keys;
mod misuse;
mod pool;
mod retention;
mod sessions;
mod sharing;
mod waiting;
