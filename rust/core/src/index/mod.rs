//! From keys to resident blocks.

mod hash;

pub use hash::{Found, HashIndex, Proof};
