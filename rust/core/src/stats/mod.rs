//! What a cache counts, and what it remembers to explain why a prompt missed.

mod counters;
mod ghosts;
mod observer;
mod reasons;
mod samples;

pub use counters::Stats;
pub use ghosts::{RecentKeys, Removal, Spaces};
pub(crate) use observer::Observer;
pub use reasons::{Miss, MissReason, REASONS, Reasons, WINDOW, Window};
pub use samples::{BUCKETS, Histogram, Samples};
