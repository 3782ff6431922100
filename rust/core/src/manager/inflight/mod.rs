//! KV that comes from elsewhere, and KV that another sequence is computing: loads, joins, expiry.

mod computing;
pub(super) mod expiry;
mod join;
mod join_load;
mod load;
mod orphan;
