//! What policies are built from: an order from a rank ([`RankOrder`]) or from a few classes
//! ([`ClassHeads`]), lists, memories of evicted keys, and counts.

pub(super) mod class_heads;
pub(super) mod ghosts;
pub(super) mod heap;
pub(super) mod priority_buckets;
pub(super) mod queue;
pub(super) mod rank_order;
pub(super) mod returns;
pub(super) mod scored;
pub(super) mod sketch;
pub(super) mod timers;
pub(super) mod turns;

pub use class_heads::{ClassHeads, Classes, Heads};
pub use priority_buckets::PriorityBuckets;
pub use rank_order::{Rank, RankOrder};
pub use scored::{Formula, Past, Scored};
pub use timers::Timers;
