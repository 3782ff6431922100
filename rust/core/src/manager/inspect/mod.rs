//! Looking inside: tables as runs of pages, counters, dumps, snapshots, integrity.

mod account;
pub(super) mod dump;
mod integrity;
mod note;
pub(super) mod read;
pub(super) mod snapshot;
