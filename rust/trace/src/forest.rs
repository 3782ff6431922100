//! The trace in memory: requests in order of time, each a chain of interned prefix nodes.

use std::borrow::Cow;

use crate::time::TimeUnit;

/// Parent of a request's first node.
pub const ROOT: u32 = u32::MAX;
/// [`TraceRequest::session`] of a request whose row names no session.
pub const NO_SESSION: u32 = u32::MAX;
/// Tokens a block where neither the rows nor the caller say.
pub const DEFAULT_BLOCK_SIZE: u32 = 512;
/// Largest block a trace may have, in tokens.
pub const MAX_BLOCK_SIZE: u32 = 65_536;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Arrival in milliseconds (fractions are rounded); never before the request above.
    pub timestamp_ms: i64,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens generated.
    pub output_tokens: u32,
    /// Sessions are numbered from 0 in order of first appearance; [`NO_SESSION`] where the row names none.
    pub session: u32,
    /// Where the request's nodes start in [`Trace::nodes`]; its last node where they are not listed.
    pub start: usize,
    /// How many nodes: the floor or the ceil of `input_tokens / block_size`.
    pub blocks: u32,
}

/// A trace as a forest of prefix nodes.
///
/// Nodes are numbered from 0 in order of first appearance, so a parent's number is below its child's.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Short name, for tables: the file's name without its endings, or the name a compact file gives itself.
    pub name: String,
    /// Where the trace comes from; empty where the file does not say.
    pub source: String,
    /// Its licence, an SPDX name; empty where the file does not say.
    pub licence: String,
    /// Tokens a block.
    pub block_size: u32,
    /// In order of time; rows of equal time keep the file's order.
    pub requests: Vec<TraceRequest>,
    /// The nodes of all requests, one chain after the other, each from the root on. Empty if there are too
    /// many to list; chains are then read from `parents`.
    pub nodes: Vec<u32>,
    /// Whether `nodes` holds the chains.
    pub(crate) listed: bool,
    /// Parent of each node, [`ROOT`] where a chain starts.
    pub parents: Vec<u32>,
    /// Each session as policies know it ([`kvframe_core::sequence::session_id`]), by its number.
    pub sessions: Vec<u64>,
    /// Classes of requests that rows name (`type`), in order of first appearance.
    pub classes: Vec<String>,
    /// Class of each request: its place in `classes` plus 1, or 0 for none. Empty where no row names one.
    pub class_of: Vec<u8>,
    /// Whether one id was seen behind different ids. Such ids name single blocks, not prefixes, and the
    /// reader has chained them.
    pub ids_repeat: bool,
    /// Bytes read, after decompression.
    pub bytes: u64,
    /// Wall time of reading, decompressing, parsing, checking and interning.
    pub parse_seconds: f64,
    /// What the rows' times were taken to be in.
    pub time_unit: TimeUnit,
    /// Whether another unit is as likely: the rows' form alone indicated this one, and their
    /// numbers did not confirm it.
    pub unit_in_doubt: bool,
}

impl Trace {
    /// The nodes of request `index`, from the root on.
    ///
    /// # Panics
    /// If `index` is not below `requests.len()`.
    pub fn chain(&self, index: usize) -> Cow<'_, [u32]> {
        self.prefix(index, self.requests[index].blocks as usize)
    }

    /// The first `blocks` of them.
    ///
    /// # Panics
    /// If `index` is not below `requests.len()`, or the request has fewer.
    pub fn prefix(&self, index: usize, blocks: usize) -> Cow<'_, [u32]> {
        let request = &self.requests[index];
        if self.listed {
            return Cow::Borrowed(&self.nodes[request.start..request.start + blocks]);
        }
        let mut nodes = vec![ROOT; request.blocks as usize];
        let mut node = request.start as u32;
        for place in nodes.iter_mut().rev() {
            *place = node;
            node = self.parents[node as usize];
        }
        assert!(blocks <= nodes.len(), "the request has {} blocks", nodes.len());
        nodes.truncate(blocks);
        Cow::Owned(nodes)
    }

    /// When request `index` arrives, in seconds, if the time since the first arrival is divided by
    /// `load`.
    ///
    /// # Panics
    /// If `index` is not below `requests.len()`.
    pub fn arrival(&self, index: usize, load: f64) -> f64 {
        let (first, at) = (self.requests[0].timestamp_ms, self.requests[index].timestamp_ms);
        // In whole milliseconds as long as it can be: a load of 1 changes no bit.
        (first as f64 + (at - first) as f64 / load) / 1_000.0
    }

    /// Tokens of all prompts.
    pub fn input_tokens(&self) -> u64 {
        self.requests.iter().map(|r| u64::from(r.input_tokens)).sum()
    }
}
