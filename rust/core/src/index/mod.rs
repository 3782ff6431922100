//! From keys to resident blocks.

mod hash;
pub mod radix;

pub use hash::{Found, HashIndex, Proof};
pub use radix::Radix;
