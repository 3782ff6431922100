//! Whether the blocks that windows and states leave behind within a prompt are evicted first.
//!
//! They serve shorter prompts alone, and mostly the end of a prompt and the places where prompts part are all
//! that is found again. Where each prompt shares its beginning with one other only, nothing would be: then they
//! are kept as long as other blocks.

/// Of what full attention alone would have found, at least one token in so many has to be found.
const LEAST: u64 = 8;

/// Periods for which the blocks are kept once too little was found.
const KEPT: u32 = 4;

/// What was found of late, and what follows from it. A period is over when as many tokens were computed as the
/// pool has slots.
#[derive(Debug, Clone, Copy, Default)]
pub struct InnerBlocks {
    attended: u64,
    found: u64,
    computed: u64,
    /// Periods for which they are kept still.
    kept: u32,
}

impl InnerBlocks {
    /// A prompt was allocated, in tokens: what full attention alone would have found of it, what was found, and all
    /// of it. The pool has `slots`.
    pub fn note(&mut self, attended: u32, found: u32, prompt: u32, slots: u64) {
        self.attended += u64::from(attended.max(found));
        self.found += u64::from(found);
        self.computed += u64::from(prompt - found);
        if self.computed < slots {
            return;
        }
        let is_starved = self.attended > LEAST * self.found;
        self.kept = if is_starved { KEPT } else { self.kept.saturating_sub(1) };
        (self.attended, self.found, self.computed) = (0, 0, 0);
    }

    /// Whether they are evicted before others.
    #[inline]
    pub fn go_first(&self) -> bool {
        self.kept == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_kept_for_some_periods_after_one_in_which_next_to_nothing_was_found() {
        let mut inner = InnerBlocks::default();
        inner.note(80, 10, 150, 100);
        assert!(inner.go_first(), "one token in eight was found");
        inner.note(79, 9, 50, 100);
        assert!(inner.go_first(), "the period is not over");
        inner.note(0, 0, 59, 100);
        assert!(!inner.go_first());
        for _ in 1..KEPT {
            inner.note(100, 100, 200, 100);
            assert!(!inner.go_first());
        }
        inner.note(0, 0, 100, 100);
        assert!(inner.go_first(), "nothing was shared: nothing was lost");
    }
}
