//! Cousins of the built-in policies, kept to compare with: other orders of arrival and of use, which few
//! engines need. They are built in, tested and named as the others are.

mod clock;
mod filo;
mod hpt;
mod lfu_aged;
mod longest_first;
mod mq;
mod mru;
mod slru_decay;
mod slru_lists;
mod wlfu;

pub use clock::Clock;
pub use filo::Filo;
pub use hpt::Hpt;
pub use lfu_aged::LfuAged;
pub use longest_first::LongestFirst;
pub use mq::Mq;
pub use mru::Mru;
pub use slru_decay::SlruDecay;
pub use slru_lists::SlruLists;
pub use wlfu::Wlfu;
