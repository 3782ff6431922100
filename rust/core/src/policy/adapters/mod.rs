//! What policies are built from: an order from a formula in one line ([`Formula`]), from a rank with state of
//! its own ([`Rank`]) or from a few classes ([`Classes`]), lists, memories of evicted keys, and counts.

pub(super) mod class_heads;
pub(super) mod dice;
pub(super) mod ghosts;
pub(super) mod heap;
pub(super) mod leaves;
pub(super) mod priority_buckets;
pub(super) mod queue;
pub(super) mod rank_order;
pub(super) mod returns;
pub(super) mod sampled;
pub(super) mod scored;
pub(super) mod sketch;
pub(super) mod timers;
pub(super) mod turns;

pub(crate) use ghosts::ByKey;

pub use class_heads::{ClassHeads, Classes, Heads};
pub use priority_buckets::PriorityBuckets;
pub use rank_order::{Rank, RankOrder};
pub use sampled::{Drawn, Sampled, Weighed};
pub use scored::{Formula, Past, Scored};
pub use timers::Timers;
