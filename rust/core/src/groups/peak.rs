//! How many blocks a sequence holds at once on its way to a length.

use std::iter::once;

use super::Layout;
use super::layout::gcd;

/// How a sequence grows: tokens of its prompt in steps, those behind it one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Tokens that come in steps.
    pub prompt: u32,
    /// Tokens of a step at the most, above 0.
    pub chunk: u32,
    /// Steps start at multiples of this, counted from the first.
    pub grain: u32,
}

impl Pace {
    /// The pace of a prompt of `prompt` tokens in steps of `chunk`, the first of which starts at a
    /// multiple of `unit`.
    pub fn new(prompt: u32, chunk: u32, unit: u32) -> Self {
        let chunk = chunk.max(1);
        Self { prompt, chunk, grain: gcd(u64::from(chunk), u64::from(unit)) as u32 }
    }
}

impl Layout {
    /// The number of blocks that a sequence of `len` tokens holds at its peak, whatever is found of its
    /// prompt. It is exact if it is above `room`, and an upper bound otherwise. The groups need not peak at
    /// the same length.
    pub fn least(&self, len: u32, encoder: u32, pace: Pace, room: u64) -> u64 {
        if self.gives_up() {
            self.most(len, encoder, pace, room)
        } else {
            self.blocks(len, encoder)
        }
    }

    /// [`Layout::least`] for layouts in which some group gives blocks up.
    fn most(&self, len: u32, encoder: u32, pace: Pace, room: u64) -> u64 {
        let crossing = self.cross_blocks(encoder);
        let sum = |of: &dyn Fn(&super::GroupReach) -> u32| -> u64 {
            self.groups().iter().map(|reach| u64::from(of(reach))).sum()
        };
        let one_by_one = sum(&|reach| reach.most(len)) + crossing;
        let one_by_one = if one_by_one <= room || self.groups().len() == 1 {
            one_by_one
        } else {
            let held = |at| sum(&|reach| reach.held(at, at + 1, 0));
            self.peak(0..len, held).unwrap_or(0) + crossing
        };
        let in_steps = sum(&|reach| reach.most_in_steps(pace)) + crossing;
        if pace.chunk == 1 {
            return one_by_one;
        }
        if in_steps <= room {
            return one_by_one.max(in_steps);
        }
        let held = |at, to| sum(&|reach| reach.held(at, to, 0));
        one_by_one.max(self.peak_in_steps(0, pace, held).unwrap_or(0) + crossing)
    }

    /// The maximum of `held` over `lengths`. The caller: `held` rises only at lengths at which a block
    /// begins, and is not lower one period later. So this asks only for such lengths in the last period.
    pub fn peak<N: Ord>(
        &self,
        lengths: std::ops::Range<u32>,
        held: impl Fn(u32) -> N,
    ) -> Option<N> {
        let (start, end) = (u64::from(lengths.start), u64::from(lengths.end));
        let first = start.max(end.saturating_sub(self.period()));
        let size = u64::from(self.block_size());
        let begins = (first.next_multiple_of(size)..end).step_by(size as usize);
        once(first).filter(|&at| at < end).chain(begins).map(|at| held(at as u32)).max()
    }

    /// The maximum of `held` over the steps from `start` on. A step is given by two lengths: the tokens
    /// computed before it, and the tokens that have slots in it. As in [`Layout::peak`], this asks only for
    /// steps in the last period, and only for those that are the first to reach into a block.
    pub fn peak_in_steps<N: Ord>(
        &self,
        start: u32,
        pace: Pace,
        held: impl Fn(u32, u32) -> N,
    ) -> Option<N> {
        let (start, prompt) = (u64::from(start), u64::from(pace.prompt));
        let (chunk, size) = (u64::from(pace.chunk), u64::from(self.block_size()));
        let grain = u64::from(pace.grain);
        if start >= prompt {
            return None;
        }
        // The first step to start at `at` or behind it.
        let step_from = |at: u64| start + at.saturating_sub(start).next_multiple_of(grain);
        let ends_at = |at: u64| (at + chunk).min(prompt);
        // The last step that matters reaches the end of the prompt: later ones hold less before it.
        let last = step_from(prompt.saturating_sub(chunk));
        let last = if last < prompt { last } else { last - grain };
        let mut at = step_from(last.saturating_sub(self.period()));
        let mut most = held(last as u32, ends_at(last) as u32);
        while at < last {
            most = most.max(held(at as u32, ends_at(at) as u32));
            let begins = (at + chunk).next_multiple_of(size) + 1;
            at = step_from((at + 1).max(begins - chunk));
        }
        Some(most)
    }
}
