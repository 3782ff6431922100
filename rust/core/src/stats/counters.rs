//! Counters, each counted once and only at the place its name says.

/// Totals since the manager was built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sequences allocated (resumed ones apart).
    pub requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Prompt tokens found, not to be computed.
    pub hit_tokens: u64,
    /// Of the allocations, those that asked not to read the cache.
    pub unread: u64,
    /// Their prompt tokens.
    pub unread_tokens: u64,
    /// Full blocks looked for: all that a prompt's lookup may cover.
    pub lookup_blocks: u64,
    /// Of those, found.
    pub hit_blocks: u64,
    /// Sum over allocations of the share of the prompt found, in millionths.
    pub hit_share_ppm: u64,
    /// Allocations that found at least one token.
    pub requests_with_hit: u64,
    /// Sequences that came back after a preemption.
    pub resumed: u64,
    /// Their tokens.
    pub resumed_tokens: u64,
    /// Tokens that resumed sequences found again.
    pub resumed_hit_tokens: u64,
    /// Tokens of resumed sequences that asked not to read the cache.
    pub resumed_unread_tokens: u64,
    /// Allocations refused for want of blocks.
    pub refused: u64,
    /// Blocks taken from the pool.
    pub allocated: u64,
    /// Blocks that became findable.
    pub stored: u64,
    /// Blocks computed although a copy was resident.
    pub duplicates: u64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Of these, those that made room ahead of need.
    pub evictions_ahead: u64,
    /// Of these, those for blocks that a caller took by themselves.
    pub evictions_for_taken: u64,
    /// Blocks copied before a write, on the device.
    pub copies: u64,
    /// Tokens in those blocks whose KV was needed.
    pub copied_tokens: u64,
    /// Sequences made by a fork.
    pub forks: u64,
    /// Blocks that callers took by themselves.
    pub taken: u64,
    /// Of those, blocks that came back.
    pub returned: u64,
    /// Keys that matched while tokens did not.
    pub collisions: u64,
    /// Loads that have ended, good or failed.
    pub loads: u64,
    /// Tokens whose KV came from elsewhere.
    pub loaded_tokens: u64,
    /// Leases given: pages held for a reader elsewhere.
    pub leases: u64,
    /// Tokens of those.
    pub leased_tokens: u64,
    /// Copies and loaded pages that failed.
    pub failed_copies: u64,
    /// Prompt tokens that allocations left to a computation in flight.
    pub joined_tokens: u64,
    /// Table entries whose block was replaced by one that was findable already.
    pub remapped: u64,
}
