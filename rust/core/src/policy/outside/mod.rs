//! What asks an eviction policy outside the core, in Python or behind the C header.

mod candidates;
mod consult;
mod external;
mod facts;
mod offering;

pub use candidates::Candidates;
pub use consult::{Choice, Consult, Decision};
pub use external::{BlockRow, EventKind, External, Journal, Subscriptions};
pub use facts::{Fact, Facts};
