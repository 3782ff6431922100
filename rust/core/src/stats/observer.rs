//! Why allocations found no more, and what the last ones found.

use super::{Miss, MissReason, Reasons, Spaces, Window};
use crate::hash::Key;

/// Statistics of allocations; empty if they are off.
#[derive(Debug)]
pub(crate) struct Observer {
    on: bool,
    reasons: Reasons,
    window: Window,
    spaces: Spaces,
}

impl Observer {
    /// Nothing was allocated yet.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, reasons: Reasons::default(), window: Window::default(), spaces: Spaces::new(on) }
    }

    /// Whether anything is counted.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// The reasons so far, and the last prompts.
    pub(crate) fn prefixes(&self) -> Option<(&Reasons, &Window)> {
        self.on.then_some((&self.reasons, &self.window))
    }

    /// Whether the first block of a prompt was seen under another root lately.
    pub(crate) fn moved(&mut self, block: &[u32], root: Key) -> bool {
        self.spaces.moved(block, root)
    }

    /// Counts a prompt of which `cached` tokens were found.
    pub(crate) fn count(&mut self, miss: Miss, tokens: u32, cached: u32) {
        self.reasons.count(miss, tokens - cached);
        if miss.reason != MissReason::ReadSkipped {
            self.window.add(tokens, cached);
        }
    }
}
