//! Why prefixes ended where they did, and what the last requests found.

use crate::options::MAX_GROUPS;

/// Why an allocation found no more of its prompt. An allocation has one reason: the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum MissReason {
    /// Fewer tokens are left than the smallest unit that can be reused: a block, or the unit that all
    /// groups share.
    #[default]
    BelowUnit = 0,
    /// All was found but the block with the last token, which is always computed (rule 5).
    LastToken = 1,
    /// The next block's key was not seen lately.
    NeverSeen = 2,
    /// The next block was evicted lately.
    Evicted = 3,
    /// The next block was forgotten lately: a reset, a pool that shrank.
    Cleared = 4,
    /// The prompt was seen lately, under another salt, adapter, encoder input or other weights.
    OtherSpace = 5,
    /// The next block's key stands for other tokens.
    Collision = 6,
    /// Another layer group could have gone on; the one named could not.
    Group = 7,
    /// The manager looks nothing up.
    CachingOff = 8,
    /// The request asked not to look (`read_cache = false`), or its other input has no name.
    ReadSkipped = 9,
}

/// How many reasons there are.
pub const REASONS: usize = 10;

impl MissReason {
    /// All of them, each at its number.
    pub const ALL: [Self; REASONS] = [
        Self::BelowUnit,
        Self::LastToken,
        Self::NeverSeen,
        Self::Evicted,
        Self::Cleared,
        Self::OtherSpace,
        Self::Collision,
        Self::Group,
        Self::CachingOff,
        Self::ReadSkipped,
    ];

    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::BelowUnit => "below_unit",
            Self::LastToken => "last_token",
            Self::NeverSeen => "never_seen",
            Self::Evicted => "evicted",
            Self::Cleared => "cleared",
            Self::OtherSpace => "other_space",
            Self::Collision => "collision",
            Self::Group => "group",
            Self::CachingOff => "caching_off",
            Self::ReadSkipped => "read_skipped",
        }
    }
}

/// Where and why the prefix of one allocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Miss {
    /// Why.
    pub reason: MissReason,
    /// Which layer group could not go on.
    pub group: u8,
    /// Full blocks that were looked for.
    pub wanted: u32,
    /// Ticks since the next block left the cache; `None` if no recent departure is remembered.
    pub ago: Option<u64>,
}

/// Requests of the rolling window.
pub const WINDOW: usize = 1000;

/// What the last [`WINDOW`] allocations asked for and found; resumed ones are not among them.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// (prompt tokens, hit tokens), the oldest at `next` once it is full.
    recent: Vec<(u32, u32)>,
    next: usize,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Of those, found.
    pub hit_tokens: u64,
    /// Allocations that found something.
    pub with_hit: u64,
}

impl Window {
    /// One more allocation; the oldest leaves.
    pub fn add(&mut self, prompt: u32, hit: u32) {
        if self.recent.len() < WINDOW {
            if self.recent.capacity() == 0 {
                self.recent.reserve_exact(WINDOW);
            }
            self.recent.push((prompt, hit));
        } else {
            let (old_prompt, old_hit) =
                std::mem::replace(&mut self.recent[self.next], (prompt, hit));
            self.prompt_tokens -= u64::from(old_prompt);
            self.hit_tokens -= u64::from(old_hit);
            self.with_hit -= u64::from(old_hit > 0);
            self.next = (self.next + 1) % WINDOW;
        }
        self.prompt_tokens += u64::from(prompt);
        self.hit_tokens += u64::from(hit);
        self.with_hit += u64::from(hit > 0);
    }

    /// Allocations in it.
    pub fn len(&self) -> usize {
        self.recent.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }
}

/// Allocations and prompt tokens not found, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasons {
    /// (allocations, tokens that were not found) of each reason.
    pub tally: [(u64, u64); REASONS],
    /// Allocations that each layer group cut short ([`MissReason::Group`]).
    pub groups: [u64; MAX_GROUPS],
}

impl Reasons {
    /// Counts one allocation that did not find `tokens` of its prompt.
    pub fn count(&mut self, miss: Miss, tokens: u32) {
        let (requests, missed) = &mut self.tally[miss.reason as usize];
        *requests += 1;
        *missed += u64::from(tokens);
        if miss.reason == MissReason::Group {
            self.groups[miss.group as usize] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // scenario: VT48
    #[test]
    fn the_window_is_of_the_last_thousand() {
        let mut window = Window::default();
        window.add(10, 4);
        for _ in 0..999 {
            window.add(2, 0);
        }
        assert_eq!((window.len(), window.prompt_tokens), (1000, 2008));
        assert_eq!((window.hit_tokens, window.with_hit), (4, 1));
        window.add(8, 8);
        assert_eq!((window.len(), window.prompt_tokens), (1000, 2006));
        assert_eq!((window.hit_tokens, window.with_hit), (8, 1));
    }

    #[test]
    fn reasons_have_the_number_of_their_place() {
        for (i, reason) in MissReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
    }
}
