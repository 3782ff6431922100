//! Cousins of the built-in policies, kept to compare with: other orders of arrival and of use, which few
//! engines need, and what papers of 2026 propose. They are built in, tested and named as the others are.

mod asymcache;
mod clock;
mod filo;
mod hpt;
mod lfu_aged;
mod longest_first;
mod mq;
mod mru;
mod partial_node_random_compute;
mod random_compute;
mod random_quick_demotion;
mod rr_evict;
mod slru_decay;
mod slru_lists;
mod wlfu;

pub use asymcache::AsymCache;
pub use clock::Clock;
pub use filo::Filo;
pub use hpt::Hpt;
pub use lfu_aged::LfuAged;
pub use longest_first::LongestFirst;
pub use mq::Mq;
pub use mru::Mru;
pub use partial_node_random_compute::PartialNodeRandomCompute;
pub use random_compute::RandomCompute;
pub use random_quick_demotion::RandomQuickDemotion;
pub use rr_evict::RrEvict;
pub use slru_decay::SlruDecay;
pub use slru_lists::SlruLists;
pub use wlfu::Wlfu;
