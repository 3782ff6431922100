//! What moved between tiers.

/// One tier.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TierCounts {
    /// Prompt tokens that requests had from here, loads after preemptions among them.
    pub loaded_tokens: u64,
    /// Bytes that came from here over its link.
    pub read_bytes: f64,
    /// Bytes that went here.
    pub written_bytes: f64,
    /// Pages that came from here: to the pool from host memory; from a tier below to one above it, or to the pool.
    pub read_pages: u64,
    /// Pages that entered, from the tier above.
    pub written_pages: u64,
    /// Pages that entered from a tier below, on their way to the pool.
    pub filled_pages: u64,
    /// Pages read from here that another server had put here.
    pub others_pages: u64,
    /// Pages that made room for others.
    pub evicted_pages: u64,
    /// From how many tokens on a load from here is faster than computing them; `None` if never.
    pub break_even: Option<u32>,
}

/// All tiers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TierReport {
    /// Each tier, host memory first.
    pub tiers: Vec<TierCounts>,
    /// By tier, for each request in the order of the trace: prompt tokens loaded from there when it first came
    /// in.
    pub loaded: Vec<Vec<u32>>,
    /// Preempted sequences that went to host memory and came back.
    pub swaps: u64,
    /// Pages of theirs that went out.
    pub swapped_out_pages: u64,
    /// Pages of theirs that came back; the pool still had the others.
    pub swapped_in_pages: u64,
    /// Transfers put off for want of room, or because too much was on its way.
    pub deferred: u64,
    /// Pages that came to the pool from below host memory and were not kept there.
    pub direct_pages: u64,
    /// Loads that went on without what was still below host memory.
    pub given_up: u64,
    /// Pages that were evicted while the tier below, if there is one, lacked them.
    pub dropped_pages: u64,
    /// Pages that came to the pool before a request asked for them.
    pub ahead_pages: u64,
    /// Those of them that a request then found there.
    pub ahead_used_pages: u64,
    /// Seconds in which no step could run since blocks were being copied out of the pool.
    pub stalled_seconds: f64,
}

impl TierReport {
    /// What the tiers of two servers did together.
    #[must_use]
    pub fn together(mut self, other: Self) -> Self {
        for (tier, of) in self.tiers.iter_mut().zip(other.tiers) {
            tier.loaded_tokens += of.loaded_tokens;
            tier.read_bytes += of.read_bytes;
            tier.written_bytes += of.written_bytes;
            tier.read_pages += of.read_pages;
            tier.written_pages += of.written_pages;
            tier.filled_pages += of.filled_pages;
            tier.others_pages += of.others_pages;
            tier.evicted_pages += of.evicted_pages;
        }
        for (column, of) in self.loaded.iter_mut().zip(other.loaded) {
            column.iter_mut().zip(of).for_each(|(tokens, more)| *tokens += more);
        }
        self.swaps += other.swaps;
        self.swapped_out_pages += other.swapped_out_pages;
        self.swapped_in_pages += other.swapped_in_pages;
        self.deferred += other.deferred;
        self.direct_pages += other.direct_pages;
        self.given_up += other.given_up;
        self.dropped_pages += other.dropped_pages;
        self.ahead_pages += other.ahead_pages;
        self.ahead_used_pages += other.ahead_used_pages;
        self.stalled_seconds += other.stalled_seconds;
        self
    }

    pub(super) fn of(count: usize) -> Self {
        let (tiers, loaded) = (vec![TierCounts::default(); count], vec![Vec::new(); count]);
        Self { tiers, loaded, ..Self::default() }
    }
}
