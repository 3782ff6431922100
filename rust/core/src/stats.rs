//! Counters, each counted once and only at the place its name says.

/// Totals since the manager was built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sequences admitted (resumed ones apart).
    pub admissions: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Prompt tokens found, not to be computed.
    pub hit_tokens: u64,
    /// Admissions that found at least one token.
    pub admissions_with_hit: u64,
    /// Sequences that came back after a preemption.
    pub resumed: u64,
    /// Tokens that resumed sequences found again.
    pub resumed_hit_tokens: u64,
    /// Admissions refused for want of blocks.
    pub refused: u64,
    /// Blocks taken from the pool.
    pub allocated: u64,
    /// Blocks that became findable.
    pub stored: u64,
    /// Blocks computed although a copy was resident.
    pub duplicates: u64,
    /// Cached blocks that gave way.
    pub evictions: u64,
    /// Blocks copied before a write.
    pub copies: u64,
    /// Keys that matched while tokens did not.
    pub collisions: u64,
    /// Tokens whose KV came from elsewhere.
    pub loaded_tokens: u64,
    /// Copies and loaded pages that failed.
    pub failed_copies: u64,
    /// Prompt tokens that admissions left to a computation in flight.
    pub joined_tokens: u64,
    /// Table entries that gave way to a block findable already.
    pub remapped: u64,
}
