//! What came of each request, and of all of them.

use crate::tiers::report::TierReport;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// It was not served to its end.
    #[default]
    Unfinished,
    /// It was.
    Finished,
    /// It was larger than the whole pool.
    Rejected,
}

/// One request. Times are seconds of the trace's clock; those that never came are NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRecord {
    /// What came of it.
    pub fate: Fate,
    /// It arrived.
    pub arrival: f64,
    /// It first got blocks.
    pub start: f64,
    /// The first token of its answer was there.
    pub first_token: f64,
    /// The last one was.
    pub end: f64,
    /// Prompt tokens found in the pool when it first came in.
    pub cached_tokens: u32,
    /// Prompt tokens that another request was computing then, and that this one waited for.
    pub joined_tokens: u32,
    /// Prompt tokens that came from another engine's pool then.
    pub peer_tokens: u32,
    /// Tokens computed again after preemptions.
    pub recomputed_tokens: u32,
    /// How often it was preempted.
    pub preemptions: u32,
}

impl Default for RequestRecord {
    fn default() -> Self {
        Self {
            fate: Fate::default(),
            arrival: f64::NAN,
            start: f64::NAN,
            first_token: f64::NAN,
            end: f64::NAN,
            cached_tokens: 0,
            joined_tokens: 0,
            peer_tokens: 0,
            recomputed_tokens: 0,
            preemptions: 0,
        }
    }
}

/// What a simulation counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerReport {
    /// A record a request, in the order of the trace.
    pub requests: Vec<RequestRecord>,
    /// Seconds between a token and the one before it, and how many tokens came after that long. Beyond a
    /// million different ones they are rounded by a part in 8,192 at most.
    pub gaps: Vec<(f64, u32)>,
    /// Scheduler steps.
    pub steps: u64,
    /// Seconds in which a step ran.
    pub busy_seconds: f64,
    /// Tokens computed of prompts, and again after preemptions.
    pub prefill_tokens: u64,
    /// Tokens computed of answers, one a sequence and step, and the drafts that were right.
    pub decode_tokens: u64,
    /// Drafts that were verified and wrong.
    pub wrong_drafts: u64,
    /// Of the tokens that a preempted request had not computed yet, those that were found in the cache
    /// when it came back.
    pub found_on_return: u64,
    /// Blocks with an owner, times seconds.
    pub block_seconds: f64,
    /// The most requests that waited at once.
    pub peak_waiting: u64,
    /// Requests that waited after the first step that followed the last arrival.
    pub waiting_at_last_arrival: u64,
    /// When the last request arrived.
    pub last_arrival: f64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Tokens whose KV came from servers that had computed them.
    pub handed_tokens: u64,
    /// Tokens whose blocks came from other engines' pools, and their bytes.
    pub peer_tokens: u64,
    /// See there.
    pub peer_bytes: f64,
    /// What the tiers below the pool did, where there are any.
    pub tiers: Option<TierReport>,
}
