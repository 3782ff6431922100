//! The end of a sequence: release, abort, preemption; fences that its blocks wait for.

mod ended;
mod fence;
pub(super) mod preemption;
mod release;
