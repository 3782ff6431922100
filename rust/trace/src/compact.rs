//! kvframe's compact form: a trace as the prefixes it shares, small enough to ship.
//!
//! Text, gzip as a rule. The first line is `#kvframe-trace 1 ` and a JSON object with `name`, `block_size`, `requests`, `source` and
//! `licence`. Then one CSV line a request, in the trace's order, with seven integers:
//!
//! | column | meaning |
//! | --- | --- |
//! | `session` | number of the session, from 0 in order of first appearance; empty for none |
//! | `timestamp_ms` | milliseconds since the request above (the first: since 0) |
//! | `input` | prompt tokens |
//! | `output` | generated tokens |
//! | `parent_row` | index of the request that first had the last block shared; empty if none is |
//! | `shared_blocks` | how many blocks are that request's, from the root on |
//! | `new_blocks` | how many follow that no request above has |
//!
//! Ids are not kept: a cache depends only on which blocks two requests share.

use serde::{Deserialize, Serialize};

pub(crate) use read::read;

mod read;
mod write;

const MAGIC: &str = "#kvframe-trace ";
const VERSION: u32 = 1;

/// The JSON object of the first line.
#[derive(Serialize, Deserialize)]
struct Header {
    name: String,
    block_size: u32,
    requests: u64,
    source: String,
    licence: String,
}

/// Whether a file's first line is the compact form's.
pub(crate) fn is_header(line: &str) -> bool {
    line.starts_with(MAGIC)
}

#[cfg(test)]
mod tests;
